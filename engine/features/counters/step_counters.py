"""Counts of `perf stat` for a server's processes in a step, by role.

They run from the step's start to its end, like server CPU. Stopped processes, such as a server's during another one's
slices, count nothing: counts cover the same time as the step's operations.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Self

from engine.core.errors import UserError
from engine.core.perf_events import EVENTS, OTHERS, EventCount
from engine.features.counters import perf
from engine.features.counters.perf import Counting
from engine.features.feature import MeasuredStep
from engine.host.procfs import children
from engine.system.account import Account
from workloads.client.counter_page import Word

ATTEMPTS = 3  # attaching fails if a process ends meanwhile
USER_ONLY = "counted outside the kernel only: others than root may see no more"
# An event may have a counter for part of the time only; its count over all of it is extrapolated.
LEAST_SHARE, WHOLE_SHARE = 0.5, 0.995
NO_PMU = "this machine shows no PMU, as most virtual machines"


@dataclass(slots=True)
class Counted:
    """Counts by role and event; `note` names missing ones."""

    roles: dict[str, dict[str, EventCount]] = field(default_factory=dict)
    note: str = ""


def engine_account() -> Account:
    return Account(str(os.geteuid()), os.geteuid(), os.getegid(), switch=False)


@cache
def lacking(program: str) -> str:
    """The reason why this perf counts no hardware events on this machine; empty if it does. Tried once."""
    if not program:
        return "there is no perf"
    try:
        there = perf.trial(program, engine_account())
    except UserError as error:
        return str(error)
    return "" if there & {event.name for event in EVENTS if event.hardware} else NO_PMU


def not_here(lack: str) -> str:
    return f"no hardware counters here: {lack}"


def server_roles(postmaster: int, backends: Mapping[int, str], monitor: int) -> dict[int, str]:
    """Roles by pid. Processes started later, such as parallel workers, are counted with the postmaster."""
    others = {pid: OTHERS for pid in (postmaster, *children(postmaster)) if pid != monitor}
    return others | {pid: role for pid, role in backends.items() if pid in others}


def believed(roles: Mapping[str, Mapping[str, EventCount]]) -> tuple[dict[str, dict[str, EventCount]], list[str]]:
    """Drop events counted for less than half of the time, as others use counters, too; return remarks on them."""
    kept: dict[str, dict[str, EventCount]] = {role: {} for role in roles}
    withheld, shares = set[str](), list[float]()
    for role, counts in roles.items():
        for event, count in counts.items():
            share = count.running_ns / count.enabled_ns if count.enabled_ns else 1.0
            if share < LEAST_SHARE:
                withheld.add(event)
                continue
            kept[role][event] = count
            shares.append(share)
    notes = []
    if withheld:
        names = ", ".join(event.name for event in EVENTS if event.name in withheld)
        notes.append(f"{names}: withheld, counted in less than half of the time, as other programs use the counters")
    if (least := min(shares, default=1.0)) < WHOLE_SHARE:
        notes.append(f"counts are extrapolated: counters took turns, the least was counted in {least:.0%} of the time")
    return kept, notes


class StepCounters:
    """Counts over the processes of one step. Never raises: if nothing can be counted, the note says why."""

    def __init__(self, program: str, roles: Callable[[], Mapping[int, str]], lack: str = "") -> None:
        """Count nothing with a `lack`. Roles by pid may change while perf attaches."""
        self._counting: Counting | None = None
        self._roles: Mapping[int, str] = {}
        self.counted = Counted()
        if lack:
            self.counted.note = not_here(lack)
            return
        for _ in range(ATTEMPTS):
            self._roles = roles()
            try:
                self._counting = Counting(program, sorted(self._roles))
                self.counted = Counted()
                return
            except UserError as error:
                self.counted.note = f"no counters: {error}"

    @classmethod
    def of_step(cls, program: str, of: MeasuredStep) -> Self:
        """Counters of a step's server processes; its page names the roles of their backends."""
        pids = [of.page.word(place, Word.BACKEND_PID) for place in range(len(of.step.roles))] if of.page else []
        backends = {pid: role.name for pid, role in zip(pids, of.step.roles, strict=False)}
        return cls(program, lambda: server_roles(of.postmaster, backends, of.monitor), lacking(program))

    def start(self) -> None:
        self._try(lambda counting: counting.start())

    def finish(self) -> None:
        """Read the counts at the step's end, while its connections are still open."""
        self._try(lambda counting: counting.stop())
        self._try(self._take)

    def close(self) -> None:
        if self._counting is not None:
            self._counting.close()
            self._counting = None

    def _take(self, counting: Counting) -> None:
        for pid, counts in counting.end().items():
            known = self.counted.roles.setdefault(self._roles[pid], {}) if pid in self._roles else {}
            for event, count in counts.items():
                known[event] = known[event] + count if event in known else count
        self._counting = None
        self.counted.roles, doubts = believed(self.counted.roles)
        self.counted.note = "; ".join([*([USER_ONLY] if counting.user_only else []), *doubts])

    def _try(self, act: Callable[[Counting], None]) -> None:
        if self._counting is None:
            return
        try:
            act(self._counting)
        except UserError as error:
            self.counted = Counted(note=f"no counters: {error}")
            self.close()

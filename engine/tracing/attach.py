"""The probes of a cell: attached before its clients start, read once a second, recorded by role.

Nothing here waits for bpftrace while a step is measured, and no failure of a probe ends a step: messages become events
`probe`, gaps in figures events `probe_gap`.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Self

from engine.core.clock import patient
from engine.core.model import Build
from engine.core.resource import Closing
from engine.journal.writer import JournalWriter
from engine.tracing import selection, stacks
from engine.tracing.selection import Choice
from engine.tracing.step_frames import ProbedStep
from probes import attach_points, elf, figures, folding, requirements, timing
from probes.errors import ProbeError
from probes.session import START_TIMEOUT_S, ProbeSession, ProbeState, Target
from probes.table import SCRIPTED, WAITS

WHOLE = 0.95  # report if stacks cover less of the time: a full map, or missed seconds
MESSAGES_MAX = 20  # per probe and cell: repeated messages must not fill the journal
PERIOD_S = 1.0
LAST_FRAME_S = patient(1.6)  # wait for the last frame after a step
STALLS_MAX = 20  # attachments of a probe around stalls, per step
IDLE_S = 1.5  # maximum time that bpftrace's pipe is left unread between steps

_facts = cache(selection.facts)  # the machine's facilities when the engine first asked


@dataclass(slots=True)
class _Open:
    choice: Choice
    session: ProbeSession
    messages: int = 0
    gaps: int = 0
    silent_told: bool = False
    frame_ns: int = 0  # end of the last frame


@dataclass(eq=False)
class Probing(Closing):
    """The probes of a cell, over a server without clients. `check` is called while probes start, and may raise."""

    choices: Sequence[Choice]
    build: Build
    postmaster: int
    journal: JournalWriter
    attempt: int
    cell_dir: Path
    _: KW_ONLY
    allow_slow: bool = False
    check: Callable[[], None] = lambda: None
    unavailable: str = ""  # why probes are impossible

    def __post_init__(self) -> None:
        self._choices = {choice.probe: choice for choice in self.choices}
        # Not the installed file, which may be a wrapper script.
        binary = Path(f"/proc/{self.postmaster}/exe")
        self._target = Target(
            self.postmaster,
            binary.readlink() if not self.unavailable else binary,
            self.build.major,
            launchers=(os.getpid(),),
        )
        self.running: dict[str, _Open] = {}
        self.ending: list[_Open] = []
        self._step: ProbedStep | None = None
        self._message_counts: Counter[str] = Counter()
        self._polled_s = 0.0
        self._space: folding.Space | None = None

    def __enter__(self) -> Self:
        if not self.unavailable:
            self._read_binary()
        missing = selection.lacks(self._choices, _facts()) if self._choices else {}
        for line in dict.fromkeys(missing.values()):
            self._say(next(probe for probe in missing if missing[probe] == line), line)
        for probe in missing:
            del self._choices[probe]
        try:
            for choice in self._choices.values():
                if not choice.mode:
                    self._start(choice)
            self._await_baselines()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """End all probes; takes a fraction of a second, some seconds if bpftrace hangs."""
        everything = [*self.running.values(), *self.ending]
        for one in everything:
            one.session.ask_stop()  # all at once, so that they end in parallel
        for one in everything:
            one.session.stop()
        self.running, self.ending = {}, []
        for one in everything:
            self._record_words(one)

    # -- for the step

    def begin_step(
        self, step: int, started_ns: int, roles: Mapping[int, str], clients: Sequence[int], *, busy: bool
    ) -> None:
        """Start a step: `clients` are non-server pids, `busy` if statements will run. The caller commits."""
        self.poll()
        self._step = ProbedStep(step, started_ns, roles, tuple(clients), busy)
        self._arm()
        for one in self.running.values():
            self._look_active(one)
        self._retarget()

    def watch(self, *, stalling: bool = False) -> None:
        """Once a second, read frames and attach or detach; at once if `stalling`. Never waits; called often."""
        step = self._step
        if step is None:
            return
        t_ns = time.monotonic_ns()
        if stalling:
            step.stalled_ns = t_ns
            for choice in self._of_mode("stalls"):
                self._follow(choice, True, step)
        if time.monotonic() - self._polled_s < PERIOD_S:
            return
        self.poll()
        for choice in self._of_mode("stalls"):
            self._follow(choice, timing.around_stall(t_ns, step.stalled_ns), step)
        for choice in self._of_mode("window"):
            self._follow(choice, timing.in_window(t_ns, step.started_ns), step)

    def finish_step(
        self, ended_ns: int, name: str
    ) -> tuple[dict[str, dict[str, figures.ProbeRecord]], tuple[str, ...]]:
        """Wait for the step's last frames; return its counts by role, and the active probes."""
        step = self._step
        assert step is not None
        step.ended_ns = ended_ns
        until_s = time.monotonic() + LAST_FRAME_S
        while time.monotonic() < until_s and any(
            one.session.state is ProbeState.RUNNING and one.frame_ns < ended_ns for one in self.running.values()
        ):
            self.poll()
            time.sleep(0.02)
        for probe, one in list(self.running.items()):
            if one.choice.mode:
                self._end(probe)
        step.conclude()
        for probe, of_all in step.folded.items():
            self._keep_stacks(probe, name, step, stacks.by_role(of_all))
        self._step = None
        self._retarget()
        return step.totals, tuple(sorted(step.active))

    def _keep_stacks(self, probe: str, name: str, step: ProbedStep, by_role: Mapping[str, Mapping[str, int]]) -> None:
        for role, folded in by_role.items():
            try:
                stacks.write_folded(self.cell_dir, name, role, folded, probe)
            except OSError as error:
                self._say(probe, f"probes: {probe}: stacks of {name} are not kept: {error.strerror}")
        if probe == "offcpu":
            records = [record[probe] for record in step.totals.values() if probe in record]
            counted_us = sum(record.get(f"{kind}_us", 0) for record in records for kind in WAITS)
            part = sum(map(sum, (folded.values() for folded in by_role.values()))) / counted_us if counted_us else 1.0
            if part < WHOLE:
                self._say(probe, f"probes: {probe}: {1 - part:.0%} of the time off the CPU in {name} has no stack")

    def poll(self) -> None:
        """Record frames and messages that have arrived."""
        self._polled_s = time.monotonic()
        for one in [*self.running.values(), *self.ending]:
            frames = one.session.poll()
            self._look_active(one)
            for frame in frames:
                one.frame_ns = frame.t_ns
                for row in self._step.add(frame, one.choice.mode, self._space) if self._step else ():
                    self.journal.add_probe_frame(row)
            self._record_words(one)
        for probe in [probe for probe, one in self.running.items() if one.session.state is ProbeState.FAILED]:
            self.ending.append(self.running.pop(probe))  # can be switched on again
            if self._step is not None:
                self._step.decided.add(probe)  # but is not restarted automatically
        for one in [one for one in self.ending if one.session.over]:
            one.session.stop()  # returns at once
            self.ending.remove(one)

    def idle(self) -> None:
        """Called between steps, so that bpftrace never waits for a reader."""
        if self._step is None and self.running and time.monotonic() - self._polled_s > IDLE_S:
            self.poll()

    def switch(self, name: str, on: bool) -> str:
        """Attach or detach a probe now, for the rest of the cell; return why not, or an empty string."""
        choice = selection.choice_of(name)
        if self.unavailable:
            return self.unavailable
        if choice.probe in selection.ALWAYS:
            return f"{choice.probe} is always on"
        if choice.probe not in SCRIPTED:
            return f"{choice.probe} must be there when the server starts: name it in --probes of bench run"
        if not on:
            was = self._choices.pop(choice.probe, None)
            if choice.probe in self.running:
                self._end(choice.probe)
            elif was is None:
                return f"{choice.probe} is not on"
            return ""
        if choice.probe in self.running:
            return f"{choice.probe} is on already"
        reason = selection.lacks((choice.probe,), _facts()).get(choice.probe, "")
        if reason:  # as of the start of the run: it may have been remedied
            _facts.cache_clear()
            reason = selection.lacks((choice.probe,), _facts()).get(choice.probe, "")
        if not reason and not choice.mode:
            reason = self._start(choice)
        if not reason:
            self._choices[choice.probe] = choice
            self._arm()
        return reason

    # -- attaching

    def _start(self, choice: Choice) -> str:
        """Start a probe without waiting for it; return and record why it is not available."""
        target = replace(self._target, clients=self._step.clients) if self._step else self._target
        session = ProbeSession(
            target,
            choice.probe,
            folder=self.cell_dir / "probes",
            allow_slow=self.allow_slow,
            tracking=requirements.trackable(_facts()),
            mount_tracefs=os.geteuid() == 0,
        )
        try:
            if choice.probe in stacks.FOLDERS and self._space is None:
                self._space = self._read_space(choice.probe)
            session.start()
        except Exception as error:  # any: it ends the probe, not the cell
            reason = str(error) if isinstance(error, (ProbeError, OSError)) else f"{type(error).__name__}: {error}"
            self._say(choice.probe, reason)
            return reason
        self.running[choice.probe] = _Open(choice, session)
        return ""

    def _end(self, probe: str) -> None:
        one = self.running.pop(probe)
        one.session.ask_stop()
        self.ending.append(one)

    def _await_baselines(self) -> None:
        """Wait for each probe's first reading, from which it counts."""
        until_s = time.monotonic() + START_TIMEOUT_S
        for one in self.running.values():
            while one.session.state in (ProbeState.STARTING, ProbeState.RUNNING) and time.monotonic() < until_s:
                if one.session.wait_baseline(0.05):
                    break
                self.check()
        self.poll()

    def _retarget(self) -> None:
        """Set the clients to follow if bpftrace must be restarted."""
        clients = self._step.clients if self._step else ()
        for one in self.running.values():
            one.session.target = replace(one.session.target, clients=clients)

    def _of_mode(self, mode: str) -> list[Choice]:
        return [choice for choice in self._choices.values() if choice.mode == mode]

    def _arm(self) -> None:
        """Count probes around stalls as observers of the step, stall or not, so that cells are observed alike."""
        if self._step is not None:
            self._step.active |= dict.fromkeys(choice.name for choice in self._of_mode("stalls"))

    def _follow(self, choice: Choice, due: bool, step: ProbedStep) -> None:
        if due and choice.probe not in self.running:
            if choice.mode == "stalls" and choice.probe not in step.decided:
                self._ration(choice, step)
            if choice.probe not in step.decided:
                step.decided.add(choice.probe)  # do not retry an unavailable probe each second
                if not self._start(choice):
                    step.decided.discard(choice.probe)
        elif not due and choice.probe in self.running:
            self._end(choice.probe)

    def _ration(self, choice: Choice, step: ProbedStep) -> None:
        """Attaching costs half a second of CPU: limit it in a step with many stalls."""
        times = step.attached[choice.probe] = step.attached.get(choice.probe, 0) + 1
        if times > STALLS_MAX:
            step.decided.add(choice.probe)
            self._say(choice.probe, f"probes: {choice.name}: attached {STALLS_MAX} times in this step, and no more")

    def _read_binary(self) -> None:
        """Preload what takes a while to read, as a probe may be switched on during a step."""
        if os.geteuid() == 0:  # for others sudo may take seconds: ask only on demand
            with suppress(ProbeError, OSError):
                _facts()
        with suppress(ProbeError):
            folding.symbols_of(elf.read(self._target.binary))

    # -- recording

    def _look_active(self, one: _Open) -> None:
        step, session = self._step, one.session
        if step is None or step.ended_ns:
            return
        if session.state is ProbeState.RUNNING:
            step.active[one.choice.name] = None
        # Around a stall, counting nothing is normal.
        if step.busy and session.silent and not one.silent_told and one.choice.mode != "stalls":
            one.silent_told = True
            self._say(one.choice.probe, requirements.silent(one.choice.probe).text)

    def _read_space(self, probe: str) -> folding.Space | None:
        maps = Path(f"/proc/{self._target.postmaster}/maps").read_text(errors="replace")
        space = folding.space(maps, complete=attach_points.keeps_frame_pointers(elf.read(self._target.binary)))
        if not space.complete:
            self._say(probe, f"probes: {probe}: {folding.quality(space)}")
        return space

    def _record_words(self, one: _Open) -> None:
        for text in one.session.messages[one.messages :]:
            self._say(one.choice.probe, text)
        one.messages = len(one.session.messages)
        for gap in one.session.gaps[one.gaps :]:
            self._event("probe_gap", gap.began_ns, gap.ended_ns, {"probe": gap.probe, "text": gap.reason})
        one.gaps = len(one.session.gaps)

    def _say(self, probe: str, text: str) -> None:
        self._message_counts[probe] += 1
        if self._message_counts[probe] <= MESSAGES_MAX:
            t_ns = time.monotonic_ns()
            self._event("probe", t_ns, t_ns, {"probe": probe, "text": text})

    def _event(self, kind: str, began_ns: int, ended_ns: int | None, data: Mapping[str, Any]) -> None:
        step = self._step.id if self._step else None
        self.journal.add_event(kind, began_ns, data, ended_ns=ended_ns, attempt=self.attempt, step=step)

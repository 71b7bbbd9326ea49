"""Counts of probes in one step: frames split by role for the journal, and summed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.journal.rows import ProbeFrame
from probes import figures, folding, timing
from probes.frames import Frame, Quality, by_role

FULLISH_PERCENT = 50  # from this fill level a map's name is recorded
BREAK_NS = 100_000_000  # a larger gap between frames means a restart or a new attachment
LASTING = ("monitor", "client")  # roles named by the engine that outlive the step
LEAF_HZ = timing.leaf_hz(os.cpu_count() or 1)


@dataclass(slots=True)
class _Counted:
    """One probe: the good time in the step that its frames cover, the length of all, and their number.

    Scripts keep counting: what a frame misses comes with the next good one, if that begins where it ended, and covers
    the time of both.
    """

    good_ns: int = 0
    owed_ns: int = 0
    until_ns: int = 0
    framed_ns: int = 0
    frames: int = 0
    mode: str | None = None


@dataclass(slots=True)
class ProbedStep:
    """The step that frames belong to. `roles` are by pid; `ended_ns` is 0 while it runs.

    `active` are the probes that watched it, by requested name; `stalled_ns` is when a stall was last seen; `decided`
    are probes not to be started automatically any more, `attached` counts attachments.
    """

    id: int
    started_ns: int
    roles: Mapping[int, str]
    clients: tuple[int, ...]
    busy: bool  # statements run, which probes must see
    ended_ns: int = 0
    totals: dict[str, dict[str, figures.ProbeRecord]] = field(default_factory=dict)
    folded: dict[str, Counter[str]] = field(default_factory=dict)  # of probes that sample stacks
    active: dict[str, None] = field(default_factory=dict)
    decided: set[str] = field(default_factory=set)
    stalled_ns: int | None = None
    attached: dict[str, int] = field(default_factory=dict)
    _counted: dict[str, _Counted] = field(default_factory=dict)

    def add(self, frame: Frame, mode: str, space: folding.Space | None) -> Iterator[ProbeFrame]:
        """Add a frame of a probe in a mode; yields its rows for the journal, none if outside the step."""
        began_ns = frame.t_ns - frame.dt_ns
        if frame.t_ns <= self.started_ns or (self.ended_ns and began_ns >= self.ended_ns):
            return
        within_ns = min(frame.t_ns, self.ended_ns or frame.t_ns) - max(began_ns, self.started_ns)
        self._count(frame, within_ns, mode)
        roles = dict(self.roles)
        roles |= {pid: "observer" for pid, group in frame.groups.items() if group == 2 and pid not in roles}
        quality = _quality(frame.quality) | ({"mode": mode} if mode else {})
        if frame.probe == "stacks":
            quality["leaf_hz"] = LEAF_HZ
        records = by_role(frame, roles)
        for role, phases in self._phases(frame, roles, space).items():
            records.setdefault(role, {})["phases"] = phases
        for role, counts in self._functions(frame, roles, space).items():
            records.setdefault(role, {})["functions"] = counts
        pids = set(self.roles.values()).difference(LASTING)
        for role, record in records.items():
            share = 1.0 if role in pids else within_ns / frame.dt_ns
            figures.add(self.totals.setdefault(role, {}).setdefault(frame.probe, {}), record, frame.probe, share)
            yield ProbeFrame(self.id, frame.t_ns, frame.dt_ns, frame.probe, role, record, quality)

    def conclude(self) -> None:
        for probes in self.totals.values():
            for probe, record in probes.items():
                counted = self._counted[probe]
                record["seconds"], record["frame_s"] = counted.good_ns / 1e9, counted.framed_ns / 1e9
                record["frames"], record["mode"] = counted.frames, counted.mode

    def _count(self, frame: Frame, within_ns: int, mode: str) -> None:
        counted = self._counted.setdefault(frame.probe, _Counted())
        if frame.quality.full or frame.t_ns - frame.dt_ns > counted.until_ns + BREAK_NS:
            counted.owed_ns = 0
        counted.owed_ns += 0 if frame.quality.full else within_ns
        if frame.quality.good:
            counted.good_ns, counted.owed_ns = counted.good_ns + counted.owed_ns, 0
        counted.until_ns = frame.t_ns
        counted.framed_ns += frame.dt_ns
        counted.frames += 1
        # A changed mode means that the user switched it on.
        counted.mode = mode if counted.mode in (None, mode) else ""

    def _phases(self, frame: Frame, roles: Mapping[int, str], space: folding.Space | None) -> dict[str, dict[str, int]]:
        """Add a frame's stacks to the step's; return on-CPU samples by phase if stacks are complete."""
        if not frame.stacks:
            return {}
        clients = {pid for pid, role in roles.items() if role.startswith("client") or role == "observer"}
        folded = folding.fold(
            frame.stacks, lambda pid: roles.get(pid, "server"), lambda pid: None if pid in clients else space
        )
        self.folded.setdefault(frame.probe, Counter()).update(folded)
        if frame.probe != "stacks" or space is None or not space.complete:
            return {}
        connections = {role for pid, role in roles.items() if pid not in clients and role != "monitor"}
        return {role: phases for role, phases in folding.phase_samples(folded).items() if role in connections}

    def _functions(
        self, frame: Frame, roles: Mapping[int, str], space: folding.Space | None
    ) -> dict[str, dict[str, int]]:
        """Samples of the frame by role and by the function that ran, of server processes."""
        return folding.functions(frame.leaves, lambda pid: roles.get(pid, "server"), lambda _: space)


def _quality(quality: Quality) -> dict[str, Any]:
    """Notable parts of a frame's quality, and how the probe was attached."""
    present = {name: value for name in Quality.__slots__ if (value := getattr(quality, name))}
    if quality.map_keys_pct < FULLISH_PERCENT:
        present.pop("fullest_map", None)
    return present

"""A probe's output for one second: figures and histograms per process, and their quality."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from probes import buckets
from probes.table import BY_ID


@dataclass(frozen=True, slots=True)
class Quality:
    """Completeness of a frame.

    `missed_frames` lie between the previous frame and this one, whose `dt_ns` spans them. `new_series` are processes
    whose counters fell (a reused pid), left out of this frame. `emptied`: the histograms were emptied after printing,
    and may lack events in between; counts and sums are complete. `late_ms`: delay of bpftrace's tick, by which the
    frame is longer. `map_keys_pct` is the fullest map. `attach` is usdt, function, tracepoint or timer; `slow_entry`:
    the kernel single-steps, and the probe is expensive.
    """

    lost_events: int = 0
    helper_errors: int = 0
    broken_lines: int = 0
    emptied: int = 0
    late_ms: int = 0
    missed_frames: int = 0
    map_keys_pct: int = 0
    fullest_map: str = ""
    new_series: tuple[int, ...] = ()
    attach: str = ""
    slow_entry: bool = False

    @property
    def good(self) -> bool:
        """Whether no event was lost, no line skipped, and no map full."""
        return not self.lost_events and not self.broken_lines and not self.full

    @property
    def full(self) -> bool:
        """Whether a map was full, so that further keys were not counted at all."""
        return self.map_keys_pct >= 100

    def warnings(self, probe: str) -> tuple[str, ...]:
        lines = []
        if self.lost_events:
            lines.append(f"probes: {self.lost_events} events lost; raise BPFTRACE_PERF_RB_PAGES")
        if self.map_keys_pct >= 90:
            keys = self.map_keys_pct * MAP_KEYS // 100
            lines.append(
                f"probes: map {self.fullest_map} is nearly full ({keys} keys); new backends will not be counted"
            )
        if self.missed_frames:
            lines.append(f"probes: {probe}: {self.missed_frames} s missed; their counts are in the next frame")
        if self.broken_lines:
            lines.append(f"probes: {probe}: {self.broken_lines} lines of bpftrace were not understood and skipped")
        return tuple(lines)


MAP_KEYS = 16384


@dataclass(frozen=True, slots=True)
class Stack:
    """Samples of one stack, or us of one `kind` of wait. Innermost first: `user` are addresses, `kernel` names."""

    pid: int
    user: tuple[int, ...]
    kernel: tuple[str, ...]
    count: int
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of one probe: events of the `dt_ns` before `t_ns`, on the journal's clock.

    `records`: pid -> field of the table -> value. `histograms`: field -> pid -> bucket -> count. `groups`: pid -> 1 for
    a server process, 2 for a client. `leaves` are samples of server processes of their own, as stacks of one frame.
    """

    probe: str
    t_ns: int
    dt_ns: int
    records: Mapping[int, Mapping[str, int]]
    histograms: Mapping[str, Mapping[int, Mapping[int, int]]]
    stacks: tuple[Stack, ...] = ()
    groups: Mapping[int, int] = field(default_factory=dict)
    quality: Quality = Quality()
    leaves: tuple[Stack, ...] = ()


def by_role(frame: Frame, roles: Mapping[int, str]) -> dict[str, dict[str, Any]]:
    """Figures by role, as in the journal; without roles, by group (`server`, `client`).

    They cover all processes of the role and include their number: sums, maxima of peaks, and merged histograms as
    pairs of bucket and count.
    """
    peaks = {one.name for one in BY_ID[frame.probe].fields if one.kind == "peak"}
    pids = set(frame.records).union(*frame.histograms.values())
    members: dict[str, list[int]] = {}
    for pid in sorted(pids):
        # Processes of unknown group are servers: only those run what tier 2 attaches to.
        role = roles.get(pid) or ("client" if frame.groups.get(pid) == 2 else "server")
        members.setdefault(role, []).append(pid)
    figures = {}
    for role, group in members.items():
        record: dict[str, Any] = {"processes": len(group)}
        for pid in group:
            for name, value in frame.records.get(pid, {}).items():
                record[name] = max(record.get(name, 0), value) if name in peaks else record.get(name, 0) + value
        for name, of_pid in frame.histograms.items():
            if merged := buckets.merge(of_pid[pid] for pid in group if pid in of_pid):
                record[name] = sorted(merged.items())
        figures[role] = record
    return figures

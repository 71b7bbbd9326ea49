"""Frames from bpftrace's JSON lines. Pure: bytes in, frames out; reads the output of 0.17, 0.23 and 0.27.

The scripts' maps are cumulative and each burst is framed by `tick` and `tock`; the reader subtracts. A script forgets
threads some seconds after their end, and so does the reader; to drop their buckets, it occasionally empties its
histograms in a burst, after printing them, and says `emptied`. A burst without its `tock` is dropped and its counts
show in the next frame. A burst that bpftrace reached late, for want of a CPU, holds counts until then, and
its frame ends there. Output after the last `tock` (the dump at exit) is ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from probes import buckets
from probes.errors import visible
from probes.frames import MAP_KEYS, Frame, Quality, Stack
from probes.table import BY_ID, OTHER, WAITS, Field, Kind, Probe

Maps = dict[str, Any]
PartKey = tuple[int, int | None]  # tid, and the second key if the map has one
# Bounds: several times the resolution of /proc/uptime, and less than the uptime of another time namespace differs by.
LATE_NS, LATE_MAX_NS = 50_000_000, 120_000_000_000
UPTIME = re.compile(r"\d+\.\d+ ")
ADDRESS = re.compile(r"(0x)?[0-9a-fA-F]+")
LINE_MAX_BYTES = 32 * 1024 * 1024


class Reader:
    """Reader of one run of one probe.

    `offset_ns` is bpftrace's clock (CLOCK_BOOTTIME) less the journal's (CLOCK_MONOTONIC); set it again whenever it may
    have changed. `process_of` maps a tid to its process.
    """

    def __init__(
        self,
        probe: str,
        *,
        offset_ns: int = 0,
        process_of: Callable[[int], int] = lambda tid: tid,
        attach: str = "",
        slow_entry: bool = False,
    ) -> None:
        self.probe: Probe = BY_ID[probe]
        self.offset_ns = offset_ns
        self.errors: list[str] = []
        self.groups: dict[int, int] = {}
        self._process_of = process_of
        self._origin = Quality(attach=attach, slow_entry=slow_entry)
        self._histogram_names = {field.name for field in self.probe.fields if field.kind == "histogram"}
        self.restart()

    def restart(self) -> None:
        """Forget the series: another bpftrace begins, with empty maps."""
        self.attached: int | None = None
        self.ready_ns: int | None = None  # bpftrace's clock
        self.baseline_ns: int | None = None  # the last burst's tick, on the same clock: counting starts there
        self._rest = b""
        self._tick: int | None = None
        self._maps: Maps = {}
        self._emptied = False  # histograms, after printing
        self.last: dict[tuple[str, PartKey], int] = {}
        self._held: list[tuple[tuple[str, PartKey], int, int]] = []  # series that wait until they have caught up
        self._quality = self._origin

    def feed(self, data: bytes) -> tuple[Frame, ...]:
        """Return the frames that these bytes complete. Lines may be cut anywhere."""
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > LINE_MAX_BYTES:
            self._rest = b""
            self._note(broken_lines=1)
        return tuple(frame for line in lines if (frame := self._line(line)) is not None)

    def _line(self, line: bytes) -> Frame | None:
        if not line.strip():
            return None
        try:
            message = json.loads(line)
            kind, data = message["type"], message.get("data")
        except (ValueError, TypeError, KeyError, AttributeError):
            self._note(broken_lines=1)
            return None
        match kind:
            case "printf":
                return self._mark(str(data))
            case "map" | "hist":
                if self._tick is not None and isinstance(data, dict):
                    self._maps.update(data)
            case "cat":
                self._came_to_it(str(data))
            case "attached_probes":
                self.attached = int(data["probes"])
            case "lost_events":
                self._note(lost_events=int(data["events"] if isinstance(data, dict) else data))
            case "helper_error":
                self._note(helper_errors=1)
            case "errorf" | "warnf":
                self.errors.append(visible(str(data)))
        return None

    def _mark(self, text: str) -> Frame | None:
        word, _, number = text.strip().partition(" ")
        if not number.isdigit():
            self._note(broken_lines=1)
        elif word == "ready":
            self.ready_ns = int(number)
        elif word == "tick":
            if self._emptied:  # in a burst without an end
                self._begin_histograms()
            self._tick, self._maps = int(number), {}
        elif word == "emptied":
            self._emptied = True
        elif word == "tock" and self._tick is not None:
            tick, self._tick = self._tick, None
            try:
                return self._frame(tick, self._maps)
            except (ValueError, TypeError, KeyError, AttributeError):
                self._note(broken_lines=1)
        return None

    def _came_to_it(self, uptime: str) -> None:
        """Time when bpftrace reached the tick, by /proc/uptime: the printed maps are as of then."""
        seconds = UPTIME.match(uptime)
        printed_ns = round(float(seconds[0]) * 1e9) if seconds else 0
        if self._tick is not None and LATE_NS < printed_ns - self._tick < LATE_MAX_NS:
            self._note(late_ms=(printed_ns - self._tick) // 1_000_000)
            self._tick = printed_ns

    def _frame(self, tick: int, maps: Maps) -> Frame | None:
        self._regroup({tid: group for (tid, _), group in _keyed(maps, "@group").items()})
        records: dict[int, dict[str, int]] = {}
        histograms: dict[str, dict[int, dict[int, int]]] = {}
        fallen: set[int] = set()
        for field in self.probe.fields:
            if field.kind == "count":
                self._count(field, tick, maps, records, fallen)
            elif field.kind == "peak":
                for (tid, _), value in _keyed(maps, field.source).items():
                    record = records.setdefault(self._process_of(tid), {})
                    record[field.name] = max(record.get(field.name, 0), value)
            elif field.kind == "histogram":
                self._histogram(field, maps, histograms, fallen)
        for name, pid, value in self._held:
            if pid in fallen:
                self.last[name] = value
        self._held.clear()
        if self._emptied:
            self._begin_histograms()
        for pid in fallen:
            records.pop(pid, None)
            for of_pid in histograms.values():
                of_pid.pop(pid, None)
        last, self.baseline_ns = self.baseline_ns, tick
        if last is None:
            self._quality = replace(self._origin, lost_events=self._quality.lost_events)
            return None
        stacks, leaves = self._stacks(maps, "stacks", "waits"), self._stacks(maps, "leaves")
        fullest, keys = max(
            ((name, _key_count(_mapping(maps, name))) for name in maps), key=lambda x: x[1], default=("", 0)
        )
        quality = replace(
            self._quality,
            missed_frames=max(0, round((tick - last) / 1e9) - 1),
            map_keys_pct=100 * keys // MAP_KEYS,
            fullest_map=fullest,
            new_series=tuple(sorted(fallen)),
        )
        self._quality = self._origin
        processes = {self._process_of(tid): group for tid, group in self.groups.items()}
        return Frame(
            self.probe.id,
            tick - self.offset_ns,
            tick - last,
            {pid: record for pid, record in records.items() if any(record.values())},
            histograms,
            stacks,
            {pid: group for pid, group in processes.items() if group in (1, 2)},
            quality,
            leaves,
        )

    def _begin_histograms(self) -> None:
        """The script has emptied its histograms: they count from zero again."""
        self.last = {name: value for name, value in self.last.items() if name[0] not in self._histogram_names}
        self._emptied = False
        self._note(emptied=1)

    def _regroup(self, groups: Mapping[int, int]) -> None:
        gone = self.groups.keys() - groups if groups and not self._quality.lost_events else set()
        if gone:
            self.groups = {tid: group for tid, group in self.groups.items() if tid not in gone}
            # Their buckets stay in the script until it empties the histograms, and would be counted twice.
            self.last = {
                name: value
                for name, value in self.last.items()
                if name[1][0] not in gone or name[0] in self._histogram_names
            }
        self.groups.update(groups)

    def _count(self, field: Field, tick: int, maps: Maps, records: dict[int, dict[str, int]], fallen: set[int]) -> None:
        for key, value in _counts(field, tick, maps, self.probe).items():
            name = (field.name, key)
            before = self.last.get(name, 0)
            pid = self._process_of(key[0])
            if value < before:
                # An interval that ended between tick and print was counted twice, which is corrected here.
                # Otherwise this is a new process, which another of its series reveals.
                if field.since:
                    self._held.append((name, pid, value))
                    continue
                fallen.add(pid)
            self.last[name] = value
            record = records.setdefault(pid, {})
            record[field.name] = record.get(field.name, 0) + value // field.divisor - before // field.divisor

    def _histogram(
        self, field: Field, maps: Maps, histograms: dict[str, dict[int, dict[int, int]]], fallen: set[int]
    ) -> None:
        for key, entries in _mapping(maps, field.source).items():
            tid = int(key)
            pid = self._process_of(tid)
            for entry in entries:
                low = entry.get("min")
                if low is None:  # the bucket of negative values
                    continue
                bucket, value = buckets.index(int(low)), int(entry["count"])
                name = (field.name, (tid, bucket))
                before = self.last.get(name, 0)
                self.last[name] = value
                if value < before:
                    fallen.add(pid)
                elif value > before:
                    counts = histograms.setdefault(field.name, {}).setdefault(pid, {})
                    counts[bucket] = counts.get(bucket, 0) + value - before

    def _stacks(self, maps: Maps, *kinds: Kind) -> tuple[Stack, ...]:
        fields = [field for field in self.probe.fields if field.kind in kinds]
        stacks = []
        for field in fields:
            for key, count in _mapping(maps, field.source).items():
                try:
                    kind, rest = parse_kind(key) if field.kind == "waits" else ("", key)
                    tid, user, kernel = parse_stack_key(rest)
                except (ValueError, KeyError):  # a stack that the kernel could not keep
                    self._note(broken_lines=1)
                    continue
                if value := int(count) // field.divisor:
                    stacks.append(Stack(self._process_of(tid), user, kernel, value, kind))
        return tuple(stacks)

    def _note(self, *, late_ms: int = 0, **counts: int) -> None:
        now = self._quality
        sums: dict[str, Any] = {name: getattr(now, name) + count for name, count in counts.items()}
        self._quality = replace(now, late_ms=max(now.late_ms, late_ms), **sums)


def parse_stack_key(key: str) -> tuple[int, tuple[int, ...], tuple[str, ...]]:
    """Split a key `tid,ustack,kstack` of any version into thread, user addresses and kernel names, innermost first.

    Frames are separated by newlines, or (0.23) by a backslash and an n; addresses may lack the 0x.
    """
    tid, user, kernel = key.replace("\\n", "\n").split(",", 2)
    addresses = tuple(int(word, 16) for word in map(str.strip, user.splitlines()) if ADDRESS.fullmatch(word))
    names = tuple(visible(line.strip().split("+")[0]) for line in kernel.splitlines() if line.strip())
    return int(tid), addresses, names


def parse_kind(key: str) -> tuple[str, str]:
    """Split a key `tid,kind,ustack,kstack` into the kind of wait and the remaining key."""
    tid, kind, stacks = key.split(",", 2)
    return dict(enumerate(WAITS))[int(kind)], f"{tid},{stacks}"


def _mapping(maps: Maps, name: str) -> Mapping[str, Any]:
    """Keys and values of a map; a map that was never hit is absent, or the number 0."""
    value = maps.get(name)
    return value if isinstance(value, dict) else {}


def _keyed(maps: Maps, name: str) -> dict[PartKey, int]:
    """Numbers by thread and second key. Thread 0 is the idle task and the script's own scratch key."""
    counts: dict[PartKey, int] = {}
    for key, value in _mapping(maps, name).items():
        tid, _, part = key.partition(",")
        if int(tid):
            counts[int(tid), int(part) if part else None] = int(value)
    return counts


def _counts(field: Field, tick: int, maps: Maps, probe: Probe) -> dict[PartKey, int]:
    """Cumulative counts of a field, including intervals still open at the tick; of a part by thread alone."""
    counts = _keyed(maps, field.source)
    parts = {tid: part for (tid, _), part in _keyed(maps, field.since_part).items()}
    for (tid, _), began in _keyed(maps, field.since).items():
        if began:
            key = tid, parts.get(tid)
            counts[key] = counts.get(key, 0) + max(0, tick - began)
    if field.part is None:
        return counts
    named = {other.part for other in probe.fields if other.source == field.source}
    totals: dict[PartKey, int] = {}
    for (tid, part), value in counts.items():
        if part not in named if field.part == OTHER else part == field.part:
            totals[tid, None] = totals.get((tid, None), 0) + value
    return totals


def _key_count(mapping: Mapping[str, Any]) -> int:
    return sum(len(entry) if isinstance(entry, list) else 1 for entry in mapping.values())

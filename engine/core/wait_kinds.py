"""Kinds of wait events. PostgreSQL's names and types for them differ between versions: see `wait_events.toml`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

# In display order; `` is a process that is not waiting: it runs, or waits for a CPU.
KINDS = {
    "": "running",
    "lock": "lock",
    "latch": "LWLock",
    "buffer": "buffer lock",
    "wal": "WAL",
    "io": "I/O",
    "client": "client",
    "other": "other",
    "unknown": "unknown to pgbed",
}
_BY_TYPE = {
    "Lock": "lock",
    "LWLock": "latch",
    "Buffer": "buffer",
    "BufferPin": "buffer",
    "IO": "io",
    "Client": "client",
}
# An LWLock of one version is another type in the next.
_BY_EVENT = {
    "LWLock:buffer_content": "buffer",
    "LWLock:BufferContent": "buffer",
    "LWLock:buffer_io": "io",
    "LWLock:BufferIO": "io",
    "IPC:BufferIO": "io",
    "IPC:BufferIo": "io",
}
_OPEN_TYPES = ("Extension", "InjectionPoint")
NEWEST_MAJOR = 19  # that the table describes
_RANGE = re.compile(r"(\d+)(-?)(\d*)")


def kind_of(event: str) -> str:
    """One of `KINDS`. WAL waits are `LWLock:WALWriteLock` in 12, `IO:WALSync` later, `IO:WalSync` from 17 on."""
    if not event:
        return ""
    kind, _, name = event.partition(":")
    if not is_known(event):
        return "unknown"
    if kind in ("IO", "LWLock", "IPC") and "wal" in name.lower():
        return "wal"
    return _BY_EVENT.get(event) or _BY_TYPE.get(kind, "other")


def is_known(event: str) -> bool:
    return event in versions() or event.partition(":")[0] in _OPEN_TYPES


def by_kind(events: Mapping[str, float]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for event, value in events.items():
        totals[kind_of(event)] = totals.get(kind_of(event), 0.0) + value
    return totals


def shares(counts: Mapping[str, int]) -> dict[str, float]:
    """Share of each wait event, largest first; empty without counts."""
    total = sum(counts.values())
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return {event: count / total for event, count in ordered} if total > 0 else {}


@cache
def versions() -> dict[str, set[int]]:
    """The major versions of each event."""
    majors: dict[str, set[int]] = {}
    table = tomllib.loads((files("engine.core") / "wait_events.toml").read_text("utf-8"))
    for kind, groups in table.items():
        for span, names in groups.items():
            first, dash, last = _RANGE.fullmatch(span).groups()  # type: ignore[union-attr]
            end = int(last) if last else NEWEST_MAJOR if dash else int(first)
            for name in names:
                majors.setdefault(f"{kind}:{name}", set()).update(range(int(first), end + 1))
    return majors

"""Kinds of wait events. PostgreSQL's names for them differ between versions."""

from __future__ import annotations

from collections.abc import Mapping

# In display order; `` is a process that is not waiting: it runs, or waits for a CPU.
KINDS = {
    "": "running",
    "lock": "lock",
    "latch": "LWLock",
    "wal": "WAL",
    "io": "I/O",
    "client": "client",
    "other": "other",
}
_BY_TYPE = {"": "", "Lock": "lock", "IO": "io", "LWLock": "latch", "BufferPin": "latch", "Client": "client"}


def kind_of(event: str) -> str:
    """One of `KINDS`. WAL waits are `LWLock:WALWriteLock` in 12, `IO:WALSync` later, `IO:WalSync` from 17 on."""
    kind, _, name = event.partition(":")
    if kind in ("IO", "LWLock", "IPC") and "wal" in name.lower():
        return "wal"
    return _BY_TYPE.get(kind, "other")


def by_kind(events: Mapping[str, float]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for event, value in events.items():
        totals[kind_of(event)] = totals.get(kind_of(event), 0.0) + value
    return totals


def shares(counts: Mapping[str, int]) -> dict[str, float]:
    """Share of each wait event, largest first; empty without counts."""
    total = sum(counts.values())
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return {event: count / total for event, count in ordered} if total > 0 else {}

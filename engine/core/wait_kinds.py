"""What a server process waits for, by kind. The names of PostgreSQL's wait events differ from version to version."""

from __future__ import annotations

from collections.abc import Mapping

# In the order in which they are shown; `` is a process that waits for nothing: it runs, or waits for a CPU.
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
    """The kind of a wait event `type:event`, one of `KINDS`.

    The names of WAL waits differ by version (`LWLock:WALWriteLock` in 12, `IO:WALSync`, `IO:WalSync` from 17 on).
    """
    kind, _, name = event.partition(":")
    if kind in ("IO", "LWLock", "IPC") and "wal" in name.lower():
        return "wal"
    return _BY_TYPE.get(kind, "other")


def by_kind(events: Mapping[str, float]) -> dict[str, float]:
    """Counts or shares of events, added up by kind."""
    totals: dict[str, float] = {}
    for event, value in events.items():
        totals[kind_of(event)] = totals.get(kind_of(event), 0.0) + value
    return totals


def shares(counts: Mapping[str, int]) -> dict[str, float]:
    """Of how many processes were seen waiting for each event, the shares, the largest first; nothing of none."""
    total = sum(counts.values())
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return {event: count / total for event, count in ordered} if total > 0 else {}

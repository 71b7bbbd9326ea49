"""pgbench's log of transactions (`--log`), one per line."""

from __future__ import annotations

from typing import NamedTuple

FAILURES = {"failed": "failed", "serialization": "serialization", "deadlock": "deadlock", "other": "failed"}


class LogLine(NamedTuple):
    """A transaction that ended. `number` counts all of its client's, logged or not, from 1.

    `outcome` is empty for success, else `skipped` or the kind of failure; times are then 0. `time_us` runs from the
    scheduled start under --rate, which was `lag_us` before the real one. Scripts count from 0. Scripts count from 0.
    """

    client: int
    number: int
    outcome: str
    time_us: int
    ended_us: int  # wall clock
    lag_us: int
    retries: int
    script: int = 0


def parse(line: bytes, *, lag: bool, retries: bool) -> LogLine | None:
    """Parse a line of the log; None for anything else, such as half a line of a killed pgbench."""
    words = line.split()
    if len(words) != 6 + lag + retries:
        return None
    try:
        outcome = "" if words[2].isdigit() else words[2].decode(errors="replace")
        return LogLine(
            int(words[0]),
            int(words[1]),
            outcome if outcome in ("", "skipped") else FAILURES[outcome],
            0 if outcome else int(words[2]),
            int(words[4]) * 1_000_000 + int(words[5]),
            int(words[6]) if lag else 0,
            int(words[6 + lag]) if retries else 0,
            int(words[3]),
        )
    except (ValueError, KeyError):
        return None

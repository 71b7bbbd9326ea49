"""The waits of the server's backends, sampled once a second by one cheap query."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.postgres.pgstat import Monitor, question

PATIENCE_S = 0.2
STATEMENT = "activity"
HOLDERS_STATEMENT = "holders"
WAITS_STATEMENT = "waits"
OF_RELATION = re.compile(r"relation (\d+) of database (\d+)")


@dataclass(frozen=True, slots=True)
class Wait:
    """The wait of a backend at one moment.

    `event` is `type:event` of pg_stat_activity, such as `IO:WALSync` or `Client:ClientRead`; '' while it runs.
    `blocked_by` are the pids holding the heavyweight lock it waits for, empty unless `event` begins with `Lock:`.
    """

    event: str
    state: str
    blocked_by: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Vacuum:
    """A vacuum in progress: `phase` as in pg_stat_progress_vacuum, `done` the fraction of the heap scanned, 0 to 1."""

    pid: int
    relation: str
    phase: str
    done: float


@dataclass(frozen=True, slots=True)
class Observed:
    """One sample: client backends of the database by pid, and vacuums (manual ones and autovacuum's).

    `wal_bytes` is the WAL position in bytes, or None on a standby. `ages_ns` is how long each backend has been in its
    state, or running its statement. Backends that do the same share a `Wait`.
    """

    waits: dict[int, Wait]
    vacuums: tuple[Vacuum, ...]
    wal_bytes: int | None = None
    ages_ns: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Looked:
    """Numbers of waiting connections by role and event; `old` ones have been in their state for long."""

    counts: Mapping[tuple[int, str], int]
    old: Observed


class Doing(NamedTuple):
    """A server process: who it is (`nightly report: LOCK TABLE pi1`), and its activity as far as known."""

    who: str
    what: str


class Activity:
    """Samples activity over a monitor's connection; the constructor prepares the query, and may raise MonitorError."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._relations: dict[str, str] = {}  # by oid
        self._database = monitor.ask("SELECT oid FROM pg_database WHERE datname = current_database()")[0][0] or ""
        for statement in (STATEMENT, HOLDERS_STATEMENT, WAITS_STATEMENT):
            monitor.prepare(statement, question(statement, monitor.version) or "")

    def sample(self, least_age_s: float = 0.0) -> Observed:
        """The backends' activities of `least_age_s` or longer. Raises MonitorError without an answer in time."""
        waits: dict[int, Wait] = {}
        ages_ns: dict[int, int] = {}
        vacuums: list[Vacuum] = []
        wal_bytes: int | None = None
        for kind, what, state, blocked_by, of_pids, of_numbers in self._monitor.ask_prepared(
            STATEMENT, (self._database, str(round(least_age_s * 1e6))), patience_s=PATIENCE_S
        ):
            pids, numbers = _numbers(of_pids), _numbers(of_numbers)
            if kind == "wait":
                waits |= dict.fromkeys(pids, Wait(what or "", state or "", tuple(_numbers(blocked_by))))
                ages_ns |= {pid: max(0, age_us) * 1000 for pid, age_us in zip(pids, numbers, strict=True)}
            elif kind == "wal":
                wal_bytes = int(what) if what else None
            else:
                done, total = numbers
                vacuums.append(Vacuum(pids[0], _plain(what), state or "", done / total if total else 0.0))
        return Observed(waits, tuple(vacuums), wal_bytes, ages_ns)

    def waits(self, pids: Sequence[int], roles: Sequence[int], least_age_s: float = 0.0) -> Looked:
        """The waits of connections; `roles` has a role number for each pid. Raises MonitorError after `PATIENCE_S`.

        With a least age, also those in their state for longer.
        """
        least_age_us = str(round(least_age_s * 1e6))
        counts: Counter[tuple[int, str]] = Counter()
        waits: dict[int, Wait] = {}
        ages_ns: dict[int, int] = {}
        for role, event, state, count, of_pids, of_ages in self._monitor.ask_prepared(
            WAITS_STATEMENT, (_array(pids), _array(roles), least_age_us), patience_s=PATIENCE_S
        ):
            counts[int(role or 0), event or ""] += int(count or 0)
            if of_pids:
                old = _numbers(of_pids)
                waits |= dict.fromkeys(old, Wait(event or "", state or ""))
                ages_ns |= {pid: age_us * 1000 for pid, age_us in zip(old, _numbers(of_ages), strict=True)}
        return Looked(counts, Observed(waits, (), None, ages_ns))

    def doing(self, pids: Sequence[int]) -> dict[int, Doing]:
        """The activity of other server processes, such as lock holders. Raises MonitorError."""
        rows = self._monitor.ask_prepared(HOLDERS_STATEMENT, (_array(pids),), patience_s=PATIENCE_S)
        return {int(pid or 0): Doing(who or "", what or "") for pid, who, what in rows}

    def with_name(self, target: str) -> str:
        """A lock's target with its relation's name: `relation pi1`. Raises MonitorError."""
        match = OF_RELATION.search(target)
        if match is None or match[2] != self._database:
            return target
        oid = match[1]
        if oid not in self._relations:
            ((name,),) = self._monitor.ask(f"SELECT {oid}::regclass", patience_s=PATIENCE_S)
            self._relations[oid] = _plain(name) or oid
        return OF_RELATION.sub(lambda _: f"relation {self._relations[oid]}", target)


def _plain(relation: str | None) -> str:
    """A relation's name without the schema that most are in: the monitor's search path is without it."""
    return (relation or "").removeprefix("public.")


def _numbers(array: str | None) -> list[int]:
    return list(map(int, array[1:-1].split(","))) if array and array != "{}" else []


def _array(numbers: Sequence[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"

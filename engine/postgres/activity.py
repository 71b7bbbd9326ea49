"""What the server's backends wait for, once a second, in one cheap question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.postgres.pgstat import Monitor, question

PATIENCE_S = 0.2
STATEMENT = "activity"
HOLDERS_STATEMENT = "holders"
WAITS_STATEMENT = "waits"


@dataclass(frozen=True, slots=True)
class Wait:
    """What a backend does at one moment.

    `event` is `type:event` of pg_stat_activity, such as `IO:WALSync` or `Client:ClientRead`; '' when it runs.
    `blocked_by` are the pids that hold the heavyweight lock it waits for, empty unless `event` begins `Lock:`. `age_ns`
    is how long it has been in its state, or at its statement.
    """

    event: str
    state: str
    blocked_by: tuple[int, ...] = ()
    age_ns: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Vacuum:
    """A vacuum at work: `phase` as in pg_stat_progress_vacuum, `done` the part of the heap scanned, 0 to 1."""

    pid: int
    relation: str
    phase: str
    done: float


@dataclass(frozen=True, slots=True)
class Observed:
    """One answer: client backends of the database by pid, and vacuums (manual ones and autovacuum's).

    `wal_bytes` is how much WAL there is, from its first byte on; None of a standby, which writes none.
    """

    waits: dict[int, Wait]
    vacuums: tuple[Vacuum, ...]
    wal_bytes: int | None = None


class Activity:
    """Samples activity over a monitor's connection; its query is prepared when this is made."""

    def __init__(self, monitor: Monitor) -> None:
        """Raises MonitorError."""
        self._monitor = monitor
        self._database = monitor.ask("SELECT oid FROM pg_database WHERE datname = current_database()")[0][0] or ""
        for statement in (STATEMENT, HOLDERS_STATEMENT, WAITS_STATEMENT):
            monitor.prepare(statement, question(statement, monitor.version) or "")

    def sample(self, least_age_s: float = 0.0) -> Observed:
        """What the backends are doing now, those that began it less than an age ago left out.

        Raises MonitorError when there is no answer within `PATIENCE_S`.
        """
        waits: dict[int, Wait] = {}
        vacuums: list[Vacuum] = []
        wal_bytes: int | None = None
        for kind, pid, what, state, blocked_by, done, total, age_us in self._monitor.ask_prepared(
            STATEMENT, (self._database, str(round(least_age_s * 1e6))), patience_s=PATIENCE_S
        ):
            if kind == "wait":
                pids = tuple(int(part) for part in blocked_by.split(",")) if blocked_by else ()
                waits[int(pid or 0)] = Wait(what or "", state or "", pids, max(0, int(age_us or 0)) * 1000)
            elif kind == "wal":
                wal_bytes = int(what) if what else None
            else:
                share = int(done or 0) / int(total) if total and total != "0" else 0.0
                vacuums.append(Vacuum(int(pid or 0), what or "", state or "", share))
        return Observed(waits, tuple(vacuums), wal_bytes)

    def waits(self, pids: Sequence[int], roles: Sequence[int]) -> list[tuple[int, str, int]]:
        """What connections wait for now: (role, event, how many), where `roles` has a number for each of the pids.

        The event is as `Wait` has it. Raises MonitorError when there is no answer within `PATIENCE_S`.
        """
        rows = self._monitor.ask_prepared(WAITS_STATEMENT, (_array(pids), _array(roles)), patience_s=PATIENCE_S)
        return [(int(role or 0), event or "", int(count or 0)) for role, event, count in rows]

    def doing(self, pids: Sequence[int]) -> dict[int, str]:
        """What other server processes are doing, in words, for those that hold a lock. Raises MonitorError."""
        rows = self._monitor.ask_prepared(HOLDERS_STATEMENT, (_array(pids),), patience_s=PATIENCE_S)
        return {int(pid or 0): what or "" for pid, what in rows}


def _array(numbers: Sequence[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"

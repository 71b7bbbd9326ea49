"""What a whole server does for others, without a workload of pgbed's: asked over one connection that only reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.core.resource import Closing
from engine.core.text import visible
from engine.postgres.activity import Doing, Vacuum
from engine.postgres.pgstat import Monitor, MonitorError, Row, question
from engine.postgres.statement_counts import By, StatementCounts, Statements

PATIENCE_S = 0.5
READ_ONLY = "SET default_transaction_read_only = on"
ROLES, TOTALS, BLOCKERS = "roles", "totals", "blockers"
TOTAL = "server"  # the role that stands for all connections
OTHERS = "(others)"
NAMELESS = "(no name)"
MOST_ROLES = 20  # recorded by name
NAME_CHARACTERS = 63  # as many as PostgreSQL keeps
IDLE_IN_TRANSACTION = "idle in transaction"
BY_HAND = " by hand"


@dataclass(slots=True)
class RoleActivity:
    """The connections of one role at one moment. Of those `unseen`, the observing role may not know more.

    `waits` counts active ones by `type:event`, `` while they run; `oldest_ns` is the age of the oldest statement.
    """

    name: str
    connections: int = 0
    active: int = 0
    idle_in_transaction: int = 0
    unseen: int = 0
    oldest_ns: int = 0
    waits: Counter[str] = field(default_factory=Counter)

    @property
    def waiting(self) -> int:
        return self.active - self.waits[""]

    def add(self, other: RoleActivity) -> None:
        self.connections += other.connections
        self.active += other.active
        self.idle_in_transaction += other.idle_in_transaction
        self.unseen += other.unseen
        self.oldest_ns = max(self.oldest_ns, other.oldest_ns)
        self.waits.update(other.waits)


class LockWaiter(NamedTuple):
    """A connection that waits for a lock, with the age of its statement."""

    pid: int
    role: str
    event: str
    age_ns: int


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at a server: its roles, the busiest first, without the total."""

    roles: tuple[RoleActivity, ...]
    waiters: tuple[LockWaiter, ...] = ()
    vacuums: tuple[Vacuum, ...] = ()
    automatic: frozenset[int] = frozenset()  # pids of the autovacuum workers among them
    wal_bytes: int | None = None

    @property
    def total(self) -> RoleActivity:
        whole = RoleActivity(TOTAL)
        for role in self.roles:
            whole.add(role)
        return whole


class Totals(NamedTuple):
    """What a server has counted so far, in the order of its question; times in ms, of checkpoints."""

    commits: int
    rollbacks: int
    inserted: int
    updated: int
    deleted: int
    hit: int
    read: int
    temp_bytes: int
    deadlocks: int
    timed: int
    requested: int
    done: int
    write_ms: int
    sync_ms: int
    buffers: int

    @property
    def transactions(self) -> int:
        return self.commits + self.rollbacks


class ServerActivity(Closing):
    """A connection to a server that is only watched: its transactions are read-only. Raises MonitorError.

    `notes` say what is not visible. `asked` counts its own questions, which the server counts, too.
    """

    def __init__(self, conninfo: str, by: By) -> None:
        self.by = by
        self.asked = 0
        self.monitor = Monitor(conninfo)
        try:
            self.monitor.ask(READ_ONLY)
            for topic in (ROLES, TOTALS, BLOCKERS):
                self.monitor.prepare(topic, question(topic, self.monitor.version) or "")
            self.statements, reason = self._statements()
            self.notes = tuple(self._notes(reason))
        except BaseException:
            self.monitor.close()
            raise

    def close(self) -> None:
        self.monitor.close()

    @property
    def version(self) -> int:
        return self.monitor.version

    @property
    def lost(self) -> bool:
        return self.monitor.lost

    def look(self) -> Seen:
        with _intelligible():
            return seen_of(self._ask(ROLES, self.by))

    def totals(self) -> Totals:
        with _intelligible():
            ((*values,),) = self._ask(TOTALS)
            return Totals(*(int(float(value or 0)) for value in values))

    def count(self) -> StatementCounts:
        """What `statements` has counted, which must be there."""
        assert self.statements is not None
        self.asked += 1
        with _intelligible():
            return self.statements.read()

    def texts(self, ids: Iterable[str]) -> dict[str, str]:
        assert self.statements is not None
        self.asked += 1
        with _intelligible():
            return self.statements.texts(ids)

    def blockers(self, pids: Iterable[int]) -> dict[int, tuple[tuple[int, Doing], ...]]:
        """Who the processes wait for, by pid."""
        found: dict[int, tuple[tuple[int, Doing], ...]] = {}
        with _intelligible():
            for pid, holder, who, what in self._ask(BLOCKERS, "{" + ",".join(map(str, pids)) + "}"):
                one = (int(holder or 0), Doing(visible(who or ""), visible(what or "")))
                found[int(pid or 0)] = (*found.get(int(pid or 0), ()), one)
        return found

    def _ask(self, statement: str, *parameters: str) -> list[Row]:
        self.asked += 1
        return self.monitor.ask_prepared(statement, parameters, patience_s=PATIENCE_S)

    def _statements(self) -> tuple[Statements | None, str]:
        try:
            with _intelligible():
                return Statements(self.monitor, self.by), ""
        except MonitorError as error:
            if self.monitor.lost:
                raise
            return None, str(error).removeprefix("the server refused the monitor: ").removeprefix("ERROR: ")

    def _notes(self, no_statements: str) -> Iterable[str]:
        ((sees_all, standby, tracks),) = self.monitor.ask(
            "SELECT pg_has_role('pg_read_all_stats', 'USAGE'), pg_is_in_recovery(), current_setting('track_activities')"
        )
        if sees_all != "t":
            yield "the role is no member of pg_monitor: what others' connections do and wait for is not visible"
        if no_statements:
            yield f"statements are not counted, so that the rate is that of transactions: {no_statements.strip()}"
        if tracks != "on":
            yield "track_activities is off: what connections do is not visible"
        if standby == "t":
            yield "a standby: it replays WAL, and executes only what reads"


@contextmanager
def _intelligible() -> Iterator[None]:
    """Turn what an odd answer raises into a MonitorError."""
    try:
        yield
    except (LookupError, TypeError, ValueError) as error:
        raise MonitorError(f"the server's answer is not one of PostgreSQL: {error}") from None


def seen_of(rows: Sequence[Row]) -> Seen:
    """A look from the rows of its question. Names are made visible, cut, and merged where they are then equal."""
    roles: dict[str, RoleActivity] = {}
    waiters: list[LockWaiter] = []
    vacuums: list[Vacuum] = []
    automatic: set[int] = set()
    wal_bytes: int | None = None
    for kind, name, state, event, count, number in rows:
        if kind == "role":
            role = roles.setdefault(role_name(name), RoleActivity(role_name(name)))
            _add(role, state, event or "", int(count or 0), int(number or 0) * 1000)
        elif kind == "lock":
            waiters.append(LockWaiter(int(state or 0), role_name(name), event or "", int(number or 0) * 1000))
        elif kind == "vacuum":
            pid, phase, done, whole = int(state or 0), event or "", int(count or 0), int(number or 0)
            if phase and not phase.endswith(BY_HAND):
                automatic.add(pid)
            relation = visible((name or "a table that is not visible").removeprefix("public."))
            vacuums.append(Vacuum(pid, relation, phase.removesuffix(BY_HAND), done / whole if whole else 0.0))
        else:
            wal_bytes = int(float(count)) if count else None
    return Seen(_most(roles), tuple(waiters), tuple(vacuums), frozenset(automatic), wal_bytes)


def role_name(text: str | None) -> str:
    name = visible((text or NAMELESS)[:NAME_CHARACTERS])
    return f"{name} " if name == TOTAL else name


def _add(role: RoleActivity, state: str | None, event: str, count: int, age_ns: int) -> None:
    role.connections += count
    if state is None or state == "disabled":  # by its own track_activities
        role.unseen += count
    elif state.startswith(IDLE_IN_TRANSACTION):
        role.idle_in_transaction += count
    elif state != "idle":
        role.active += count
        role.waits[event] += count
        role.oldest_ns = max(role.oldest_ns, age_ns)


def _most(roles: Mapping[str, RoleActivity]) -> tuple[RoleActivity, ...]:
    """The roles with most to do, and all others as one."""
    ordered = sorted(roles.values(), key=lambda role: (-role.active, -role.connections, role.name))
    kept, rest = ordered[:MOST_ROLES], ordered[MOST_ROLES:]
    if rest:
        others = RoleActivity(OTHERS)
        for role in rest:
            others.add(role)
        kept.append(others)
    return tuple(kept)

"""The journal: the only meeting point of the engine and everything a person looks at.

Here are its rows and `JournalReader`, of which there may be any number; the one writer is `engine.writer`. The
tables are described in `schema.sql`. A run directory holds `manifest.json`, `journal.db`, `engine.lock`, a folder
`cells/` with the servers' logs, and, once somebody tagged it, `tags.json`.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from engine.errors import UserError
from engine.model import SCHEMA, StepTotals, ops
from workloads import histogram
from workloads.insert.spec import role_kind

FAR_NS = 2**63 - 1  # later than any time
_WITHIN = "t_ns > ? AND t_ns <= ?"
_OF_STEP = "role_id IN (SELECT id FROM role WHERE step_id = ?)"
STEP_COLUMNS = "id, attempt_id, ordinal, name, kind, state, started_ns, ended_ns, work, plan, totals"


@dataclass(frozen=True, slots=True)
class Session:
    """One start of the engine on a run: its clock anchor. Wall times are Unix nanoseconds."""

    id: int
    boot_id: str
    monotonic_ns: int
    wall_ns: int
    pid: int

    def wall(self, t_ns: int) -> int:
        """The wall-clock time of a monotonic time of this session."""
        return self.wall_ns + t_ns - self.monotonic_ns


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a cell, see table `attempt`."""

    id: int
    session_id: int
    cell: str
    state: str
    started_ns: int
    ended_ns: int | None
    reason: str | None
    origin: dict[str, Any]


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step of an attempt, see table `step`."""

    id: int
    attempt_id: int
    ordinal: int
    name: str
    kind: str
    state: str
    started_ns: int
    ended_ns: int | None
    work: int
    plan: dict[str, Any]
    totals: StepTotals | None


@dataclass(frozen=True, slots=True)
class RoleRow:
    """One connection of a step, see table `role`."""

    id: int
    step_id: int
    client: int
    name: str
    backend_pid: int
    client_pid: int

    @property
    def kind(self) -> str:
        """What it does: `query` for `query2`."""
        return role_kind(self.name)


@dataclass(frozen=True, slots=True)
class RoleSecond:
    """What one connection did in one interval, see table `role_second`; fields carry the columns' names."""

    role_id: int
    t_ns: int
    dt_ns: int
    statements: int
    rows: int
    in_flight_ns: int
    max_us: int
    service: bytes
    response: bytes | None = None
    backend_cpu_ns: int | None = None
    backend_runq_ns: int | None = None
    backend_switches: int | None = None
    backend_read_bytes: int | None = None
    backend_write_bytes: int | None = None
    client_cpu_ns: int | None = None
    client_runq_ns: int | None = None
    client_switches: int | None = None
    wait_event: str | None = None


class Count(NamedTuple):
    """The part of a `RoleSecond` that a chart needs."""

    role_id: int
    t_ns: int
    dt_ns: int
    statements: int
    rows: int
    in_flight_ns: int
    max_us: int


@dataclass(frozen=True, slots=True)
class ProbeFrame:
    """What a probe counted of one role in one frame, see table `probe_frame`; fields carry the columns' names."""

    step_id: int
    t_ns: int
    dt_ns: int
    probe: str
    role: str
    data: dict[str, Any]
    quality: dict[str, Any]


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event, see table `event`; `ended_ns` is None while it lasts."""

    id: int
    attempt_id: int | None
    step_id: int | None
    kind: str
    started_ns: int
    ended_ns: int | None
    role: str | None
    data: dict[str, Any]


class JournalReader:
    """A reader of a run, finished or under way. Every read sees the last commit of the engine."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.manifest = read_manifest(run)
        with readable(run):
            if not (run / "journal.db").is_file():
                raise UserError(f"{run}: its journal.db is missing")
            uri = f"file:{(run / 'journal.db').resolve()}?mode=ro"
            self._db = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=5)
            check_schema(self._db, run)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def version(self) -> int:
        """A number that changes whenever the engine has committed something: far cheaper than reading it."""
        with readable(self.run):
            (number,) = self._db.execute("PRAGMA data_version").fetchone()
            return int(number)

    def sessions(self) -> list[Session]:
        """All starts of the engine, oldest first."""
        return [Session(*row) for row in self._rows("session", "id, boot_id, monotonic_ns, wall_ns, pid", "1")]

    def attempts(self, after_id: int = 0, *, origins: bool = True) -> list[Attempt]:
        """Attempts at cells with a larger id than the one given, oldest first; their origins empty unless wanted."""
        columns = "id, session_id, cell, state, started_ns, ended_ns, reason, " + ("origin" if origins else "'{}'")
        rows = self._rows("attempt", columns, "id > ?", after_id)
        return [Attempt(*(*plain, json.loads(origin))) for *plain, origin in rows]

    def steps(self, attempt: int) -> list[StepRow]:
        """The steps of an attempt in order."""
        return [_step_row(row) for row in self._rows("step", STEP_COLUMNS, "attempt_id = ?", attempt)]

    def rates(self, attempt: int) -> dict[str, float]:
        """What the finished steps of an attempt did per second, by their names."""
        return {
            row.name: ops(row.kind, row.totals) / row.totals.seconds
            for row in self.steps(attempt)
            if row.totals is not None and row.totals.seconds > 0
        }

    def latest_step(self, attempt: int) -> StepRow | None:
        """The step that an attempt came to last; None before the first."""
        where = "id = (SELECT max(id) FROM step WHERE attempt_id = ?)"
        return next((_step_row(row) for row in self._rows("step", STEP_COLUMNS, where, attempt)), None)

    def roles(self, step: int) -> list[RoleRow]:
        """The connections of a step."""
        columns = "id, step_id, client, name, backend_pid, client_pid"
        return [RoleRow(*row) for row in self._rows("role", columns, "step_id = ?", step)]

    def role_seconds(self, role: int, after_ns: int = 0, until_ns: int = FAR_NS) -> list[RoleSecond]:
        """The intervals of a connection that end after one time, and not after another, in order."""
        columns = ", ".join(RoleSecond.__slots__)
        rows = self._rows("role_second", columns, f"role_id = ? AND {_WITHIN}", role, after_ns, until_ns, order="t_ns")
        return [RoleSecond(*row) for row in rows]

    def seconds(self, step: int, after_ns: int, until_ns: int) -> list[RoleSecond]:
        """The intervals of all connections of a step that end after one time, and not after another, in order."""
        columns = ", ".join(RoleSecond.__slots__)
        rows = self._rows("role_second", columns, f"{_OF_STEP} AND {_WITHIN}", step, after_ns, until_ns, order="t_ns")
        return [RoleSecond(*row) for row in rows]

    def counts(self, step: int, after_ns: int = 0) -> list[Count]:
        """What is counted of a step's intervals that end after a time, without their histograms, in order."""
        columns = ", ".join(Count._fields)
        rows = self._rows("role_second", columns, f"{_OF_STEP} AND {_WITHIN}", step, after_ns, FAR_NS, order="t_ns")
        return [Count(*row) for row in rows]

    def samples(
        self, step: int, after_ns: int = 0, until_ns: int = FAR_NS
    ) -> list[tuple[int, int, str, dict[str, Any]]]:
        """Samples of a step that end after one time, and not after another: (t_ns, dt_ns, source, data), in order."""
        where = f"step_id = ? AND {_WITHIN}"
        rows = self._rows("sample", "t_ns, dt_ns, source, data", where, step, after_ns, until_ns, order="t_ns, source")
        return [(t_ns, dt_ns, source, json.loads(data)) for t_ns, dt_ns, source, data in rows]

    def probe_frames(self, step: int, after_ns: int = 0, until_ns: int = FAR_NS) -> list[ProbeFrame]:
        """Frames of a step's probes that end within a time, in order; none in a journal older than schema 1.1."""
        if not self._has("probe_frame"):
            return []
        where = f"step_id = ? AND {_WITHIN}"
        columns, order = ", ".join(ProbeFrame.__slots__), "t_ns, probe, role"
        rows = self._rows("probe_frame", columns, where, step, after_ns, until_ns, order=order)
        return [ProbeFrame(*(*plain, json.loads(data), json.loads(quality))) for *plain, data, quality in rows]

    def events(self, step: int | None = None, after_id: int = 0) -> list[EventRow]:
        """Events (of a step, or all) with a larger id than the one given, oldest first."""
        where = "id > ?" if step is None else "id > ? AND step_id = ?"
        return self._events(where, *((after_id,) if step is None else (after_id, step)))

    def event(self, id: int) -> EventRow:
        """One event as it is now: one that lasts is updated."""
        (found,) = self._events("id = ?", id)
        return found

    def settings(self, attempt: int) -> list[tuple[str, str, str]]:
        """Settings of a cell's server that differ from its defaults: (name, value, source)."""
        return list(self._rows("setting", "name, value, source", "attempt_id = ?", attempt, order="name"))

    def differences(self, step: int) -> dict[str, dict[str, dict[str, Any]]]:
        """pg_stat differences over a step: view, object, counters."""
        views: dict[str, dict[str, dict[str, Any]]] = {}
        for view, name, data in self._rows("difference", "view, object, data", "step_id = ?", step, order="view"):
            views.setdefault(view, {})[name] = json.loads(data)
        return views

    def sizes(self, step: int) -> list[tuple[str, str, int]]:
        """Sizes after a step: (relation, kind, bytes)."""
        return list(self._rows("size", "relation, kind, bytes", "step_id = ?", step, order="relation"))

    def latest_event(self, attempt: int, kind: str) -> EventRow | None:
        """The newest event of a kind in an attempt."""
        where = "id = (SELECT max(id) FROM event WHERE attempt_id = ? AND kind = ?)"
        return next(iter(self._events(where, attempt, kind)), None)

    def _events(self, where: str, *arguments: Any) -> list[EventRow]:
        rows = self._rows("event", "id, attempt_id, step_id, kind, started_ns, ended_ns, role, data", where, *arguments)
        return [EventRow(*(*plain, json.loads(data))) for *plain, data in rows]

    def _has(self, table: str) -> bool:
        return any(self._rows("sqlite_master", "1", "type = 'table' AND name = ?", table, order="name"))

    def _rows(self, table: str, columns: str, where: str, *arguments: Any, order: str = "id") -> Iterator[Any]:
        with readable(self.run):
            query = f"SELECT {columns} FROM {table} WHERE {where} ORDER BY {order}"
            yield from self._db.execute(query, arguments).fetchall()


def _step_row(row: tuple[Any, ...]) -> StepRow:
    *plain, plan, totals = row
    return StepRow(*(*plain, json.loads(plan), StepTotals.of(json.loads(totals)) if totals else None))


def service_quantiles_us(seconds: Iterable[RoleSecond], *q: float) -> list[int | None]:
    """Quantiles of the service times that ended in intervals, in microseconds; None where none did."""
    merged = histogram.merge(histogram.unpack(second.service) for second in seconds)
    return [histogram.quantile_us(merged, each) for each in q]


def read_manifest(run: Path) -> dict[str, Any]:
    """The manifest of a run directory. Raises UserError when there is none or it is damaged."""
    try:
        manifest: dict[str, Any] = json.loads((run / "manifest.json").read_text())
    except FileNotFoundError:
        raise UserError(
            f"{run}: not a run directory (no manifest.json); `bench list runs` shows those there are"
        ) from None
    except (OSError, json.JSONDecodeError) as error:
        raise UserError(f"{run / 'manifest.json'}: cannot be read: {error}") from error
    major = manifest.get("schema", [0])[0]
    if major != SCHEMA[0]:
        raise UserError(
            f"{run}: written with journal schema {major}, this pgbed reads {SCHEMA[0]}; use the pgbed that made it"
        )
    return manifest


TAGS = "tags.json"


def read_tags(run: Path) -> tuple[str, ...]:
    """The words that a person has given to a run, in their order; none where the file is missing or damaged."""
    try:
        words = json.loads((run / TAGS).read_text())["tags"]
    except (OSError, ValueError, KeyError, TypeError):
        return ()
    return tuple(word for word in words if isinstance(word, str)) if isinstance(words, list) else ()


def is_locked(run: Path) -> bool:
    """Whether an engine has the run's journal open."""
    try:
        lock = os.open(run / "engine.lock", os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


@contextmanager
def readable(run: Path) -> Iterator[None]:
    """Turns SQLite's complaints about a damaged file into one line for the user."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise UserError(
            f"{run / 'journal.db'}: damaged or truncated ({error}); try sqlite3's .recover on a copy of the folder"
        ) from error


def check_schema(connection: sqlite3.Connection, run: Path) -> None:
    """Refuses a journal of another major schema with a UserError; newer minor ones are read."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'schema_major'").fetchone()
    if row is None or int(row[0]) != SCHEMA[0]:
        found = row[0] if row else "none"
        raise UserError(f"{run}: journal schema {found}, this pgbed reads {SCHEMA[0]}; use the pgbed that made it")

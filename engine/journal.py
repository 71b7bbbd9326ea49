"""The journal: the only meeting point of the engine and everything a person looks at.

`Journal` is the one writer, `JournalReader` any number of readers; the tables are described in `schema.sql`.
A run directory holds `manifest.json`, `journal.db`, `engine.lock` and a folder `cells/` with the servers' logs.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from engine.errors import UserError
from engine.model import StepTotals

SCHEMA = (1, 0)  # major, minor


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


class Journal:
    """The writer. Holds the run's lock for as long as it is open, so that a second engine is refused."""

    def __init__(self, run: Path, connection: sqlite3.Connection, lock: int) -> None:
        self.run = run
        self._db = connection
        self._lock = lock
        now = (time.monotonic_ns(), time.time_ns())
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        session = self._insert("session", boot_id=boot_id, monotonic_ns=now[0], wall_ns=now[1], pid=os.getpid())
        self.session = Session(session, boot_id, now[0], now[1], os.getpid())
        self.commit()

    @classmethod
    def create(cls, run: Path, manifest: Mapping[str, Any]) -> Journal:
        """Makes a run directory with its manifest and an empty journal, and opens it.

        Raises UserError when the folder already holds a run or cannot be written.
        """
        try:
            run.mkdir(parents=True, exist_ok=True)
            if (run / "manifest.json").exists():
                raise UserError(f"{run}: a run is already there; go on with it (bench resume) or name another --out")
            part = run / "manifest.json.part"
            part.write_text(json.dumps(manifest, indent=1) + "\n")
            part.rename(run / "manifest.json")
        except OSError as error:
            raise UserError(f"{run}: cannot write the run directory: {error.strerror}") from error
        return cls.open(run)

    @classmethod
    def open(cls, run: Path) -> Journal:
        """Opens a run's journal for writing.

        Raises UserError when another engine has it, when it is damaged, or when its major schema is another.
        """
        lock = _take_lock(run)
        try:
            with _readable(run):
                connection = sqlite3.connect(run / "journal.db", isolation_level=None)
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
                if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
                    # One transaction, so that an engine killed here leaves no half-made schema behind.
                    schema = (files("engine") / "schema.sql").read_text()
                    versions = (
                        f"INSERT INTO meta VALUES ('schema_major', '{SCHEMA[0]}'), ('schema_minor', '{SCHEMA[1]}');"
                    )
                    connection.executescript(f"BEGIN;\n{schema}\n{versions}\nCOMMIT;")
                _check_schema(connection, run)
                connection.execute("BEGIN")
                return cls(run, connection, lock)
        except BaseException:
            os.close(lock)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Commits, closes, and gives up the lock."""
        self._db.execute("COMMIT")
        self._db.close()
        os.close(self._lock)

    def commit(self) -> None:
        """Makes what was written visible to readers, and safe from a crash of the engine."""
        self._db.execute("COMMIT")
        self._db.execute("BEGIN")

    def finished_cells(self) -> set[str]:
        """The ids of cells that need not be run again."""
        return {row[0] for row in self._db.execute("SELECT cell FROM attempt WHERE state = 'finished'")}

    def close_orphans(self) -> list[str]:
        """Marks what an engine that died left `running` as interrupted; returns the cells' ids."""
        cells = [row[0] for row in self._db.execute("SELECT cell FROM attempt WHERE state = 'running'")]
        self._db.execute("UPDATE step SET state = 'interrupted' WHERE state = 'running'")
        self._db.execute("UPDATE attempt SET state = 'interrupted', reason = 'the engine died' WHERE state = 'running'")
        self._db.execute("UPDATE event SET ended_ns = started_ns WHERE ended_ns IS NULL")
        self.commit()
        return cells

    def begin_attempt(self, cell: str, t_ns: int, origin: Mapping[str, Any]) -> int:
        """Records that a cell begins; returns the attempt's id."""
        attempt = self._insert(
            "attempt",
            session_id=self.session.id,
            cell=cell,
            state="running",
            started_ns=t_ns,
            origin=json.dumps(origin),
        )
        self.commit()
        return attempt

    def update_origin(self, attempt: int, origin: Mapping[str, Any]) -> None:
        """Replaces what is recorded of the circumstances of a cell."""
        self._db.execute("UPDATE attempt SET origin = ? WHERE id = ?", (json.dumps(origin), attempt))

    def end_attempt(self, attempt: int, t_ns: int, state: str, reason: str | None = None) -> None:
        """Records how a cell ended: finished, failed or interrupted; open steps and events end with it."""
        self._db.execute(
            "UPDATE step SET state = ?, ended_ns = ? WHERE attempt_id = ? AND state = 'running'", (state, t_ns, attempt)
        )
        self._db.execute("UPDATE event SET ended_ns = ? WHERE attempt_id = ? AND ended_ns IS NULL", (t_ns, attempt))
        self._db.execute(
            "UPDATE attempt SET state = ?, ended_ns = ?, reason = ? WHERE id = ?", (state, t_ns, reason, attempt)
        )
        self.commit()

    def begin_step(
        self, attempt: int, ordinal: int, name: str, kind: str, work: int, plan: Mapping[str, Any], t_ns: int
    ) -> int:
        """Records that a step begins; returns its id."""
        step = self._insert(
            "step",
            attempt_id=attempt,
            ordinal=ordinal,
            name=name,
            kind=kind,
            state="running",
            started_ns=t_ns,
            work=work,
            plan=json.dumps(plan),
        )
        self.commit()
        return step

    def end_step(self, step: int, t_ns: int, totals: StepTotals | None, state: str = "finished") -> None:
        """Records a step's end and what was counted over it."""
        record = json.dumps(asdict(totals)) if totals is not None else None
        self._db.execute(
            "UPDATE step SET state = ?, ended_ns = ?, totals = ? WHERE id = ?", (state, t_ns, record, step)
        )
        self.commit()

    def add_role(self, step: int, client: int, name: str, backend_pid: int, client_pid: int) -> int:
        """Records one connection of a step; returns its id."""
        return self._insert(
            "role", step_id=step, client=client, name=name, backend_pid=backend_pid, client_pid=client_pid
        )

    def add_role_second(self, second: RoleSecond) -> None:
        """Records one connection's interval."""
        self._insert("role_second", **asdict(second))

    def add_sample(self, step: int, t_ns: int, dt_ns: int, source: str, data: Mapping[str, Any]) -> None:
        """Records one source's interval."""
        self._insert("sample", step_id=step, t_ns=t_ns, dt_ns=dt_ns, source=source, data=json.dumps(data))

    def add_event(
        self,
        kind: str,
        started_ns: int,
        data: Mapping[str, Any],
        *,
        ended_ns: int | None = None,
        attempt: int | None = None,
        step: int | None = None,
        role: str | None = None,
    ) -> int:
        """Records an event; one that lasts is given its end later, by `update_event`. Returns its id."""
        return self._insert(
            "event",
            attempt_id=attempt,
            step_id=step,
            kind=kind,
            started_ns=started_ns,
            ended_ns=ended_ns,
            role=role,
            data=json.dumps(data),
        )

    def update_event(self, event: int, ended_ns: int | None, data: Mapping[str, Any]) -> None:
        """Replaces an event's end and data."""
        self._db.execute("UPDATE event SET ended_ns = ?, data = ? WHERE id = ?", (ended_ns, json.dumps(data), event))

    def add_settings(self, attempt: int, settings: Iterable[tuple[str, str, str]]) -> None:
        """Records settings (name, value, source) that differ from the server's defaults."""
        for name, value, source in settings:
            self._insert("setting", attempt_id=attempt, name=name, value=value, source=source)

    def add_differences(self, step: int, differences: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
        """Records pg_stat differences over a step: view, object, counters."""
        for view, objects in differences.items():
            for name, data in objects.items():
                self._insert("difference", step_id=step, view=view, object=name, data=json.dumps(data))

    def add_sizes(self, step: int, sizes: Iterable[tuple[str, str, int]]) -> None:
        """Records sizes (relation, kind, bytes) after a step."""
        for relation, kind, size in sizes:
            self._insert("size", step_id=step, relation=relation, kind=kind, bytes=size)

    def _insert(self, table: str, **values: Any) -> int:
        columns = ", ".join(values)
        marks = ", ".join("?" * len(values))
        cursor = self._db.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", tuple(values.values()))
        return cursor.lastrowid or 0


class JournalReader:
    """A reader of a run, finished or under way. Every read sees the last commit of the engine."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.manifest = read_manifest(run)
        with _readable(run):
            if not (run / "journal.db").is_file():
                raise UserError(f"{run}: its journal.db is missing")
            uri = f"file:{(run / 'journal.db').resolve()}?mode=ro"
            self._db = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=5)
            _check_schema(self._db, run)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def engine_alive(self) -> bool:
        """Whether an engine has the run open now."""
        return is_locked(self.run)

    def sessions(self) -> list[Session]:
        """All starts of the engine, oldest first."""
        return [Session(*row) for row in self._rows("session", "id, boot_id, monotonic_ns, wall_ns, pid", "1")]

    def attempts(self) -> list[Attempt]:
        """All attempts at cells, oldest first."""
        columns = "id, session_id, cell, state, started_ns, ended_ns, reason, origin"
        return [Attempt(*row[:7], json.loads(row[7])) for row in self._rows("attempt", columns, "1")]

    def steps(self, attempt: int) -> list[StepRow]:
        """The steps of an attempt in order."""
        columns = "id, attempt_id, ordinal, name, kind, state, started_ns, ended_ns, work, plan, totals"
        return [
            StepRow(*row[:9], json.loads(row[9]), StepTotals.of(json.loads(row[10])) if row[10] else None)
            for row in self._rows("step", columns, "attempt_id = ?", attempt)
        ]

    def roles(self, step: int) -> list[RoleRow]:
        """The connections of a step."""
        columns = "id, step_id, client, name, backend_pid, client_pid"
        return [RoleRow(*row) for row in self._rows("role", columns, "step_id = ?", step)]

    def role_seconds(self, role: int, after_ns: int = 0) -> list[RoleSecond]:
        """The intervals of a connection that end after a time, in order."""
        columns = ", ".join(RoleSecond.__slots__)
        where = "role_id = ? AND t_ns > ?"
        return [RoleSecond(*row) for row in self._rows("role_second", columns, where, role, after_ns, order="t_ns")]

    def samples(self, step: int, after_ns: int = 0) -> list[tuple[int, int, str, dict[str, Any]]]:
        """Samples of a step that end after a time: (t_ns, dt_ns, source, data), in order."""
        where = "step_id = ? AND t_ns > ?"
        rows = self._rows("sample", "t_ns, dt_ns, source, data", where, step, after_ns, order="t_ns, source")
        return [(t_ns, dt_ns, source, json.loads(data)) for t_ns, dt_ns, source, data in rows]

    def events(self, step: int | None = None, after_id: int = 0) -> list[EventRow]:
        """Events (of a step, or all) with a larger id than the one given, oldest first."""
        columns = "id, attempt_id, step_id, kind, started_ns, ended_ns, role, data"
        where = "id > ?" if step is None else "id > ? AND step_id = ?"
        arguments = (after_id,) if step is None else (after_id, step)
        return [EventRow(*row[:7], json.loads(row[7])) for row in self._rows("event", columns, where, *arguments)]

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

    def _rows(self, table: str, columns: str, where: str, *arguments: Any, order: str = "id") -> Iterator[Any]:
        with _readable(self.run):
            query = f"SELECT {columns} FROM {table} WHERE {where} ORDER BY {order}"
            yield from self._db.execute(query, arguments).fetchall()


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


def _take_lock(run: Path) -> int:
    lock = os.open(run / "engine.lock", os.O_RDWR | os.O_CREAT, 0o644)
    for patience in (True, True, True, False):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if patience:  # a reader that asks `is_locked` holds it for some microseconds
                time.sleep(0.05)
                continue
            holder = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(lock)
            raise UserError(
                f"{run}: another engine (pid {holder}) is running it; watch it with `bench watch`"
            ) from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


@contextmanager
def _readable(run: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise UserError(
            f"{run / 'journal.db'}: damaged or truncated ({error}); copy the folder and try sqlite3's .recover on the copy"
        ) from error


def _check_schema(connection: sqlite3.Connection, run: Path) -> None:
    row = connection.execute("SELECT value FROM meta WHERE key = 'schema_major'").fetchone()
    if row is None or int(row[0]) != SCHEMA[0]:
        found = row[0] if row else "none"
        raise UserError(f"{run}: journal schema {found}, this pgbed reads {SCHEMA[0]}; use the pgbed that made it")

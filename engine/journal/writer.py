"""The journal's one writer. `schema.sql` describes what it writes, `engine.journal.reader` reads it."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, Protocol, Self

from engine.core.errors import UserError
from engine.core.record import converted, parsed
from engine.core.text import visible
from engine.host import disk
from engine.journal import signature
from engine.journal.database import check_schema, database_path, make_database, readable
from engine.journal.rows import EngineStart, ProbeFrame, RoleSecond, SliceRow, WaitSecond
from engine.journal.run_lock import take
from engine.journal.totals import StepTotals
from engine.system.account import make_passable


class RowSink(Protocol):
    """The destination of a writer's rows. A transaction's rows appear together or not at all."""

    def insert(self, table: str, values: Mapping[str, Any]) -> int:
        """Add a row; return its id."""

    def insert_all(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Add rows, possibly hundreds."""

    def update(self, table: str, values: Mapping[str, Any], where: Mapping[str, Any]) -> None:
        """Update the rows that match `where`, in which None is NULL."""

    def found(self) -> dict[str, Any]:
        """The findings reported by the run's first step that has any; empty if none has yet."""

    def commit(self) -> None:
        """Make written rows visible to readers."""

    def rollback(self) -> None:
        """Discard rows written since the last commit."""

    def harden(self) -> None:
        """Make committed rows safe from a power cut."""

    def close(self) -> None:
        """Commit and close."""


@cache
def _insertion(table: str, *columns: str) -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


class Database:
    def __init__(self, run: Path, connection: sqlite3.Connection, lock: int) -> None:
        self.connection = connection
        self._run, self._lock = run, lock
        connection.execute("BEGIN")

    def insert(self, table: str, values: Mapping[str, Any]) -> int:
        return self.connection.execute(_insertion(table, *values), tuple(values.values())).lastrowid or 0

    def insert_all(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self.connection.executemany(_insertion(table, *columns), rows)

    def update(self, table: str, values: Mapping[str, Any], where: Mapping[str, Any]) -> None:
        changes = ", ".join(f"{column} = ?" for column in values)
        which = " AND ".join(f"{column} IS ?" for column in where)
        self.connection.execute(f"UPDATE {table} SET {changes} WHERE {which}", (*values.values(), *where.values()))

    def found(self) -> dict[str, Any]:
        what = "json_extract(totals, '$.report.found')"
        query = f"SELECT {what} FROM step WHERE {what} IS NOT NULL ORDER BY id LIMIT 1"
        row = self.connection.execute(query).fetchone()
        return converted(parsed(row[0], "journal.db"), dict[str, Any], "journal.db: found") if row else {}

    def commit(self) -> None:
        self.connection.execute("COMMIT")
        self.connection.execute("BEGIN")

    def rollback(self) -> None:
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")
        self.connection.execute("BEGIN")

    def harden(self) -> None:
        # `synchronous = NORMAL` lets the kernel choose when to write the log.
        with suppress(FileNotFoundError), (self._run / "journal.db-wal").open("rb") as log:
            os.fsync(log.fileno())

    def close(self) -> None:
        """Close the database and give up the lock. Leaves a single file unless a reader holds on to the log."""
        try:
            self._close()
        finally:
            os.close(self._lock)

    def _close(self) -> None:
        if self.connection.in_transaction:
            self.connection.execute("COMMIT")
        # A reader keeps SQLite from doing this on close, and then journal.db alone would be an incomplete copy.
        busy = 1
        with suppress(sqlite3.OperationalError):
            (busy, *_) = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self.connection.close()
        if not busy:  # readers notice that it is gone and reopen the journal
            for name in ("journal.db-wal", "journal.db-shm"):
                (self._run / name).unlink(missing_ok=True)


class JournalWriter:
    """The writer. Holds the run's lock while open, so that a second engine is refused."""

    def __init__(self, run: Path, rows: RowSink) -> None:
        self.run = run
        self.rows = rows
        now = (time.monotonic_ns(), time.time_ns())
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(errors="replace").strip()
        session = self._insert("session", boot_id=boot_id, monotonic_ns=now[0], wall_ns=now[1], pid=os.getpid())
        self.session = EngineStart(session, boot_id, now[0], now[1], os.getpid())
        self.commit()

    @classmethod
    def open(cls, run: Path) -> JournalWriter:
        """Raises UserError if another engine has the journal, or it is damaged or of another schema."""
        path = database_path(run)
        lock = take(run)
        try:
            os.ftruncate(lock, 0)
            os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
            with readable(run):
                make_database(path)
                connection = sqlite3.connect(path, isolation_level=None)
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
                check_schema(connection, run)
                return cls(run, Database(run, connection, lock))
        except BaseException:
            os.close(lock)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.rows.close()

    def commit(self) -> None:
        """Make written rows visible to readers, and safe from a crash of the engine."""
        self.rows.commit()

    def recover(self) -> None:
        """Continue after a failed write (a full disk), without the uncommitted rows of this second."""
        self.rows.rollback()

    @property
    def database(self) -> sqlite3.Connection:
        """The journal itself, for operations that only its own machine performs."""
        assert isinstance(self.rows, Database)
        return self.rows.connection

    def close_orphans(self) -> list[str]:
        """Mark rows that a dead engine left `running` as interrupted; return the cells' ids."""
        cells = [row[0] for row in self.database.execute("SELECT cell FROM attempt WHERE state = 'running'")]
        self._update("step", {"state": "interrupted"}, state="running")
        self._update("attempt", {"state": "interrupted", "reason": "the engine died"}, state="running")
        self.database.execute("UPDATE event SET ended_ns = started_ns WHERE ended_ns IS NULL")
        self.commit()
        return cells

    def last_attempt(self) -> int:
        (last,) = self.database.execute("SELECT coalesce(max(id), 0) FROM attempt").fetchone()
        return int(last)

    def ending(self, attempt: int) -> tuple[str, int | None, str | None]:
        """An attempt's state, end and reason."""
        query = "SELECT state, ended_ns, reason FROM attempt WHERE id = ?"
        state, ended_ns, reason = self.database.execute(query, (attempt,)).fetchone()
        return state, ended_ns, reason

    def last_ns(self, attempt: int) -> int:
        """The latest time recorded of an attempt."""
        (last_ns,) = self.database.execute(
            "SELECT max(max(a.started_ns), max(coalesce(s.ended_ns, s.started_ns, 0)), max(coalesce(r.t_ns, 0))) "
            "FROM attempt a LEFT JOIN step s ON s.attempt_id = a.id LEFT JOIN sample r ON r.step_id = s.id "
            "WHERE a.id = ?",
            (attempt,),
        ).fetchone()
        return int(last_ns)

    def extend_origin(self, attempt: int, origin: Mapping[str, Any]) -> None:
        """Add to the recorded circumstances of a cell, or leave them alone if they cannot be read."""
        (text,) = self.database.execute("SELECT origin FROM attempt WHERE id = ?", (attempt,)).fetchone()
        with suppress(UserError):
            self.update_origin(attempt, {**converted(parsed(text, "origin"), dict[str, Any], "origin"), **origin})

    def begin_attempt(self, cell: str, t_ns: int, origin: Mapping[str, Any]) -> int:
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
        self._update("attempt", {"origin": json.dumps(origin)}, id=attempt)

    def end_attempt(self, attempt: int, t_ns: int, state: str, reason: str | None = None) -> None:
        """Record how a cell ended (finished, failed or interrupted) and end its open steps and events."""
        self._update("step", {"state": state, "ended_ns": t_ns}, attempt_id=attempt, state="running")
        self._update("event", {"ended_ns": t_ns}, attempt_id=attempt, ended_ns=None)
        reason = visible(reason) if reason else None  # it may contain a file name that SQLite cannot hold
        self._update("attempt", {"state": state, "ended_ns": t_ns, "reason": reason}, id=attempt)
        self.commit()
        self.rows.harden()

    def begin_step(
        self, attempt: int, ordinal: int, name: str, kind: str, work: int, plan: Mapping[str, Any], t_ns: int
    ) -> int:
        """Record the start of a step; return its id. The caller commits."""
        return self._insert(
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

    def found(self) -> dict[str, Any]:
        return self.rows.found()

    def end_step(self, step: int, t_ns: int, totals: StepTotals | None, state: str = "finished") -> None:
        record = json.dumps(asdict(totals)) if totals is not None else None
        self._update("step", {"state": state, "ended_ns": t_ns, "totals": record}, id=step)
        self.commit()

    def add_role(self, step: int, client: int, name: str, backend_pid: int, client_pid: int) -> int:
        return self._insert(
            "role", step_id=step, client=client, name=name, backend_pid=backend_pid, client_pid=client_pid
        )

    def add_role_seconds(self, seconds: Sequence[tuple[Any, ...]]) -> None:
        """Record an interval of several connections: the fields of a `RoleSecond` for each."""
        self.rows.insert_all("role_second", RoleSecond._fields, seconds)

    def add_role_outcome(self, role: int, t_ns: int, counts: Mapping[str, int]) -> None:
        self._insert("role_outcome", role_id=role, t_ns=t_ns, data=json.dumps(counts))

    def add_wait_second(self, second: WaitSecond) -> None:
        self._insert("wait_second", **asdict(second) | {"data": json.dumps(second.data)})

    def add_sample(self, step: int, t_ns: int, dt_ns: int, source: str, data: Mapping[str, Any]) -> None:
        self._insert("sample", step_id=step, t_ns=t_ns, dt_ns=dt_ns, source=source, data=json.dumps(data))

    def add_probe_frame(self, frame: ProbeFrame) -> None:
        record = asdict(frame)
        self._insert("probe_frame", **record | {key: json.dumps(record[key]) for key in ("data", "quality")})

    def add_slice(self, row: SliceRow) -> None:
        self._insert("slice", **asdict(row))

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
        """Record an event; return its id. One that lasts gets its end later, from `update_event`."""
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
        self._update("event", {"ended_ns": ended_ns, "data": json.dumps(data)}, id=event)

    def add_settings(self, attempt: int, settings: Iterable[tuple[str, str, str]]) -> None:
        for name, value, source in settings:
            self._insert("setting", attempt_id=attempt, name=name, value=value, source=source)

    def add_differences(self, step: int, differences: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
        """Record pg_stat differences over a step: counters by view and object."""
        for view, objects in differences.items():
            for name, data in objects.items():
                self._insert("difference", step_id=step, view=view, object=name, data=json.dumps(data))

    def add_sizes(self, step: int, sizes: Iterable[tuple[str, str, int]]) -> None:
        for relation, kind, size in sizes:
            self._insert("size", step_id=step, relation=relation, kind=kind, bytes=size)

    def _insert(self, table: str, **values: Any) -> int:
        return self.rows.insert(table, values)

    def _update(self, table: str, values: Mapping[str, Any], **where: Any) -> None:
        self.rows.update(table, values, where)


def create_run(run: Path, manifest: Mapping[str, Any]) -> None:
    """Create a run folder with only its signed manifest. Raises UserError if it exists or cannot be written."""
    try:
        make_passable(run / "cells")
        if (run / "manifest.json").exists():
            raise UserError(f"{run}: this run exists; continue it (bench resume) or choose another --out")
        text = json.dumps(manifest, indent=1).encode() + b"\n"
        signature.sign(run, text)
        part = run / "manifest.json.part"
        with part.open("wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.rename(run / "manifest.json")
    except OSError as error:
        raise UserError(f"{run}: cannot write the run's folder: {disk.with_name(str(error.strerror), run)}") from error

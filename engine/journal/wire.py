"""Journal rows sent by a guest, which writes them like an engine, to the host's engine, which keeps the journal.

SQLite's log is shared memory of one kernel, so no journal lies in a folder shared by two. A transaction is a line:

    {"rows": [["insert", TABLE, {COLUMN: VALUE}], ["update", TABLE, {COLUMN: VALUE}, {COLUMN: VALUE}], …]}

where bytes are {"b64": TEXT}. Both sides number rows alike, starting from the ids present when the guest began; an
insert into a table with ids carries its number. A guest is untrusted: it may add rows only to its own cell, in the
tables of a cell, and change only rows that it has added.
"""

from __future__ import annotations

import base64
import binascii
import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from engine.core.errors import UserError

WITH_IDS = ("session", "attempt", "step", "role", "event")
TABLES = (
    *WITH_IDS, "setting", "role_second", "role_outcome", "wait_second", "sample", "probe_frame", "difference", "size",
)  # fmt: skip
KINDS: dict[str, type] = {"INTEGER": int, "TEXT": str, "BLOB": bytes}
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Value = str | Int64 | dict[str, str] | None
Row = dict[str, Value]
Change = tuple[str | Row, ...]


class Wire:
    """A guest's rows, gathered and sent by `say` on commit; `found` are the run's findings when the guest began."""

    def __init__(
        self, say: Callable[[Mapping[str, Any]], None], last_ids: Mapping[str, int], findings: Mapping[str, Any]
    ) -> None:
        self._say, self._found = say, dict(findings)
        self._ids, self._committed = dict(last_ids), dict(last_ids)
        self._gathered: list[list[Any]] = []

    def insert(self, table: str, values: Mapping[str, Any]) -> int:
        """Add a row; return its id, or 0 in a table without ids."""
        own_ids: dict[str, Any] = {}
        if table in WITH_IDS:
            self._ids[table] += 1
            own_ids = {"id": self._ids[table]}
        self._gathered.append(["insert", table, {**own_ids, **_packed(values)}])
        return self._ids.get(table, 0)

    def insert_all(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        for row in rows:
            self.insert(table, dict(zip(columns, row, strict=True)))

    def update(self, table: str, values: Mapping[str, Any], where: Mapping[str, Any]) -> None:
        if table == "step" and values.get("totals") and not self._found:
            self._found = json.loads(values["totals"])["report"].get("found") or {}
        self._gathered.append(["update", table, _packed(values), _packed(where)])

    def found(self) -> dict[str, Any]:
        return self._found

    def commit(self) -> None:
        if self._gathered:
            self._say({"rows": self._gathered})
        self._gathered, self._committed = [], dict(self._ids)

    def rollback(self) -> None:
        """Drop the gathered rows. The host has seen none of them, so their ids are free again."""
        self._gathered, self._ids = [], dict(self._committed)

    def harden(self) -> None:
        """Do nothing: durability is the host's job."""

    def close(self) -> None:
        self.commit()


def last_ids(connection: sqlite3.Connection) -> dict[str, int]:
    return {table: connection.execute(f"SELECT coalesce(max(id), 0) FROM {table}").fetchone()[0] for table in WITH_IDS}


class Receiver:
    """The host's side for one guest: applies its lines. Meanwhile no other process may add rows to tables with ids."""

    def __init__(self, connection: sqlite3.Connection, cell: str) -> None:
        self._db, self._cell = connection, cell
        self.first = last_ids(connection)  # rows up to these ids are not the guest's
        self._last = dict(self.first)
        self._columns = {table: _columns(connection, table) for table in TABLES}
        self._refers = {
            table: {row[3]: row[2] for row in connection.execute(f"PRAGMA foreign_key_list({table})")}
            for table in TABLES
        }

    @property
    def attempt(self) -> int | None:
        """The attempt that the guest has begun, or None."""
        return self._last["attempt"] if self._last["attempt"] > self.first["attempt"] else None

    def apply(self, record: object) -> None:
        """Apply a line's rows as one transaction. Raises UserError, applying none, for rows a guest may not send."""
        try:
            rows = msgspec.convert(record, list[Change])
        except (ValueError, RecursionError) as error:
            raise _refused(str(error)) from None
        before = dict(self._last)
        try:
            for row in rows:
                match row:
                    case ("insert", str(table), dict(values)):
                        self._insert(table, values)
                    case ("update", str(table), dict(values), dict(where)):
                        self._update(table, values, where)
                    case _:
                        raise _refused(f"{len(row)} parts that are no row")
            self._db.execute("COMMIT")
        except (UserError, sqlite3.Error) as error:
            self._last = before
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            if isinstance(error, sqlite3.IntegrityError):
                raise _refused(str(error)) from None
            raise
        finally:
            if not self._db.in_transaction:
                self._db.execute("BEGIN")

    def _insert(self, table: str, row: Row) -> None:
        values = self._checked(table, row)
        if table in WITH_IDS:
            if values.get("id") != self._last[table] + 1:
                raise _refused(f"{table} {values.get('id')}, where {self._last[table] + 1} is next")
            self._last[table] += 1
        if table == "attempt" and (values.get("cell") != self._cell or self._last[table] > self.first[table] + 1):
            raise _refused(f"an attempt at cell {values.get('cell')}")
        names, marks = ", ".join(values), ", ".join("?" * len(values))
        self._db.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(values.values()))

    def _update(self, table: str, row: Row, which: Row) -> None:
        values, where = self._checked(table, row), self._checked(table, which)
        if "id" in values or "cell" in values or not values or not {"id", *self._refers[table]} & where.keys():
            raise _refused(f"a change of {table} by {', '.join(where) or 'nothing'}")
        if any(where.get(name) is None for name in ("id", *self._refers[table]) if name in where):
            raise _refused(f"a change of {table} of no row of its own")
        changes, condition = ", ".join(f"{name} = ?" for name in values), " AND ".join(f"{name} IS ?" for name in where)
        self._db.execute(f"UPDATE {table} SET {changes} WHERE {condition}", (*values.values(), *where.values()))

    def _checked(self, table: str, row: Row) -> dict[str, Any]:
        """Values with known columns, the right types and references to this guest's own rows only."""
        if table not in self._columns:
            raise _refused(f"table {table}")
        values: dict[str, Any] = {name: _unpacked(value) for name, value in row.items()}
        for name, value in values.items():
            kind = self._columns[table].get(name)
            if kind is None:
                raise _refused(f"{table}.{name}")
            if value is not None and type(value) is not kind:
                raise _refused(f"{table}.{name} of type {type(value).__name__}")
            of = table if name == "id" else self._refers[table].get(name)
            if of and isinstance(value, int) and not self.first[of] < value <= self._last[of] + (name == "id"):
                raise _refused(f"{table}.{name} {value}, which is not its own")
        return values


def _columns(connection: sqlite3.Connection, table: str) -> dict[str, type]:
    return {row[1]: KINDS[row[2]] for row in connection.execute(f"PRAGMA table_info({table})")}


def _packed(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: {"b64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value
        for name, value in values.items()
    }


def _unpacked(value: Value) -> Any:
    if not isinstance(value, dict):
        return value
    try:
        return base64.b64decode(value["b64"], validate=True)
    except (LookupError, binascii.Error):
        raise _refused("bytes that are none") from None


def _refused(what: str) -> UserError:
    return UserError(f"the guest sent rows that it may not: {what[:200]}")

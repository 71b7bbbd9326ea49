"""The server's counts: statistics views, settings and sizes, asked over one connection that cannot harm a run.

The questions are files in `engine/sql`, named `TOPIC.VERSION.sql` by the server version from which they hold;
the newest that is not newer than the server is used, and a topic without one does not exist there. A view's
file gives the columns `object` (relation, index, or kind of I/O; '' when the view has one row), `stats_reset`,
and numbers; columns that end in `_now` are states, the others are counters.

When numbers are complete: a backend hands its counts in at the end of a transaction, but at most every 500 ms
(12 to 14) or 1 s (15 and later), and keeps the rest while it is idle: up to 10 s from 15 on, for ever before.
No other session can make it hand them in (`pg_stat_force_next_flush` is for the own one), but ending does.
So the last snapshot of a step is taken after its connections are gone: see `settle`.
"""

from __future__ import annotations

import math
import select
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import NamedTuple, TypeVar

import psycopg
from psycopg.pq import DiagnosticField, ExecStatus
from psycopg.pq.abc import PGresult

from engine.core.clock import patient
from engine.core.format import number
from engine.core.resource import Closing
from engine.postgres import session
from engine.postgres.waiting import NOBODY, LimitedWait, Waiting

CONNECT_TIMEOUT_S = int(patient(5))
APPLICATION_NAME = "pgbed monitor"
VIEWS = ("bgwriter", "checkpointer", "wal", "io", "lock", "database", "user_tables", "user_indexes")
UNDEFINED = ("42703", "42P01", "42883")  # SQLSTATE of a column, a table or a function that is not there
SETTLE_S = 1.5
COLLECTOR_S = 0.6  # up to version 14 the collector's file is renewed every 500 ms
# The monitor is a superuser. An operator that the data's files made in `public`, and that fits the types of a question
# better than the server's own, would be executed as one.
SEARCH_PATH = "SET search_path = pg_catalog"
# A question that waits for a lock, or is slow, would itself be measured.
SESSION = (
    "SET jit = off; SET max_parallel_workers_per_gather = 0; SET lock_timeout = '100ms';"
    f" SET statement_timeout = {patient(2000):.0f}"
)
PATIENT_SESSION = "SET statement_timeout = 0; SET lock_timeout = 0"
CHECK_S = 0.1  # between checks whether an answer is still wanted

Row = tuple[str | None, ...]
Number = int | float
Counters = dict[str, Number]
Sent = TypeVar("Sent", bytes, Sequence[bytes])


class MonitorError(Exception):
    """The server could not be queried. The run continues; the caller may give up sampling."""


class Undefined(MonitorError):
    """A question names something that this server does not have: it is of a later version than pgbed knows."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All statistics views at one moment: `views[view][object]` are counters; `resets` say when they began."""

    views: dict[str, dict[str, Counters]]
    resets: dict[tuple[str, str], str] = field(default_factory=dict)


class NonDefaultSetting(NamedTuple):
    """A setting that differs from the server's built-in default; `source` as in pg_settings."""

    name: str
    value: str
    source: str


class Size(NamedTuple):
    """The size of a relation of schema public; `kind` is heap, index, toast (under its owner's name) or sequence."""

    relation: str
    kind: str
    bytes: int


class Monitor(Closing):
    """The engine's own connection to the server; a context manager. Raises MonitorError, nothing else.

    No question blocks the engine: after its patience it stops waiting, and reads and drops the late answer afterwards.
    Until then each further question fails at once.
    """

    def __init__(self, conninfo: str, *, server: str = "", waiting: Waiting = NOBODY) -> None:
        self._what = f"waiting for the statistics of {server or 'the server'}"
        try:
            self._connection = session.connect(
                conninfo, server, waiting, application_name=APPLICATION_NAME, connect_timeout=CONNECT_TIMEOUT_S
            )
        except psycopg.Error as error:
            raise MonitorError(f"cannot connect the monitor: {_line(str(error))}") from error
        self.version = self._connection.info.server_version
        self._pgconn = self._connection.pgconn
        self._unanswered = False
        self._patience_s = patient(3.0)
        self._waiting = NOBODY
        self.undefined: dict[str, str] = {}  # by view that is left out: what the server says is missing
        self._poll = select.poll()
        self._poll.register(self._pgconn.socket, select.POLLIN)
        try:
            for statement in (SEARCH_PATH, *SESSION.split(";")):
                self.ask(statement)
        except MonitorError:
            self.close()
            raise

    def ask(self, sql: str, parameters: Sequence[str] = (), *, patience_s: float | None = None) -> list[Row]:
        """The rows of an answer, each value as text."""
        return _rows(self._ask(self._pgconn.send_query_params, sql, _encoded(parameters), patience_s=patience_s))

    def ask_named(self, sql: str) -> list[dict[str, str | None]]:
        result = self._ask(self._pgconn.send_query_params, sql, [])
        names = [(result.fname(column) or b"").decode(errors="replace") for column in range(result.nfields)]
        return [dict(zip(names, row, strict=True)) for row in _rows(result)]

    def prepare(self, name: str, sql: str) -> None:
        self._ask(self._pgconn.send_prepare, name, sql.encode())

    @contextmanager
    def patient(self, patience_s: float, waiting: Waiting) -> Iterator[None]:
        """Allow slow answers meanwhile, outside measurement; first waits for an abandoned one."""
        self._patience_s, usual_s, self._waiting = patience_s, self._patience_s, waiting
        try:
            if self._unanswered:
                self._last_result(None)
            for statement in PATIENT_SESSION.split(";"):
                self.ask(statement)
            yield
            for statement in SESSION.split(";"):
                self.ask(statement)
        finally:
            self._patience_s, self._waiting = usual_s, NOBODY

    def ask_prepared(self, name: str, parameters: Sequence[str] = (), *, patience_s: float) -> list[Row]:
        return _rows(self._ask(self._pgconn.send_query_prepared, name, _encoded(parameters), patience_s=patience_s))

    @property
    def backend_pid(self) -> int:
        return self._pgconn.backend_pid

    def close(self) -> None:
        self._connection.close()

    def _ask(
        self, send: Callable[[bytes, Sent], None], text: str, sent: Sent, *, patience_s: float | None = None
    ) -> PGresult:
        if self._unanswered:
            self._last_result(0.0)  # drops the old answer if it has come, else raises
        try:
            send(text.encode(), sent)
            self._pgconn.flush()  # a question is far smaller than the socket's buffer
        except psycopg.Error as error:
            raise MonitorError(f"cannot ask the server: {_line(str(error))}") from error
        return _checked(self._last_result(patience_s))

    def _last_result(self, patience_s: float | None) -> PGresult | None:
        """The last result, even if an error; without `patience_s` waits for the usual time."""
        patience_s = self._patience_s if patience_s is None else patience_s
        deadline, wait = time.monotonic() + patience_s, LimitedWait(self._what, math.inf, self._waiting)
        last: PGresult | None = None
        self._unanswered = True
        try:
            while True:
                self._pgconn.consume_input()
                while not self._pgconn.is_busy():
                    result = self._pgconn.get_result()
                    if result is None:
                        self._unanswered = False
                        return last
                    last = result
                left_s = deadline - time.monotonic()
                if not self._poll.poll(min(CHECK_S, max(0.0, left_s)) * 1000) and left_s <= 0:
                    raise MonitorError(f"the server did not answer the monitor within {patience_s:g} s")
                wait.goes_on()
        except psycopg.Error as error:
            raise MonitorError(f"the monitor lost the server: {_line(str(error))}") from error


@cache
def question(topic: str, server_version: int) -> str | None:
    """The SQL of a topic for a server version (170004 for 17.4); None if that server has no such view."""
    versions = [
        (int(entry.name.split(".")[1]), entry)
        for entry in (files("engine.postgres") / "sql").iterdir()
        if entry.name.startswith(f"{topic}.") and entry.name.endswith(".sql")
    ]
    known = [pair for pair in versions if pair[0] <= server_version]
    return max(known, key=lambda pair: pair[0])[1].read_text("utf-8") if known else None


def snapshot(monitor: Monitor, which: Sequence[str] = VIEWS) -> Snapshot:
    views: dict[str, dict[str, Counters]] = {}
    resets: dict[tuple[str, str], str] = {}
    for view in which:
        sql = question(view, monitor.version)
        if sql is None or view in monitor.undefined:
            continue
        try:
            rows = monitor.ask_named(sql)
        except Undefined as error:
            monitor.undefined[view] = str(error)
            continue
        views[view] = {}
        for row in rows:
            name = row.pop("object") or ""
            reset = row.pop("stats_reset")
            if reset is not None:
                resets[view, name] = reset
            views[view][name] = {key: number(text) for key, text in row.items() if text is not None}
    return Snapshot(views, resets)


def difference(before: Snapshot, after: Snapshot) -> dict[str, dict[str, Counters]]:
    """Counts between two snapshots: view, object, counters.

    An object that appeared, or whose counters were reset in between (another `stats_reset`, or a counter that
    decreased, as after a crash), counts from 0. `_now` keys keep their later value. Objects of many-row views without
    any counts are left out.
    """
    result: dict[str, dict[str, Counters]] = {}
    for view, objects in after.views.items():
        result[view] = {}
        for name, counters in objects.items():
            old: Mapping[str, Number] = before.views.get(view, {}).get(name, {})
            # Absent before: never reset, as in pg_stat_database of a new database until 14.
            was_reset = before.resets.get((view, name)) not in (None, after.resets.get((view, name)))
            if was_reset or any(counters.get(key, 0) < old[key] for key in old if not key.endswith("_now")):
                old = {}
            changes = {
                key: value if key.endswith("_now") else value - old.get(key, 0) for key, value in counters.items()
            }
            if name == "" or any(value for key, value in changes.items() if not key.endswith("_now")):
                result[view][name] = changes
    return result


def settle(monitor: Monitor, *, patience_s: float = SETTLE_S) -> bool:
    """Wait until the counts of ended sessions are in the views; for use outside the measured interval.

    Returns False if other client backends of the database remain after `patience_s`: their last second may be missing.
    """
    deadline = time.monotonic() + patience_s
    others = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND backend_type IN ('client backend', 'parallel worker') AND pid <> pg_backend_pid()"
    )
    old = monitor.version < 150000
    while not (gone := monitor.ask(others) == [("0",)]):
        if time.monotonic() + 0.02 > deadline - (COLLECTOR_S if old else 0):
            break
        time.sleep(0.02)
    if old:
        # Counts reach the collector by datagram, and we read its file.
        time.sleep(max(0.0, min(COLLECTOR_S, deadline - time.monotonic())))
    else:
        monitor.ask("SELECT pg_stat_force_next_flush()")
    return gone


def settings(monitor: Monitor, topic: str = "settings") -> tuple[NonDefaultSetting, ...]:
    """Non-default settings by name; topic `external_settings` leaves secrets out."""
    rows = monitor.ask(question(topic, monitor.version) or "")
    return tuple(NonDefaultSetting(name or "", value or "", source or "") for name, value, source in rows)


def defaults(monitor: Monitor) -> dict[str, str]:
    """The built-in default of every setting that the server knows."""
    rows = monitor.ask(question("defaults", monitor.version) or "")
    return {name or "": value or "" for name, value in rows}


def sizes(monitor: Monitor) -> tuple[Size, ...]:
    rows = monitor.ask(question("sizes", monitor.version) or "")
    return tuple(Size(name or "", kind or "", int(size or 0)) for name, kind, size in rows)


def database_bytes(monitor: Monitor) -> int:
    """The size of the database's files; walks a folder, so only for the end of steps."""
    return _one(monitor, "SELECT pg_database_size(current_database())")


def wal_lsn(monitor: Monitor) -> int:
    """The WAL insert position in bytes; the difference of two is the WAL written, in any version."""
    return _one(monitor, "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")


def _one(monitor: Monitor, sql: str) -> int:
    return int(monitor.ask(sql)[0][0] or 0)


def _encoded(parameters: Sequence[str]) -> Sequence[bytes]:
    return [value.encode() for value in parameters]


def _rows(result: PGresult) -> list[Row]:
    columns = range(result.nfields)
    return [
        tuple(
            None if (value := result.get_value(row, column)) is None else value.decode(errors="replace")
            for column in columns
        )
        for row in range(result.ntuples)
    ]


def _checked(result: PGresult | None) -> PGresult:
    if result is None or result.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
        message = b"no answer" if result is None else result.error_message
        if result is not None and (result.error_field(DiagnosticField.SQLSTATE) or b"").decode() in UNDEFINED:
            raise Undefined((result.error_field(DiagnosticField.MESSAGE_PRIMARY) or b"").decode(errors="replace"))
        raise MonitorError(f"the server refused the monitor: {_line(message.decode(errors='replace'))}")
    return result


def _line(message: str) -> str:
    return " ".join(message.split())

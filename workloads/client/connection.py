"""A raw libpq connection: open it, send text with the simple protocol, turn a server's error into an exception."""

from __future__ import annotations

import select
from collections.abc import Callable

from psycopg import pq
from psycopg.pq import abc

Check = Callable[[], None]  # raises an exception to abandon the statement
LOOK_S = 0.02  # between two checks
COMMAND_OK = int(pq.ExecStatus.COMMAND_OK)
TUPLES_OK = int(pq.ExecStatus.TUPLES_OK)


class SqlError(Exception):
    """A failed statement or connection. The text is one line: sqlstate and message."""

    def __init__(self, sqlstate: str, message: str) -> None:
        super().__init__(f"{sqlstate} {message}")
        self.sqlstate = sqlstate
        self.message = message


def open_connection(dsn: str) -> abc.PGconn:
    """Connect in steps: libpq's blocking call would hold the interpreter lock, and thus stop all threads."""
    connection = pq.PGconn.connect_start(dsn.encode())
    while (polled := connection.connect_poll()) in (pq.PollingStatus.READING, pq.PollingStatus.WRITING):
        if polled == pq.PollingStatus.READING:
            select.select([connection.socket], [], [])
        else:
            select.select([], [connection.socket], [])
    if connection.status != pq.ConnStatus.OK:
        raise SqlError("08001", one_line(connection.error_message))
    connection.notice_handler = None
    return connection


def execute(connection: abc.PGconn, sql: bytes) -> abc.PGresult:
    """Run one statement outside the measured path."""
    result = connection.exec_(sql)
    if result.status not in (COMMAND_OK, TUPLES_OK):
        raise error_of(connection, result)
    return result


def scalar(connection: abc.PGconn, sql: bytes) -> int | None:
    """The integer result of a statement of one row and one column; None for NULL."""
    value = execute(connection, sql).get_value(0, 0)
    return None if value is None else int(value)


def lookup(connection: abc.PGconn | None, dsn: str, sql: bytes) -> int:
    """`scalar` on this connection, or on one opened for it; 0 for NULL."""
    used = connection or open_connection(dsn)
    try:
        return scalar(used, sql) or 0
    finally:
        if used is not connection:
            used.finish()


def error_of(connection: abc.PGconn, result: abc.PGresult) -> SqlError:
    sqlstate = result.error_field(pq.DiagnosticField.SQLSTATE)
    message = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY)
    if sqlstate is None:  # made by libpq itself: the connection is gone
        return SqlError("08006", one_line(result.error_message or connection.error_message))
    return SqlError(sqlstate.decode(), one_line(message or b""))


def one_line(message: bytes) -> str:
    return " ".join(message.decode(errors="replace").split())


class Session:
    """A connection whose statements can be abandoned. A context manager."""

    def __init__(self, dsn: str, check: Check) -> None:
        self.connection: abc.PGconn = open_connection(dsn)
        self.check = check

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.finish()

    def run(self, *statements: str) -> abc.PGresult:
        """Run statements; return the last one's last result. Raises SqlError, and any exception of the check."""
        for sql in statements:
            last = self._run(sql)
        return last

    def number(self, sql: str) -> int:
        return int(float(self.run(sql).get_value(0, 0) or b"0"))

    def _run(self, sql: str) -> abc.PGresult:
        connection, last = self.connection, None
        connection.send_query(sql.encode())
        while True:
            while connection.is_busy():
                self.check()
                if select.select([connection.socket], [], [], LOOK_S)[0]:
                    connection.consume_input()
            result = connection.get_result()
            if result is None:
                assert last is not None
                return last
            if result.status not in (COMMAND_OK, TUPLES_OK):
                raise error_of(connection, result)
            last = result

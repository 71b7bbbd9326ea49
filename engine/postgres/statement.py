"""A statement under way on its own connection, polled and never waited for.

Vacuums take minutes while the engine samples. Threads would do too, but the engine forks, and a process with threads
should not.
"""

from __future__ import annotations

import time
from typing import Any

import psycopg
from psycopg.pq import DiagnosticField, ExecStatus
from psycopg.pq.abc import PGresult

from engine.core.clock import patient
from engine.core.resource import Closing

LIMIT_S = patient(24 * 3600.0)  # of the greatest index, or a checkpoint of all memory


class AsyncStatement(Closing):
    """Sends a statement without waiting; `done` says whether it has ended, `error` how. A context manager.

    The server's messages meanwhile (VACUUM VERBOSE) are in `notices`, one per line.
    """

    def __init__(self, connection: psycopg.Connection[Any], statement: str) -> None:
        self.statement = statement
        self.error: str | None = None
        self.notices: list[str] = []
        self._connection = connection
        self._pgconn = connection.pgconn
        self._pgconn.notice_handler = self._note
        self._ended = False
        self._until_s = time.monotonic() + LIMIT_S
        try:
            self._pgconn.send_query(statement.encode())
            self._pgconn.flush()
        except psycopg.Error as error:
            self._end(str(error))

    def done(self) -> bool:
        try:
            while not self._ended:
                self._pgconn.consume_input()
                if self._pgconn.is_busy():
                    if time.monotonic() > self._until_s:
                        self._end(f"no answer within {LIMIT_S:g} s")
                    return self._ended
                result = self._pgconn.get_result()
                if result is None:
                    self._ended = True
                elif result.status == ExecStatus.FATAL_ERROR:
                    self.error = f"{self.statement}: {result.error_message.decode(errors='replace').strip()}"
        except psycopg.Error as error:
            self._end(str(error))
        return True

    def close(self) -> None:
        """Close the connection, which cancels a running statement."""
        self._connection.close()

    def _note(self, result: PGresult) -> None:
        for field in (DiagnosticField.MESSAGE_PRIMARY, DiagnosticField.MESSAGE_DETAIL):
            text = result.error_field(field)
            if text:
                self.notices += text.decode(errors="replace").splitlines()

    def _end(self, error: str) -> None:
        self.error = f"{self.statement}: {error}"
        self._ended = True

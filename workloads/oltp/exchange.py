"""Messages and answers on a connection's socket, past libpq: a client that only counts rows need not take them apart.

libpq has connected and prepared the statements, and closes the connection in the end. In between each message is
answered in full, up to the server's readiness for the next one, so that libpq misses nothing.
"""

from __future__ import annotations

import os
import re
import socket

from psycopg.pq import abc

from workloads.client.connection import SqlError

READY = b"Z\0\0\0\5"  # followed by the transaction's state
BUFFER_BYTES = 1 << 18
KEPT_BYTES = 8192  # of an answer that is larger than the buffer: an error is at its end
TAG = re.compile(rb"C\0\0\0.[A-Z]+ (?:\d+ )?(\d+)\0$", re.S)
COMMAND = re.compile(rb"C\0\0\0.[A-Z ]+\0$", re.S)
TAG_BYTES = 64
FAILED = re.compile(rb"E\0\0..S[^\0]*\0V(?:ERROR|FATAL|PANIC)\0C(\w{5})\0M([^\0]*)\0", re.S)
GONE = SqlError("08006", "the server closed the connection unexpectedly")


class Exchange:
    """One connection's socket."""

    def __init__(self, connection: abc.PGconn) -> None:
        if connection.ssl_in_use:
            raise SqlError("08000", "these clients speak without TLS: add sslmode=disable to the connection string")
        self._socket = socket.socket(fileno=os.dup(connection.socket))
        self._socket.setblocking(True)  # of libpq's descriptor, too
        self._send, self._receive = self._socket.sendall, self._socket.recv_into
        self._buffer = bytearray(BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._usual = b"\0" * 6 + b"?"  # end of the last answer: the next one's is mostly the same
        self._usual_rows = 0

    def ask(self, message: bytes) -> int:
        """Send a message, and wait for its answer; return the rows that it says. Raises SqlError."""
        buffer = self._buffer
        try:
            self._send(message)
            size = self._receive(buffer)
        except OSError:
            raise self._last_words() from None
        if buffer.endswith(self._usual, 0, size):
            return self._usual_rows
        while not (size >= 6 and buffer[size - 6 : size - 1] == READY):
            if not size:
                raise GONE
            if size > BUFFER_BYTES // 2:
                buffer[:KEPT_BYTES] = buffer[size - KEPT_BYTES : size]
                size = KEPT_BYTES
            more = self._receive(self._view[size:])
            if not more:
                raise self._error(size) or GONE
            size += more
        return self._rows(size)

    def _rows(self, size: int) -> int:
        end = bytes(self._buffer[max(0, size - TAG_BYTES) : size - 6])
        if (tag := TAG.search(end)) is not None:
            rows = int(tag.group(1))
        elif (tag := COMMAND.search(end)) is not None:
            rows = 0
        else:
            raise self._error(size) or SqlError("08P01", "an answer outside the protocol")
        self._usual, self._usual_rows = bytes(self._buffer[size - 6 - len(tag.group()) : size]), rows
        return rows

    def _error(self, size: int) -> SqlError | None:
        match = FAILED.search(self._buffer, max(0, size - KEPT_BYTES), size)
        if match is None:
            return None
        return SqlError(match.group(1).decode(), " ".join(match.group(2).decode(errors="replace").split()))

    def _last_words(self) -> SqlError:
        """The reason for which the server closed the connection, if it gave one before."""
        try:
            return self._error(self._receive(self._buffer)) or GONE
        except OSError:
            return GONE

    def close(self) -> None:
        self._socket.close()

"""Lines between processes: over a socket, a pipe or a pair of descriptors, bounded in length and time.

A line is any bytes up to a newline, usually a JSON object (`encoded`, `decoded`). Bytes after the last newline are not
a line: a peer that dies while writing has said nothing. Imports only the standard library, as it also runs on hosts to
which little more than this file was copied.
"""

from __future__ import annotations

import json
import os
import select
import time
from collections import deque
from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, NoReturn

MAX_BYTES = 64 << 20
CHUNK_BYTES = 1 << 20  # per read or write


class Fault(Enum):
    ENDED = auto()
    SILENT = auto()  # nothing was sent, or read, in time
    TOO_LONG = auto()
    MALFORMED = auto()


class LineError(Exception):
    """The peer has ended, is silent, or breaks the protocol."""

    def __init__(self, fault: Fault, text: str) -> None:
        super().__init__(text)
        self.fault = fault


class LineBuffer:
    """Cuts a stream of bytes into lines of at most `max_bytes`. Does no I/O."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._rest = bytearray()

    @property
    def begun(self) -> bool:
        """Whether there is a part of a line."""
        return bool(self._rest)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines completed by `data`, without newlines. Raises LineError for one that is too long."""
        *ends, rest = data.split(b"\n")
        lines = []
        for end in ends:
            self._extend(end)
            lines.append(bytes(self._rest))
            self._rest.clear()
        self._extend(rest)
        return lines

    def _extend(self, data: bytes) -> None:
        if len(self._rest) + len(data) > self._max_bytes:
            raise LineError(Fault.TOO_LONG, f"it sent a line of more than {self._max_bytes} bytes")
        self._rest += data


class LineChannel:
    """Both directions of a connection; the caller closes them. For timeouts of writes, `writing` must not block."""

    def __init__(self, reading: int = -1, writing: int = -1, max_bytes: int = MAX_BYTES) -> None:
        self.reading, self.writing = reading, writing
        self.ended = False  # whether nothing more can come
        self._buffer = LineBuffer(max_bytes)
        self._lines: deque[bytes] = deque()

    @property
    def pending(self) -> bool:
        """Whether anything was read that has not been returned yet, be it part of a line."""
        return bool(self._lines) or self._buffer.begun

    def receive(self, timeout_s: float | None = None) -> bytes:
        """Return the next line; without a timeout, wait forever. Raises LineError."""
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._lines:
            left_s = None if until_s is None else max(0.0, until_s - time.monotonic())
            if not _is_ready(self.reading, select.POLLIN, left_s):
                raise LineError(Fault.SILENT, f"it has sent nothing for {timeout_s:.0f} s")
            self._read()
            if self.ended and not self._lines:
                raise _ended()
        return self._lines.popleft()

    def waiting(self) -> list[bytes]:
        """Return lines that have arrived, after at most one read: no flood keeps the caller here. Raises LineError."""
        if not self.ended and _is_ready(self.reading, select.POLLIN, 0):
            self._read()
        lines = list(self._lines)
        self._lines.clear()
        return lines

    def send(self, record: Mapping[str, Any], timeout_s: float | None = None) -> None:
        self.write(encoded(record), timeout_s)

    def write(self, data: bytes | memoryview, timeout_s: float | None = None) -> None:
        """Write all of `data`. Raises LineError if the peer has ended, or reads nothing for `timeout_s`."""
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self.writing, view[:CHUNK_BYTES]) :]
            except BlockingIOError:
                if not _is_ready(self.writing, select.POLLOUT, timeout_s):
                    raise LineError(Fault.SILENT, f"it has taken nothing for {timeout_s:.0f} s") from None
            except OSError:
                raise _ended() from None

    def _read(self) -> None:
        try:
            data = os.read(self.reading, CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self.ended = not data
        self._lines += self._buffer.feed(data)


def encoded(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record).encode() + b"\n"


def decoded(line: bytes) -> dict[str, Any]:
    """Return the JSON object of a line. Raises LineError for anything else."""
    try:
        record = json.loads(line.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise LineError(Fault.MALFORMED, f"it sent a line that is not a JSON object: {line[:80]!r}")
    return record


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)  # NaN and Infinity, which are not JSON


def _ended() -> LineError:
    return LineError(Fault.ENDED, "the connection has ended")


def _is_ready(descriptor: int, event: int, timeout_s: float | None) -> bool:
    """Whether the descriptor is ready in time. Raises LineError if it can never be written again."""
    poll = select.poll()  # select() takes no descriptor above 1023
    poll.register(descriptor, event)
    events = poll.poll(None if timeout_s is None else timeout_s * 1000)
    if events and event == select.POLLOUT and not events[0][1] & event:
        raise _ended()
    return bool(events)

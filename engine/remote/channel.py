"""Questions and answers over a pair of pipes: a line of JSON each way, the next only when the last was answered.

So nothing is ever left over in a pipe when another process goes on with it: the relay of a step takes them over from
the engine, and leaves them again.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import workloads
from engine.remote.clock_offset import ROUND_TRIPS, Offset, Trip, best

# What both sides count on: the descriptor of the page there, and the name of the password's file.
PAGE_FD, PASSFILE = 100, "password"
MOST_BYTES = 64 << 20  # of an answer
PART_BYTES = 1 << 20
ANSWER_S = 20.0


class Lost(Exception):
    """The other side has ended, is silent, or talks nonsense."""


@dataclass(slots=True)
class Channel:
    """The near ends of the pipes: `reading` and `writing`."""

    reading: int
    writing: int

    def ask(self, question: dict[str, Any], timeout_s: float = ANSWER_S) -> dict[str, Any]:
        """The answer. Raises Lost."""
        answer, _ = self.timed(question, timeout_s)
        return answer

    def timed(self, question: dict[str, Any], timeout_s: float = ANSWER_S) -> tuple[dict[str, Any], Trip]:
        """The answer, and the round trip it took; an answer has `came_ns` and `left_ns`."""
        data = json.dumps(question).encode() + b"\n"
        sent_ns = time.monotonic_ns()
        self.send(data, timeout_s)
        line = self.line(timeout_s)
        received_ns = time.monotonic_ns()
        try:
            answer = json.loads(line)
            trip = Trip(sent_ns, int(answer["came_ns"]), int(answer["left_ns"]), received_ns)
        except (ValueError, LookupError, TypeError, RecursionError):
            raise Lost(f"it answered what makes no sense: {line[:80]!r}") from None
        return answer, trip

    def offset(self) -> Offset:
        """How far the clock of the other side is ahead. Raises Lost."""
        return best([self.timed({"do": "clock"})[1] for _ in range(ROUND_TRIPS)])

    def send(self, data: bytes, timeout_s: float = ANSWER_S) -> None:
        """Writes all of it, to a pipe that does not block. Raises Lost."""
        view = memoryview(data)
        while view:
            if not select.select([], [self.writing], [], timeout_s)[1]:
                raise Lost(f"it has taken nothing for {timeout_s:.0f} s")
            try:
                view = view[os.write(self.writing, view[:PART_BYTES]) :]
            except BlockingIOError:
                continue
            except OSError:
                raise Lost("the connection has ended") from None

    def line(self, timeout_s: float = ANSWER_S) -> bytes:
        """The next line. Raises Lost."""
        parts: list[bytes] = []
        until_s, size = time.monotonic() + timeout_s, 0
        while not parts or not parts[-1].endswith(b"\n"):
            if not select.select([self.reading], [], [], max(0.0, until_s - time.monotonic()))[0]:
                raise Lost(f"it has not answered for {timeout_s:.0f} s")
            try:
                part = os.read(self.reading, PART_BYTES)
            except BlockingIOError:
                continue
            size += len(part)
            if not part or size > MOST_BYTES:
                raise Lost("the connection has ended" if not part else "its answer has no end")
            parts.append(part)
        return b"".join(parts)


def code_digest() -> str:
    """Names the code of the clients: the same here and there, or counts would not mean the same."""
    whole, root = hashlib.sha256(), Path(workloads.__file__).parent
    for path in sorted(root.rglob("*.py")):
        whole.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return whole.hexdigest()

"""Words to an engine that runs, and its answers: a socket in the run directory, a line of JSON each way.

    {"probe": NAME, "on": true|false}   attaches or detaches a probe, for the rest of the cell
    {"mark": TEXT}                      an event of the user's, for finding a moment again
    {"stop": true}                      as Ctrl-C

The answer is {"ok": TEXT} or {"error": TEXT}. The engine looks when it looks for signals, ten times a second, and never
waits for who asks.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from engine.errors import UserError
from engine.journal import is_locked

NAME = "control"
LINE_MAX_BYTES = 4096
PATIENCE_S = 5.0  # for a line that was begun
ANSWER_TIMEOUT_S = 60.0  # the engine is deaf while it starts a server
CALLERS_MAX = 8

Answer = Callable[[dict[str, Any]], str]


class Control:
    """The engine's end of the socket, a context manager. Only its own user, and root, may talk to it."""

    def __init__(self, run: Path) -> None:
        self._callers: list[tuple[socket.socket, bytes, float]] = []  # with what they have said, and since when
        self._run = run
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        mask = os.umask(0o177)
        # A file system without sockets makes an engine that cannot be talked to, which is no reason not to run.
        with suppress(OSError), _short(run) as path:
            path.unlink(missing_ok=True)  # of an engine that died
            self._socket.bind(str(path))
            self._socket.listen(CALLERS_MAX)
        os.umask(mask)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for caller, _, _ in self._callers:
            caller.close()
        self._socket.close()
        (self._run / NAME).unlink(missing_ok=True)

    def poll(self, answer: Answer) -> None:
        """Answers whoever has said a whole line. `answer` returns what to say, or raises UserError."""
        with suppress(OSError):
            while len(self._callers) < CALLERS_MAX:
                caller, _ = self._socket.accept()
                caller.setblocking(False)
                self._callers.append((caller, b"", time.monotonic()))
        callers, self._callers = self._callers, []
        for caller, said, since_s in callers:
            heard = _heard(caller)
            said += heard or b""
            if b"\n" in said or len(said) > LINE_MAX_BYTES:
                _reply(caller, said.partition(b"\n")[0], answer)
            elif heard == b"" or time.monotonic() - since_s > PATIENCE_S:
                caller.close()
            else:
                self._callers.append((caller, said, since_s))


def ask(run: Path, record: dict[str, Any]) -> str:
    """Says something to the engine of a run; returns its answer. Raises UserError when it refuses, or is not there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller, _short(run) as path:
        caller.settimeout(ANSWER_TIMEOUT_S)
        try:
            caller.connect(str(path))
            caller.sendall(json.dumps(record).encode() + b"\n")
            answered = b""
            while not answered.endswith(b"\n") and (part := caller.recv(LINE_MAX_BYTES)):
                answered += part
        except PermissionError:
            raise UserError(f"{run}: its engine was started by another user; ask as that user or as root") from None
        except TimeoutError:
            raise UserError(f"{run}: the engine is busy and did not answer; try again once a step runs") from None
        except OSError:
            answered = b""
    if not answered:
        gone = "did not answer: it is ending, or its folder can hold no socket" if is_locked(run) else "is not running"
        raise UserError(f"{run}: the engine {gone}; `bench list runs` shows which run")
    found: dict[str, str] = json.loads(answered)
    if "error" in found:
        raise UserError(found["error"])
    return found["ok"]


def _heard(caller: socket.socket) -> bytes | None:
    """What a caller has said since; None when nothing, b"" when it has gone."""
    try:
        return caller.recv(LINE_MAX_BYTES)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _reply(caller: socket.socket, line: bytes, answer: Answer) -> None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        answered = {"error": "control: one JSON object a line is wanted"}
    else:
        try:
            answered = {"ok": answer(record)}
        except sqlite3.Error:
            raise  # the journal's, which the run must know of
        except Exception as error:
            answered = {"error": str(error) or type(error).__name__}
    with caller, suppress(OSError):  # who has left meanwhile need not be told
        caller.send(json.dumps(answered).encode() + b"\n")


@contextmanager
def _short(run: Path) -> Iterator[Path]:
    """The socket's path in few bytes: the kernel takes 107, and run directories may lie deep."""
    folder = os.open(run, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield Path(f"/proc/self/fd/{folder}") / NAME
    finally:
        os.close(folder)

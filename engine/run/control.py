"""Commands to an engine that runs, and its answers: a socket in the run folder, a line of JSON each way.

    {"probe": NAME, "on": true|false}   attaches or detaches a probe, for the rest of the cell
    {"mark": TEXT}                      an event of the user's, for finding a moment again
    {"stop": true}                      as Ctrl-C

A command is for all cells that are interleaved. The answer is {"ok": TEXT} or {"error": TEXT}. The engine polls the
socket some times a second and never waits for a caller.
"""

from __future__ import annotations

import os
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from engine.core.errors import UserError
from engine.core.lines import Fault, LineChannel, LineError, decoded
from engine.journal.run_lock import is_locked
from engine.journal.runs import CONTROL
from engine.journal.writer import JournalWriter
from engine.tracing.attach import Probing

LINE_MAX_BYTES = 4096
PATIENCE_S = 5.0  # for a line that was begun
ANSWER_TIMEOUT_S = 60.0  # the engine does not answer while it starts a server
ANSWER_MAX_BYTES = 65536
CALLERS_MAX = 8
MARK_MAX = 500

Answer = Callable[[dict[str, Any]], str]


@dataclass(slots=True)
class RunningCell:
    """A cell under way: its attempt, and its step and probes, if any yet."""

    attempt: int
    step: int | None = None
    probing: Probing | None = None


@dataclass(slots=True)
class Commands:
    """Carries out commands. `cells` are those under way, by attempt: several if they are interleaved."""

    journal: JournalWriter
    cells: dict[int, RunningCell] = field(default_factory=dict)
    stop_wanted: bool = False
    guest: Answer | None = None  # who answers while the cell runs in a guest

    def answer(self, record: dict[str, Any]) -> str:
        match record:
            case {"probe": str(), "on": bool()} | {"mark": str()} if self.guest is not None:
                return self.guest(record)
            case {"probe": str(name), "on": bool(on)}:
                return self._switch(name, on)
            case {"mark": str(text)}:
                return self._mark(text)
            case {"stop": True}:
                self.stop_wanted = True
                return "stopping"
            case _:
                known = '{"probe": NAME, "on": true}, {"mark": TEXT} or {"stop": true}'
                raise UserError(f"control: unknown command; give {known}")

    def _switch(self, name: str, on: bool) -> str:
        probed = [cell.probing for cell in self.cells.values() if cell.probing is not None]
        if not probed:
            raise UserError(f"probe {name}: no server is up yet; try again once a step runs")
        reasons = [probing.switch(name, on) for probing in probed]
        if all(reasons):
            raise UserError(reasons[0])
        self.journal.commit()
        return f"{name} {'starts' if on else 'stops'}"

    def _mark(self, text: str) -> str:
        t_ns = time.monotonic_ns()
        data = {"text": text[:MARK_MAX]}
        for cell in self.cells.values():
            self.journal.add_event("mark", t_ns, data, ended_ns=t_ns, attempt=cell.attempt, step=cell.step)
        if not self.cells:
            self.journal.add_event("mark", t_ns, data, ended_ns=t_ns)
        self.journal.commit()
        return "marked"


class ControlSocket:
    """The engine's end of the socket, a context manager. Only the engine's own user and root can connect."""

    def __init__(self, run: Path) -> None:
        self._callers: list[tuple[socket.socket, LineChannel, float]] = []  # with the time at which they came
        self._run = run
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        mask = os.umask(0o177)
        # On a file system without sockets the engine runs without commands.
        with suppress(OSError), _short(run) as path:
            path.unlink(missing_ok=True)  # of an engine that died
            self._socket.bind(str(path))
            self._socket.listen(CALLERS_MAX)
        os.umask(mask)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for caller, _lines, _since_s in self._callers:
            caller.close()
        self._socket.close()
        (self._run / CONTROL).unlink(missing_ok=True)

    def poll(self, answer: Answer) -> None:
        """Answer each caller that has sent a complete line; `answer` returns the text, or raises UserError."""
        with suppress(OSError):
            while len(self._callers) < CALLERS_MAX:
                caller, _ = self._socket.accept()
                caller.setblocking(False)
                lines = LineChannel(caller.fileno(), caller.fileno(), LINE_MAX_BYTES)
                self._callers.append((caller, lines, time.monotonic()))
        callers, self._callers = self._callers, []
        for caller, lines, since_s in callers:
            try:
                received = lines.waiting()
            except LineError:
                received = [b""]  # too long: the answer shows the form of a command
            if received:
                with caller:
                    _reply(lines, received[0], answer)
            elif lines.ended or time.monotonic() - since_s > PATIENCE_S:
                caller.close()
            else:
                self._callers.append((caller, lines, since_s))


class Silent(UserError):
    """The engine has not answered in time."""


def ask(run: Path, record: dict[str, Any], timeout_s: float = ANSWER_TIMEOUT_S) -> str:
    """Send a command to the engine of a run and return its answer. Raises UserError if it refuses or is absent."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller, _short(run) as path:
        caller.settimeout(timeout_s)
        try:
            caller.connect(str(path))
            lines = LineChannel(caller.fileno(), caller.fileno(), ANSWER_MAX_BYTES)
            lines.send(record, timeout_s)
            answered = decoded(lines.receive(timeout_s))
        except PermissionError:
            raise UserError(f"{run}: its engine belongs to another user; repeat this as that user or as root") from None
        except LineError as error:
            raise _trouble(run, error.fault) from None
        except OSError as error:
            raise _trouble(run, Fault.SILENT if isinstance(error, TimeoutError) else Fault.ENDED) from None
    match answered:
        case {"error": str(text)}:
            raise UserError(text)
        case {"ok": str(text)}:
            return text
    raise _trouble(run, Fault.MALFORMED)


def _trouble(run: Path, fault: Fault) -> UserError:
    if fault is Fault.SILENT:
        return Silent(f"{run}: the engine is busy and did not answer; try again once a step runs")
    if fault is not Fault.ENDED:
        return UserError(f"{run}: the engine gave no answer that can be understood")
    gone = "did not answer: it is exiting, or has no control socket" if is_locked(run) else "is not running"
    return UserError(f"{run}: the engine {gone}; `bench list runs` shows which runs are")


def _reply(lines: LineChannel, line: bytes, answer: Answer) -> None:
    try:
        record = decoded(line)
    except LineError:
        answered = {"error": "control: give one JSON object a line"}
    else:
        try:
            answered = {"ok": answer(record)}
        except sqlite3.Error:
            raise  # a journal error, which the run must see
        except Exception as error:
            answered = {"error": str(error) or type(error).__name__}
    with suppress(LineError):  # the caller may have gone
        lines.send(answered, 0)


@contextmanager
def _short(run: Path) -> Iterator[Path]:
    """A short path of the socket: the kernel takes 107 bytes, and run folders may be deep."""
    folder = os.open(run, os.O_PATH | os.O_DIRECTORY)
    try:
        yield Path(f"/proc/self/fd/{folder}") / CONTROL
    finally:
        os.close(folder)

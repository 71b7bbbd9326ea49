"""The control socket: commands to an engine that runs, and the fate of callers that misbehave."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from engine.core.errors import UserError
from engine.journal.runs import CONTROL
from engine.run import control
from engine.run.control import ControlSocket


@contextmanager
def listening(run: Path, answer: Callable[[dict[str, Any]], str]) -> Iterator[ControlSocket]:
    """An engine that does nothing but look at its socket."""
    done = threading.Event()
    with ControlSocket(run) as served:

        def serve() -> None:
            while not done.wait(0.01):
                served.poll(answer)

        engine = threading.Thread(target=serve)
        engine.start()
        try:
            yield served
        finally:
            done.set()
            engine.join()


def echo(record: dict[str, Any]) -> str:
    """Answers with the question, and refuses commands that ask for it."""
    if "refuse" in record:
        raise UserError("no")
    return f"heard {record['mark']}"


def test_a_command_is_answered_in_a_very_deep_folder(tmp_path: Path) -> None:
    run = tmp_path / ("deep" * 30) / ("deeper" * 20)
    run.mkdir(parents=True)
    with listening(run, echo):
        assert control.ask(run, {"mark": "here"}) == "heard here"
        with pytest.raises(UserError, match=r"^no$"):
            control.ask(run, {"refuse": True})
        assert (run / CONTROL).stat().st_mode & 0o077 == 0
    assert not (run / CONTROL).exists()


def test_without_an_engine_the_caller_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="the engine is not running"):
        control.ask(tmp_path, {"stop": True})
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(CONTROL)  # as an engine that was killed leaves it
    with pytest.raises(UserError, match="the engine is not running"):
        control.ask(tmp_path, {"stop": True})
    with listening(tmp_path, echo):
        assert control.ask(tmp_path, {"mark": "again"}) == "heard again"


@pytest.mark.parametrize("answer", [b"", b'{"ok": "mar', b"\xff\n", b"[]\n", b"{}\n", b'{"ok": 1}\n', b"x" * 100_000])
def test_an_answer_that_is_none_is_one_clear_line(tmp_path: Path, answer: bytes) -> None:
    def serve(listener: socket.socket) -> None:
        caller, _ = listener.accept()
        with caller, suppress(OSError):
            caller.recv(control.LINE_MAX_BYTES)
            caller.sendall(answer)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / CONTROL))
        listener.listen()
        engine = threading.Thread(target=serve, args=(listener,))
        engine.start()
        with pytest.raises(UserError, match=r"the engine (is not running|gave no answer that can be understood)"):
            control.ask(tmp_path, {"mark": "here"})
        engine.join()


def test_silent_or_odd_callers_do_not_delay_others(tmp_path: Path) -> None:
    with listening(tmp_path, echo):
        callers = [socket.socket(socket.AF_UNIX) for _ in range(control.CALLERS_MAX - 1)]
        for place, caller in enumerate(callers):
            caller.connect(str(tmp_path / CONTROL))
            if place:
                nonsense = (b"x" * (control.LINE_MAX_BYTES + 1), b"[" * (control.LINE_MAX_BYTES - 1) + b"\n", b"{no\n")
                caller.sendall(nonsense[place % 3])
        assert control.ask(tmp_path, {"mark": "here"}) == "heard here"
        assert b"error" in callers[1].recv(4096)
        for caller in callers:
            caller.close()

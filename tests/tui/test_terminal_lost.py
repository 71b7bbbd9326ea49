"""The terminal goes away under the interface: a closed window, a dropped connection, a killed multiplexer."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.support.benchcall import wait_for
from tests.support.journal import growing
from tests.support.terminal import Terminal
from tui.terminal import LOST

pytestmark = pytest.mark.slow  # opens the interface

# The kernel's signal reaches who leads a session, unless it is ignored, as below `nohup`; the rest see a dead tty.
DEAF = ["/bin/sh", "-c", 'trap "" HUP; exec "$@"', "sh"]


def children_of(pid: int) -> set[int]:
    file = Path(f"/proc/{pid}/task/{pid}/children")
    return {int(child) for child in file.read_text().split()} if file.exists() else set()


def is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state in "ZX"


def interface(tmp_path: Path, *options: str, deaf: bool) -> Terminal:
    command = [sys.executable, "-m", "tui", *options, "--out", str(tmp_path)]
    return Terminal([*DEAF, *command] if deaf else command, {"XDG_CONFIG_HOME": str(tmp_path)})


@pytest.mark.parametrize("deaf", [False, True])
def test_it_ends_with_the_terminal(tmp_path: Path, deaf: bool) -> None:
    with growing(tmp_path) as live:
        live.second()
        terminal = interface(tmp_path, str(live.run), deaf=deaf)
        terminal.until(b"in flight", patience_s=120)
        terminal.hang_up()
        assert terminal.wait() == LOST


@pytest.mark.parametrize("deaf", [False, True])
def test_what_it_had_asked_for_ends_with_it(tmp_path: Path, deaf: bool) -> None:
    terminal = interface(tmp_path, "--screen", "launch", deaf=deaf)
    terminal.until(b"LAUNCH")
    wait_for(lambda: bool(children_of(terminal.pid)), "a command of bench")
    asked = children_of(terminal.pid)
    for child in asked:  # it takes as long as a terminal that goes away can be early
        os.kill(child, signal.SIGSTOP)
    terminal.hang_up()
    for child in asked:
        os.kill(child, signal.SIGCONT)
    assert terminal.wait() == LOST
    wait_for(lambda: all(map(is_gone, asked)), "its children to end")


def test_told_to_end_it_puts_the_terminal_back(tmp_path: Path) -> None:
    with growing(tmp_path) as live:
        live.second()
        terminal = interface(tmp_path, str(live.run), deaf=False)
        terminal.until(b"in flight", patience_s=120)
        os.kill(terminal.pid, signal.SIGTERM)
        terminal.until(b"\x1b[?1049l")  # the screen that was there before
        assert terminal.wait() == 128 + signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_of_the_demo_nothing_is_left_whatever_ends_it(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "engine", "demo"]
    terminal = Terminal(command, {"XDG_CONFIG_HOME": str(tmp_path), "TMPDIR": str(tmp_path)})
    terminal.until(b"REPLAY", patience_s=120)
    assert list(tmp_path.iterdir())
    os.kill(terminal.pid, number)
    terminal.until(b"\x1b[?1049l")
    assert terminal.wait() == 128 + number
    assert list(tmp_path.iterdir()) == []

"""A run that is started in a terminal, until its first picture; one that is ended before it begins."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.cli import interface, start
from engine.core.errors import UserError
from engine.core.model import Build
from engine.report.console import PlainConsole
from engine.run.stop import BROKEN
from tests.support import smalltree
from tests.support.benchcall import LONG, Bench
from tests.support.journal import make_run
from tests.support.realnix import wrapper_environment
from tests.support.terminal import Terminal


@pytest.mark.slow
def test_bench_imports_nothing_from_the_current_folder(tmp_path: Path) -> None:
    for name in ("engine", "tui", "msgspec"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('not this one')")
    command, environment = [sys.executable, "-m", "engine", "--version"], interface.own_modules()
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("bench ")


@pytest.mark.parametrize(("code", "ended"), [(-9, "was killed by SIGKILL"), (BROKEN, "ended with exit code 70")])
def test_an_engine_that_broke_is_an_error_and_no_failed_cell(tmp_path: Path, code: int, ended: str) -> None:
    run = make_run(tmp_path / "run", repeats=1, unfinished=range(2))
    with pytest.raises(UserError, match=rf"the engine {ended}; see .*engine.log; to continue: bench resume"):
        start.conclude(run, code, PlainConsole(force_terminal=False))


def test_the_wait_for_an_engine_that_never_ends_can_be_left(tmp_path: Path) -> None:
    pressed: list[str] = []

    def ended() -> bool:
        pressed.append("Ctrl-C")
        if len(pressed) < 3:
            raise KeyboardInterrupt
        return True

    console = PlainConsole(force_terminal=False)
    start.await_end(tmp_path, None, ended, console, patience_s=60.0)
    assert len(pressed) == 3, "until then it goes on"
    pressed.clear()
    with pytest.raises(KeyboardInterrupt):
        start.await_end(tmp_path, None, ended, console, patience_s=-1.0)


@pytest.mark.screens
def test_progress_is_shown_until_the_first_picture(
    new_folder: Callable[[], Path], build: Callable[[int | str], Build]
) -> None:
    bench = Bench(new_folder() / "runs")
    terminal = Terminal(bench.command("run", "--pg", build(16).label, "--repeats", "1", *LONG))
    try:
        for words in (b"starting the engine", b" has begun; the interface opens", b"REC"):
            terminal.until(words, patience_s=120)
        terminal.write(b"q")
        terminal.until(b"the run continues")
        assert terminal.wait() == 0
    finally:
        terminal.close()
        bench.stop()


@pytest.mark.outside  # a Nix build has no git
@pytest.mark.timeout(300)
def test_a_run_that_is_ended_while_it_builds_says_how_it_goes_on(new_folder: Callable[[], Path]) -> None:
    tree = smalltree.make_tree(new_folder() / "postgres")
    (tree / "configure").write_text(smalltree.CONFIGURE + "sleep 600\n")
    bench = Bench(new_folder(), {name: os.environ.get(name, value) for name, value in wrapper_environment().items()})
    command = bench.command("run", "--pg", f"mine={tree}")
    with subprocess.Popen(
        command, env=os.environ | bench.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        watchdog = threading.Timer(200, process.kill)
        watchdog.start()
        said = next(line for line in process.stderr if line.startswith(("building", "mine: building")))
        process.terminate()
        said = process.stderr.read()
        watchdog.cancel()
    assert process.returncode == 143
    assert "stopped before the run started; the same command starts it" in said

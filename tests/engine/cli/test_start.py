"""A run that is started in a terminal, until its first picture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engine.core.model import Build
from tests.support.benchcall import LONG, Bench
from tests.support.terminal import Terminal


def test_what_is_done_is_said_between_the_plan_and_the_first_picture(
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

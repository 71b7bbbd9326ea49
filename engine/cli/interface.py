"""Starting the terminal interface: a process of its own that reads the journal, as anybody may."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from rich.console import Console

import engine

SCREENS = ("launch", "live", "compare", "probes", "history")
GLYPHS = ("auto", "braille", "block", "ascii")
ENDING = (signal.SIGHUP, signal.SIGTERM)


def wanted(console: Console) -> bool:
    """Whether there is a terminal that can show it: lines are printed elsewhere."""
    return console.is_terminal and sys.stdin.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")


def show(out: Path, run: Path, *, glyphs: str = "auto") -> int:
    """Shows a run until the user leaves the interface; returns its exit code. It does not affect the run."""
    command = _command(out, run, {"screen": "live", "glyphs": glyphs})
    return subprocess.call(command, env=own_modules())


def show_to_the_end(out: Path, run: Path, **options: str | None) -> int:
    """As `show`, where something is to be done when the interface has ended, whatever signal ends it.

    It puts the terminal back by itself, and is given the time for that.
    """
    with subprocess.Popen(_command(out, run, options), env=own_modules()) as process:
        known = {number: signal.signal(number, lambda got, _: process.send_signal(got)) for number in ENDING}
        try:
            code = process.wait()
            return code if code >= 0 else 128 - code
        finally:
            for number, handler in known.items():
                signal.signal(number, handler)


def become(out: Path, run: Path | None, *, module: str = "tui.__main__", **options: str | None) -> NoReturn:
    """Goes on as the interface, where nothing is left to do after it: one process per viewer.

    In this very process: what is loaded already need not be loaded again. `options` are those of the module: screen,
    glyphs, cell, step; None leaves one out.
    """
    os.environ.update(own_modules())
    sys.exit(import_module(module).main(_words(out, run, options)))


def own_modules() -> dict[str, str]:
    """The environment in which a Python finds the modules that this one runs from, wherever it is started."""
    home = str(Path(engine.__file__).parents[1])
    return os.environ | {"PYTHONPATH": os.pathsep.join([home, os.environ.get("PYTHONPATH", "")]).rstrip(":")}


def _command(out: Path, run: Path | None, options: Mapping[str, str | None]) -> list[str]:
    return [sys.executable, "-m", "tui", *_words(out, run, options)]


def _words(out: Path, run: Path | None, options: Mapping[str, str | None]) -> list[str]:
    named = [str(run)] if run is not None else []
    return [*named, "--out", str(out), *(f"--{name}={value}" for name, value in options.items() if value is not None)]

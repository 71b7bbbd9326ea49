"""Start of the terminal interface: a separate process that only reads the journal."""

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

GLYPHS = ("auto", "braille", "block", "ascii")
ENDING = (signal.SIGHUP, signal.SIGTERM)


def wanted(console: Console) -> bool:
    """Whether the terminal can show the interface; otherwise lines are printed."""
    return console.is_terminal and sys.stdin.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")


def show(out: Path, run: Path, *, glyphs: str = "auto") -> int:
    """Show a run until the user leaves the interface; returns its exit code. The run is not affected."""
    command = _command(out, run, {"screen": "live", "glyphs": glyphs})
    return subprocess.call(command, env=own_modules())


def show_to_the_end(out: Path, run: Path, **options: str | None) -> int:
    """Show the interface and return its exit code even after a signal, once it has restored the terminal."""
    with subprocess.Popen(_command(out, run, options), env=own_modules()) as process:
        known = {number: signal.signal(number, lambda got, _: process.send_signal(got)) for number in ENDING}
        try:
            code = process.wait()
            return code if code >= 0 else 128 - code
        finally:
            for number, handler in known.items():
                signal.signal(number, handler)


def become(out: Path, run: Path | None, **options: str | None) -> NoReturn:
    """Turn this process into the interface, reusing its loaded modules; for callers with nothing left to do.

    `options` are those of the interface: screen, glyphs, cell, step; None leaves one out.
    """
    os.environ.update(own_modules())
    sys.exit(import_module("tui.__main__").main(_words(out, run, options)))


def own_modules() -> dict[str, str]:
    """Environment for a child that imports the same modules as this process, and none of the current folder."""
    home = str(Path(engine.__file__).parents[1])
    path = os.pathsep.join([home, os.environ.get("PYTHONPATH", "")]).rstrip(":")
    return os.environ | {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}


def _command(out: Path, run: Path | None, options: Mapping[str, str | None]) -> list[str]:
    return [sys.executable, "-m", "tui", *_words(out, run, options)]


def _words(out: Path, run: Path | None, options: Mapping[str, str | None]) -> list[str]:
    named = [str(run)] if run is not None else []
    return [*named, "--out", str(out), *(f"--{name}={value}" for name, value in options.items() if value is not None)]

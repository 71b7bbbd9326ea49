"""Starting the terminal interface: a process of its own that reads the journal, as anybody may."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from rich.console import Console

import engine

SCREENS = ("launch", "live", "compare", "probes", "history")
GLYPHS = ("auto", "braille", "block", "ascii")


def wanted(console: Console) -> bool:
    """Whether there is a terminal that can show it: lines are printed elsewhere."""
    return console.is_terminal and sys.stdin.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")


def show(out: Path, run: Path, *, glyphs: str = "auto", guide: str | None = None) -> int:
    """Shows a run until the user leaves the interface; returns its exit code. It does not affect the run."""
    command = _command(out, run, {"screen": "live", "glyphs": glyphs, "guide": guide})
    return subprocess.call(command, env=own_modules())


def become(out: Path, run: Path | None, *, module: str = "tui", **options: str | None) -> NoReturn:
    """Replaces this process by the interface, where nothing is left to do after it: one process per viewer.

    `options` are those of the module: screen, glyphs, cell, step; None leaves one out.
    """
    command = _command(out, run, options, module)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(command[0], command, own_modules())


def own_modules() -> dict[str, str]:
    """The environment in which a Python finds the modules that this one runs from, wherever it is started."""
    home = str(Path(engine.__file__).parents[1])
    return os.environ | {"PYTHONPATH": os.pathsep.join([home, os.environ.get("PYTHONPATH", "")]).rstrip(":")}


def _command(out: Path, run: Path | None, options: Mapping[str, str | None], module: str = "tui") -> list[str]:
    command = [sys.executable, "-m", module, *([str(run)] if run is not None else []), "--out", str(out)]
    return command + [f"--{option}={value}" for option, value in options.items() if value is not None]

"""Starting the terminal interface: a process of its own that reads the journal, as anybody may."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

from rich.console import Console

import engine

SCREENS = ("launch", "live", "compare", "probes", "history")
GLYPHS = ("auto", "braille", "block", "ascii")


def wanted(console: Console) -> bool:
    """Whether there is a terminal that can show it: lines are printed elsewhere."""
    return console.is_terminal and sys.stdin.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")


def show(out: Path, run: Path, *, glyphs: str = "auto") -> int:
    """Shows a run until the user leaves the interface; returns its exit code. Nothing of it touches a run."""
    command, environment = _command(out, run, {"--screen": "live", "--glyphs": glyphs})
    return subprocess.call(command, env=environment)


def become(
    out: Path,
    run: Path | None = None,
    *,
    screen: str = "live",
    glyphs: str = "auto",
    cell: str | None = None,
    step: str | None = None,
) -> NoReturn:
    """Turns this process into the interface, where nothing is left to do after it: ten who watch are ten processes."""
    options = {"--screen": screen, "--glyphs": glyphs, "--cell": cell, "--step": step}
    command, environment = _command(out, run, options)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(command[0], command, environment)


def _command(out: Path, run: Path | None, options: dict[str, str | None]) -> tuple[list[str], dict[str, str]]:
    home = str(Path(engine.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([home, os.environ.get("PYTHONPATH", "")]).rstrip(":")}
    command = [sys.executable, "-m", "tui", *([str(run)] if run is not None else []), "--out", str(out)]
    command += [word for option, value in options.items() if value is not None for word in (option, value)]
    return command, environment

"""Starting the terminal interface: a process of its own that reads the journal, as anybody may."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console

import engine

SCREENS = ("launch", "live", "compare", "probes", "history")
GLYPHS = ("auto", "braille", "block", "ascii")


def wanted(console: Console) -> bool:
    """Whether there is a terminal that can show it: lines are printed elsewhere."""
    return console.is_terminal and sys.stdin.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")


def show(
    out: Path,
    run: Path | None = None,
    *,
    screen: str = "live",
    glyphs: str = "auto",
    cell: str | None = None,
    step: str | None = None,
) -> int:
    """Shows the interface until the user leaves it; returns its exit code. Nothing of it touches a run."""
    home = str(Path(engine.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([home, os.environ.get("PYTHONPATH", "")]).rstrip(":")}
    options = {"--screen": screen, "--glyphs": glyphs, "--cell": cell, "--step": step}
    return subprocess.call(
        [
            *(sys.executable, "-m", "tui", *([str(run)] if run is not None else []), "--out", str(out)),
            *(word for option, value in options.items() if value is not None for word in (option, value)),
        ],
        env=environment,
    )

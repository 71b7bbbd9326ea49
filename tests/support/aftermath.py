"""Observations after harm: the screen in one line, and a run's files."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from tui.app import Bench


def text(pilot: Pilot[Any]) -> str:
    """The screen in one line, so that folded text is found."""
    assert isinstance(pilot.app, Bench)
    return " ".join(pilot.app.screen_text().split())


def contents(run: Path) -> dict[str, str]:
    """The run's files; what SQLite keeps beside a journal that is open is not the run's."""
    return {
        str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(run.rglob("*"))
        if path.is_file() and not path.name.endswith(("-wal", "-shm"))
    }

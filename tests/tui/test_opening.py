"""What a terminal gets that says nothing of a run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.terminal import Terminal


@pytest.mark.parametrize(
    ("options", "drawn"),
    [(["--glyphs", "ascii"], "--------"), (["--glyphs=ascii"], "--------"), ([], "────────")],
)
def test_launch_is_opened_with_what_it_is_to_be_drawn_with(tmp_path: Path, options: list[str], drawn: str) -> None:
    terminal = Terminal([sys.executable, "-m", "engine", *options, "--out", str(tmp_path)])
    try:
        terminal.until(drawn.encode())
        terminal.write(b"q")
        assert terminal.wait() == 0
    finally:
        terminal.close()

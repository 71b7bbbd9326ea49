"""The output to a terminal without a run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.terminal import Terminal

pytestmark = pytest.mark.slow  # opens the interface


@pytest.mark.parametrize(
    ("options", "drawn"), [(["--glyphs", "ascii"], "--------"), (["--glyphs=ascii"], "--------"), ([], "────────")]
)
def test_launch_is_opened_with_what_it_is_to_be_drawn_with(tmp_path: Path, options: list[str], drawn: str) -> None:
    terminal = Terminal([sys.executable, "-m", "engine", *options, "--out", str(tmp_path)])
    try:
        terminal.until(drawn.encode())
        terminal.write(b"q")
        assert terminal.wait() == 0
    finally:
        terminal.close()


@pytest.mark.parametrize("elsewhere", ["2>complaints", "2>&-"])
def test_the_terminal_is_painted_with_stderr_redirected(tmp_path: Path, elsewhere: str) -> None:
    command = [sys.executable, "-m", "engine", "--out", str(tmp_path)]
    shell = ["/bin/sh", "-c", f'cd "$0" && exec "$@" {elsewhere}', str(tmp_path), *command]
    terminal = Terminal(shell, {"XDG_CONFIG_HOME": str(tmp_path)})
    terminal.until(b"LAUNCH")
    terminal.until(b"preflight")
    terminal.write(b"q")
    assert terminal.wait() == 0
    terminal.close()
    assert not [file for file in tmp_path.glob("complaints") if file.read_bytes()]

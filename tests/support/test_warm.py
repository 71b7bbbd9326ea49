"""A forked `bench` says and does what one with an interpreter of its own does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import warm


@pytest.mark.slow
@pytest.mark.parametrize("words", [("--version",), ("list", "configs"), ("compare", "none", "--out", "."), ("rum",)])
def test_both_answer_alike(words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-m", "engine", *words]
    environment = os.environ | {"PYTHONPATH": str(warm.ROOT)}
    monkeypatch.setenv("PYTHONPATH", str(warm.ROOT))
    monkeypatch.chdir(tmp_path)
    assert warm.suits(environment)
    direct = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    forked = warm.run(command, environment, 60)
    assert (direct.returncode, direct.stdout, direct.stderr) == (forked.returncode, forked.stdout, forked.stderr)
    assert direct.returncode == (0 if words[0] in ("--version", "list") else 2)

"""The environment that the installed wrapper sets, for tests that call Nix itself."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest


def wrapper_environment() -> dict[str, str]:
    """Name and value of each variable; ./check names the wrapper."""
    wrapper = os.environ.get("PGBED_BENCH")
    if not wrapper or shutil.which("nix") is None:
        pytest.skip("needs Nix and the built application (PGBED_BENCH): run ./check")
    lines = (Path(wrapper).parents[1] / "share" / "pgbed" / "environment").read_text().splitlines()
    return dict(line.removeprefix("export ").split("=", 1) for line in lines)

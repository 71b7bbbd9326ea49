"""A folder that the user who restores data can read, whoever runs the tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="pgbed-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)

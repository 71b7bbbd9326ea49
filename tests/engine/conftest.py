"""Parts shared by tests that call `bench`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.core.model import Build
from tests.support.benchcall import Bench


@pytest.fixture
def bench(new_folder: Callable[[], Path]) -> Iterator[Bench]:
    """`bench` over a folder of its own; what still runs at the end is ended."""
    runner = Bench(new_folder() / "runs")
    yield runner
    runner.stop()


@pytest.fixture
def label(build: Callable[[int | str], Build]) -> str:
    """The build that does where one is enough."""
    return build(16).label

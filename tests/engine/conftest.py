"""Parts shared by tests of the engine."""

from __future__ import annotations

import subprocess
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
def disk(new_folder: Callable[[], Path]) -> Iterator[Path]:
    """A folder on a block device of its own, whose settings are nobody else's."""
    image, folder = new_folder() / "image", new_folder()
    subprocess.run(["truncate", "-s", "2G", image], check=True)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.fixture
def label(build: Callable[[int | str], Build]) -> str:
    """The build that does where one is enough."""
    return build(16).label

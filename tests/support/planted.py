"""A server that is slowed down on purpose: planted.c preloaded into the servers of a build."""

from __future__ import annotations

import mmap
from pathlib import Path


class Planted:
    """The mapped file of one server: see planted.c."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(8))
        path.chmod(0o666)  # the server is another user's
        with path.open("r+b") as file:
            self._words = memoryview(mmap.mmap(file.fileno(), 8)).cast("q")

    def set(self, iterations: int) -> None:
        """Plants so many iterations."""
        self._words[0] = iterations

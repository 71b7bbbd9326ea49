"""A server that is slowed down on purpose: planted.c preloaded into the servers of a build."""

from __future__ import annotations

import mmap
from dataclasses import replace
from pathlib import Path

from engine.core.model import Build


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


def preloaded(build: Build, folder: Path, library: Path) -> tuple[Build, Planted]:
    """The build with the library in its servers, and what they map."""
    (folder / "bin").mkdir(parents=True)
    planted = Planted(folder / "planted")
    environment = f"LD_PRELOAD={library} PGBED_PLANTED={folder / 'planted'}"
    for program, words in (("initdb", ""), ("postgres", environment)):
        path = folder / "bin" / program
        path.write_text(f'#!/bin/sh\n{words} exec {build.bin / program} "$@"\n')
        path.chmod(0o755)
    return replace(build, prefix=str(folder)), planted

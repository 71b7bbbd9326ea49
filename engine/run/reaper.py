"""A process that outlives the engine: clears the running cell's remains when the engine ends without doing so itself.

A signal without a handler, or a fault in a library, can end the engine. The kernel then ends its clients and server
(`bound_to_engine`); cluster, socket folder, shared memory, control socket, and the database on an external server are
cleared here. It sleeps on a pipe that only the engine holds open, so it costs nothing until the engine is gone.

    python -m engine.run.reaper RUN        lines of JSON on standard input: the cells that run
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import engine
from engine.core.errors import UserError
from engine.core.lines import LineChannel, LineError, decoded
from engine.host import kernel_settings
from engine.journal.run_lock import held
from engine.journal.runs import CONTROL
from engine.postgres.cluster import kill_leftover

LOCK_TIMEOUT_S = 10.0  # the kernel closes the pipe and releases the lock in either order


@dataclass(frozen=True, slots=True)
class Reaper:
    pipe: LineChannel

    @contextmanager
    def watching(self, places: Sequence[tuple[Path, Path]], uid: int, conninfo: str = "") -> Iterator[None]:
        """Clear the cells in `places` (folder, bin) if the engine ends within."""
        guard: dict[str, str | int] = {"uid": uid, "conninfo": conninfo}
        cells = [{"cell": str(cell.absolute()), "bin": str(bin), **guard} for cell, bin in places]
        self._send({"cells": cells})
        try:
            yield
        finally:
            self._send({"cells": []})

    def _send(self, left: Mapping[str, Any]) -> None:
        with suppress(LineError):  # it was killed; the next engine on this run clears
            self.pipe.send(left)


@contextmanager
def reaper(run: Path) -> Iterator[Reaper]:
    """Start a reaper for the engine of a run, in a session of its own; it ends with the engine."""
    process = subprocess.Popen(
        [sys.executable, "-m", "engine.run.reaper", str(run.absolute())],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        cwd=Path(engine.__file__).parents[1],
        start_new_session=True,
    )
    assert process.stdin is not None
    try:
        yield Reaper(LineChannel(writing=process.stdin.fileno()))
    finally:
        process.stdin.close()
        process.wait()


def _clear_attached(cell: Path, conninfo: str) -> None:
    from engine.postgres.external_cell import LeftBehind, clear  # loads a driver

    with suppress(LeftBehind):  # reported when the run is resumed
        clear(cell, conninfo)


def main() -> None:
    run, left, pipe = Path(sys.argv[1]), dict[str, Any](cells=[]), LineChannel(sys.stdin.fileno())
    with suppress(LineError):  # the engine has ended
        while True:
            left = decoded(pipe.receive())
    cells = left["cells"]
    if not cells:
        return
    kernel_settings.restore_left()  # under its lock: meanwhile another run may have set the same ones
    until_s = time.monotonic() + LOCK_TIMEOUT_S
    while True:
        try:
            with held(run):
                for cell in cells:
                    kill_leftover(Path(cell["cell"]), Path(cell["bin"]), cell["uid"])
                    if cell["conninfo"]:
                        _clear_attached(Path(cell["cell"]), cell["conninfo"])
                (run / CONTROL).unlink(missing_ok=True)
            kernel_settings.restore_left()  # in use until its server had ended
            return
        except UserError:
            if time.monotonic() > until_s:
                raise
            time.sleep(0.05)


if __name__ == "__main__":
    main()

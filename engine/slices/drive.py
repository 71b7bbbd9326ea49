"""The conductor's process, as the engine sees it; no process of a server stays stopped."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

import engine
from engine.core.lines import LineChannel, LineError
from engine.host.procfs import children
from engine.slices.conductor import Orders
from engine.slices.slice_record import Slice
from engine.system.account import Account, bound_to_engine

FOLDER = Path(engine.__file__).parents[1]
F_SETPIPE_SZ = 1031
PIPE_BYTES = 1 << 20  # some thousands of slices, should the engine be late
LINE_MAX_BYTES = 4096
BEGIN_TIMEOUT_S, END_TIMEOUT_S = 60.0, 3.0


class ConductorError(Exception):
    pass


class SliceStream:
    def __init__(self, process: subprocess.Popen[bytes], lines: LineChannel) -> None:
        self.process = process
        self._lines = lines

    def slices(self) -> list[Slice]:
        """The slices that ended since the last call. Raises ConductorError when the conductor has failed."""
        try:
            slices = [msgspec.json.decode(line, type=Slice) for line in self._lines.waiting()]
        except (LineError, ValueError) as error:
            raise ConductorError(f"the conductor: {error}") from None
        if self.process.poll():
            assert self.process.stderr is not None
            errors = self.process.stderr.read().decode(errors="replace").strip().splitlines()
            raise ConductorError(errors[-1] if errors else f"the conductor ended with code {self.process.returncode}")
        return slices


@contextmanager
def drive(orders: Orders, account: Account) -> Iterator[SliceStream]:
    """Run the servers of `orders` in slices; afterwards no process stays stopped. Raises ConductorError."""
    process = subprocess.Popen(
        [sys.executable, "-m", "engine.slices.conductor"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=[side.page_fd for side in orders.sides],
        cwd=FOLDER,
        start_new_session=True,
        preexec_fn=bound_to_engine(signal.SIGTERM),
        **account.identity(),
    )
    assert process.stdin is not None and process.stdout is not None
    lines = LineChannel(process.stdout.fileno(), process.stdin.fileno(), LINE_MAX_BYTES)
    try:
        try:
            lines.write(msgspec.json.encode(orders) + b"\n")
            lines.receive(BEGIN_TIMEOUT_S)  # an empty line: it has begun
        except LineError:
            process.kill()
            reason = process.communicate()[1].decode(errors="replace")
            raise ConductorError(f"the conductor did not begin: {reason}") from None
        with suppress(OSError):
            fcntl.fcntl(process.stdout.fileno(), F_SETPIPE_SZ, PIPE_BYTES)
        yield SliceStream(process, lines)
    finally:
        process.stdin.close()
        try:
            process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for side in orders.sides:
            for pid in children(side.postmaster):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

"""Cells abreast: their servers are up together, go through the steps together, and are driven in slices if possible."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec

import engine
from engine.core.model import Manifest, Stopping
from engine.host.account import Account, bound_to_engine
from engine.run.attempt import Attempt
from engine.run.step import POLL_S, Phase, StepRunner
from engine.run.stop import StepFailed
from engine.slices.block_order import SliceSeed
from engine.slices.conductor import SLICE, Orders, Slice
from engine.slices.hold import held

F_SETPIPE_SZ = 1031
PIPE_BYTES = 1 << 20  # some thousands of slices, should the engine be late
END_TIMEOUT_S = 10.0


class Conducting:
    """The conductor's process: its slices are read as they come."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        assert process.stdout is not None
        self._pipe = process.stdout.fileno()
        self._rest = b""

    def slices(self) -> list[Slice]:
        """The slices that have ended since this was asked last. Raises StepFailed where the conductor failed."""
        data = self._rest
        with suppress(BlockingIOError):
            while part := os.read(self._pipe, PIPE_BYTES):
                data += part
        whole = len(data) - len(data) % SLICE.size
        self._rest = data[whole:]
        if self.process.poll():
            assert self.process.stderr is not None
            lines = self.process.stderr.read().decode(errors="replace").strip().splitlines()
            raise StepFailed(lines[-1] if lines else f"the conductor ended with code {self.process.returncode}")
        return [Slice._make(fields) for fields in SLICE.iter_unpack(data[:whole])]


@contextmanager
def conducting(orders: Orders, account: Account) -> Iterator[Conducting]:
    """Drives the servers of `orders` in slices, from when their steps begin; all gates are open at the end.

    Whatever becomes of the conductor, no process of these servers stays stopped.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "engine.slices.conductor"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=[side.page_fd for side in orders.sides],
        cwd=Path(engine.__file__).parents[1],
        start_new_session=True,
        preexec_fn=bound_to_engine(signal.SIGTERM),
        **account.identity(),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with suppress(BrokenPipeError):
            process.stdin.write(msgspec.json.encode(orders) + b"\n")
            process.stdin.flush()
        if process.stdout.read(1) != b"\n":
            raise StepFailed(f"the conductor did not begin: {process.communicate()[1].decode(errors='replace')}")
        os.set_blocking(process.stdout.fileno(), False)
        with suppress(OSError):
            fcntl.fcntl(process.stdout.fileno(), F_SETPIPE_SZ, PIPE_BYTES)
        yield Conducting(process)
    finally:
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for side in orders.sides:
            _continue(side.postmaster)


def _continue(postmaster: int) -> None:
    """Lets all processes of a server go on."""
    with suppress(OSError):
        pids: Sequence[str] = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGCONT)


def run_abreast(
    attempts: Sequence[Attempt], manifest: Manifest, account: Account, scatter: float | None = None
) -> None:
    """Runs the cells of a repeat side by side: steps that may be sliced in slices, others one cell after the other.

    With `scatter`, that of log ratios from pair to pair, steps by time end as soon as they are narrow enough for it.
    A cell that fails ends by itself; the others go on, unsliced from then on, and have no pair to be compared in.
    """
    alone, left = partial(_alone, attempts, manifest.stop), list(attempts)
    try:
        while left := [attempt for attempt in left if alone(attempt, Phase.READY, Phase.FINISHED)]:
            ready = [attempt for attempt in left if attempt.phase is Phase.READY]
            if ready and len(ready) == len(attempts):
                _drive(ready, manifest, account, scatter)
            else:
                ready = [attempt for attempt in ready if alone(attempt, Phase.DONE)]
            for attempt in ready:
                alone(attempt, Phase.FINISHED)
            left = [attempt for attempt in left if attempt.phase is not None]
    except Exception as error:  # the conductor's failure, or one of the journal's: each cell records it
        for attempt in attempts:
            attempt.fail(error)
    finally:
        for attempt in attempts:
            attempt.close()


def _alone(attempts: Sequence[Attempt], stop: Stopping, attempt: Attempt, *phases: Phase) -> bool:
    """Runs one of the attempts until it is in one of these phases, the servers of the others held meanwhile.

    False when it has ended before that.
    """
    runners = [other.runner for other in attempts if other is not attempt and other.phase is not None]
    found = [runner.sources.processes for runner in runners if runner is not None]
    attempt.beside[:] = [processes for processes in found if processes is not None]
    try:
        with held([processes.pid for processes in attempt.beside if stop != "none"]) as stop_new:
            while attempt.advance():
                if attempt.phase in phases:
                    return True
                stop_new()
                time.sleep(POLL_S)
        return False
    finally:
        attempt.beside.clear()


def _drive(attempts: Sequence[Attempt], manifest: Manifest, account: Account, scatter: float | None) -> None:
    """One step of all cells, whose clients are ready, until all are done."""
    runners = [attempt.runner for attempt in attempts if attempt.runner is not None]
    runners.sort(
        key=lambda runner: (runner.cell.subject.build != manifest.base, runner.cell.subject.control)
    )  # base first
    found = [runner.sliced for runner in runners if runner.sliced is not None]
    step, sides = found[0][0], tuple(side for _, side in found)
    seed = SliceSeed(manifest.seed, runners[0].cell.repeat, step.name)
    orders = Orders(sides, manifest.slice_ms, seed, "work" if step.sliced == "work" else "time", manifest.stop)
    narrowing = None
    if scatter is not None:
        from engine.slices.precision import Narrowing  # loads scipy, which other runs do without

        narrowing = Narrowing(step, runners, scatter)
    with conducting(orders, account) as conductor:
        left = list(attempts)
        while left := [attempt for attempt in left if attempt.advance() and attempt.phase is not Phase.DONE]:
            new = _keep(conductor, runners)
            if narrowing is not None and len(left) == len(attempts):
                narrowing.add(new)
                narrowing.watch()
            time.sleep(POLL_S)
    _keep(conductor, runners)


def _keep(conductor: Conducting, runners: Sequence[StepRunner]) -> list[Slice]:
    """Records the slices that ended since, or are known only now, and returns them."""
    for each in conductor.slices():
        if (record := runners[each.side].slices) is not None:  # else its cell has failed
            record.add(each)
    return [each for runner in runners if runner.slices is not None for each in runner.slices.keep()]

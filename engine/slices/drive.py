"""The conductor's process and the meter's, as the engine sees them; no process of a server stays stopped."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec

import engine
from engine.core.lines import LineError, Lines
from engine.host.procfs import children
from engine.slices.conductor import Orders, Slice
from engine.slices.meter import Meter, MeterPage, metered_cpus
from engine.system.account import Account, bound_to_engine
from workloads.counter_page import Page, Word

FOLDER = Path(engine.__file__).parents[1]
F_SETPIPE_SZ = 1031
PIPE_BYTES = 1 << 20  # some thousands of slices, should the engine be late
LINE_MAX_BYTES = 4096
BEGIN_TIMEOUT_S, END_TIMEOUT_S = 60.0, 3.0
METER_TIMEOUT_S = 10.0  # to begin: slices do without it


class ConductorError(Exception):
    pass


class SliceStream:
    def __init__(self, process: subprocess.Popen[bytes], lines: Lines, page: MeterPage) -> None:
        self.process = process
        self._lines, self._page = lines, page

    @property
    def meter(self) -> Meter:
        """The meter of stolen time that runs beside it."""
        return self._page.state

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
    with ExitStack() as stack:
        page = stack.enter_context(_metered(_cpus(orders)))
        yield stack.enter_context(_conducted(msgspec.structs.replace(orders, meter_fd=page.fd), account, page))


@contextmanager
def _conducted(orders: Orders, account: Account, page: MeterPage) -> Iterator[SliceStream]:
    process = subprocess.Popen(
        [sys.executable, "-m", "engine.slices.conductor"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=[*(side.page_fd for side in orders.sides), orders.meter_fd],
        cwd=FOLDER,
        start_new_session=True,
        preexec_fn=bound_to_engine(signal.SIGTERM),
        **account.identity(),
    )
    assert process.stdin is not None and process.stdout is not None
    lines = Lines(process.stdout.fileno(), process.stdin.fileno(), LINE_MAX_BYTES)
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
        yield SliceStream(process, lines, page)
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


def _cpus(orders: Orders) -> list[int]:
    """The CPUs to which the clients that count are bound."""
    pages = [(Page(side.page_fd, side.roles), side.primary_slots) for side in orders.sides]
    return metered_cpus(page.word(slot, Word.CPU_PLUS_1) - 1 for page, slots in pages for slot in slots)


@contextmanager
def _metered(cpus: Sequence[int]) -> Iterator[MeterPage]:
    """Run the meter on these CPUs, as the engine's user, who may have a priority that the servers' has not."""
    page = MeterPage.create()
    process = None
    try:
        if cpus:
            process = subprocess.Popen(
                [sys.executable, "-m", "engine.slices.meter", str(page.fd), *map(str, cpus)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=[page.fd],
                cwd=FOLDER,
                start_new_session=True,
                preexec_fn=bound_to_engine(signal.SIGKILL),
            )
            assert process.stdout is not None
            with suppress(LineError):
                Lines(process.stdout.fileno()).receive(METER_TIMEOUT_S)
        yield page
    finally:
        if process is not None:
            process.kill()
            process.communicate()
        page.close()

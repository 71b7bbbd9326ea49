"""Real servers up side by side over loaded clusters, their clients at a query step, interleaved by the conductor.

For the measurements in tests/perf: what is between the engine's journal and the slices is left out, the rest is real.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from engine.analysis.slice_estimates import Slices, halves, log_ratio
from engine.core.model import Build, Subject
from engine.host import environment
from engine.host.account import unprivileged
from engine.postgres import configs
from engine.postgres.server import Server
from engine.results import slice_ratio
from engine.results.slice_ratio import LogRatio
from engine.slices.block_order import SliceSeed
from engine.slices.conductor import Orders, Slice
from engine.slices.drive import SliceStream, drive
from engine.slices.sliced_server import Side
from tests.support.steprun import StepRun, run_step, running
from workloads.counter_page import Control, Page, State, Word
from workloads.insert import maintenance
from workloads.insert.ddl import table_name
from workloads.insert.options import Options
from workloads.insert.steps import Step, generation, plan_steps

FORM = generation("g24b")
SETTINGS = ("shared_buffers=128MB", "max_wal_size=4GB")
LAUNCHER = "workloads.insert.launch"
STEP_S = 3600.0  # of active time: nobody waits for the end of a step
NORMAL_95 = 1.96
PLACES = 4  # of a block, for two servers

Block = Sequence[Slice]


@contextmanager
def servers_up(builds: Sequence[Build], rows: int) -> Iterator[list[Server]]:
    """A server of each build over a fresh cluster that holds so many rows, indexed, vacuumed and written out."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pgbed-interleaved-", dir="/tmp")))
        folder.chmod(0o755)
        (spec,) = configs.resolve(["cx9a2_c8r32"])
        servers = []
        for place, build in enumerate(builds):
            config = configs.apply(spec, build, environment.machine(folder), configs.overrides(SETTINGS))
            server = stack.enter_context(Server(build, config, folder / str(place)))
            server.create_database()
            for step in plan_steps(FORM.name, rows, selected=("l.x",)):
                if run_step(server.dsn(), step, FORM.name).exit_code:
                    raise RuntimeError(f"{build.label}: {step.name} failed")
            with server.connect("ib") as connection:
                connection.execute(maintenance.vacuum_statement(FORM, table_name(1), build.major).encode())
                connection.execute("CHECKPOINT")
            servers.append(server)
        yield servers


def query_step(rows: int, name: str = "qr100") -> Step:
    """A query step that does not end by itself."""
    return plan_steps(FORM.name, rows, selected=(name,), query_seconds=STEP_S)[-1]


@contextmanager
def at_work(server: Server, step: Step, seed: int = 1, launcher: str = LAUNCHER) -> Iterator[StepRun]:
    """The step's clients at the barrier, each on the CPU of its backend; they are ended with this."""
    options = Options(placement="paired")
    with running(server.dsn(), step, FORM.name, seed=seed, options=options, launcher_module=launcher) as run:
        run.until(lambda: run.all_in(State.READY) or bool(run.page.words[Control.STOP]))
        yield run


@dataclass
class InterleavedServers:
    """Servers that are interleaved. `slices` are those that have ended, of whole blocks or not."""

    runs: list[StepRun]
    conductor: SliceStream
    slices: list[Slice] = field(default_factory=list)

    def look(self) -> int:
        """Takes the slices that have ended; returns the last one's block. Raises RuntimeError when a client failed."""
        self.slices += self.conductor.slices()
        for run in self.runs:
            if run.page.words[Control.STOP]:
                raise RuntimeError(f"clients ended: {[run.page.error(slot) for slot in range(run.page.roles)]}")
        return self.slices[-1].block if self.slices else 0

    def drive(self, seconds: float) -> None:
        """Lets so much time pass."""
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            self.look()
            time.sleep(0.05)

    def slot(self, side: int, role: str = "query") -> int:
        return self.runs[side].slot(1, role)

    def page(self, side: int) -> Page:
        return self.runs[side].page

    def backend(self, side: int, role: str = "query") -> int:
        return self.runs[side].word(1, role, Word.BACKEND_PID)

    def client(self, side: int, role: str = "query") -> int:
        return self.runs[side].word(1, role, Word.CLIENT_PID)


@contextmanager
def interleaved(
    servers: Sequence[Server], step: Step, slice_ms: float, seed: SliceSeed, launcher: str = LAUNCHER
) -> Iterator[InterleavedServers]:
    """Interleave servers whose clients are at work on a step."""
    with ExitStack() as stack:
        runs = [stack.enter_context(at_work(server, step, seed.plan, launcher)) for server in servers]
        sides = tuple(
            Side(
                Subject(f"side{place}", "config"),
                run.page.fd,
                run.page.roles,
                (run.slot(1, "query"),),
                server.pid,
                tuple(run.page.word(slot, Word.BACKEND_PID) for slot in range(run.page.roles)),
            )
            for place, (run, server) in enumerate(zip(runs, servers, strict=True))
        )
        conductor = stack.enter_context(drive(Orders(sides, slice_ms, seed), unprivileged()))
        for run in runs:
            run.page.words[Control.START_NS] = time.monotonic_ns()
        yield InterleavedServers(runs, conductor)


def whole_blocks(slices: Sequence[Slice]) -> list[Block]:
    """The blocks of which all slices are there, in order."""
    found: dict[int, list[Slice]] = {}
    for each in slices:
        found.setdefault(each.block, []).append(each)
    return [block for _, block in sorted(found.items()) if len(block) == PLACES]


def sides_of(blocks: Sequence[Block], parts: tuple[str, str]) -> list[Slices]:
    """Both servers' numerators and denominators: `engine.analysis.slice_verdicts.PARTS` names them."""
    return [
        Slices(
            *(
                np.array([[getattr(each, part) for each in block if each.side == side] for block in blocks])
                for part in parts
            )
        )
        for side in (0, 1)
    ]


def ratio_of(blocks: Sequence[Block], parts: tuple[str, str]) -> LogRatio:
    """Level 1 of these blocks."""
    base, other = sides_of(blocks, parts)
    return log_ratio(base, other)


def own_ratios_of(blocks: Sequence[Block], parts: tuple[str, str]) -> list[LogRatio]:
    """The slices' check on themselves: one ratio of each server."""
    return [slice_ratio.log_ratio(*halves(side)) for side in sides_of(blocks, parts)]


def per_op(blocks: Sequence[Block], side: int, parts: tuple[str, str]) -> float:
    """A server's sum of the first part over its sum of the second."""
    own = sides_of(blocks, parts)[side]
    return float(own.numerators.sum() / own.denominators.sum())


def difference(one: LogRatio, other: LogRatio, inflation: float) -> tuple[float, float]:
    """Of two log ratios without blocks in common: the first less the second, half the 95 % interval."""
    assert one.variance is not None and other.variance is not None, "too few blocks"
    return one.theta - other.theta, NORMAL_95 * math.sqrt((one.variance + other.variance) * inflation)


def percent(log_ratio: float, half: float | None = None) -> str:
    """A log ratio as it is said: "-2.0 %", with its error "-2.0 -+ 0.4 %"."""
    return f"{log_ratio:+.2%}" if half is None else f"{log_ratio:+.2%} -+ {half:.2%}"

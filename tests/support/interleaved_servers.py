"""Real servers up side by side over loaded clusters, their clients at a query step, interleaved by the conductor.

What is between the engine's journal and the slices is left out, the rest is real.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from engine.core.model import Build, Subject
from engine.host import environment
from engine.postgres import configs
from engine.postgres.server import Server
from engine.slices.block_order import SliceSeed
from engine.slices.conductor import Orders, Slice
from engine.slices.drive import SliceStream, drive
from engine.slices.sliced_server import Side
from engine.system.account import unprivileged
from tests.support.steprun import StepRun, run_step, running
from workloads.counter_page import Control, State, Word
from workloads.insert import maintenance
from workloads.insert.ddl import table_name
from workloads.insert.options import Options
from workloads.insert.steps import Step, generation, plan_steps

FORM = generation("g24b")
SETTINGS = ("shared_buffers=128MB", "max_wal_size=4GB")
LAUNCHER = "workloads.insert.launch"
STEP_S = 3600.0  # of active time: nobody waits for the end of a step


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
def at_work(server: Server, step: Step, seed: int = 1) -> Iterator[StepRun]:
    """The step's clients at the barrier, each on the CPU of its backend; they are ended with this."""
    options = Options(placement="paired")
    with running(server.dsn(), step, FORM.name, seed=seed, options=options, launcher_module=LAUNCHER) as run:
        run.until(lambda: run.all_in(State.READY) or bool(run.page.words[Control.STOP]))
        yield run


@dataclass
class InterleavedServers:
    """Servers that are interleaved. `slices` are those that have ended, of whole blocks or not."""

    runs: list[StepRun]
    conductor: SliceStream
    slices: list[Slice] = field(default_factory=list)

    def look(self) -> None:
        """Takes the slices that have ended. Raises RuntimeError when a client failed."""
        self.slices += self.conductor.slices()
        for run in self.runs:
            if run.page.words[Control.STOP]:
                raise RuntimeError(f"clients ended: {[run.page.error(slot) for slot in range(run.page.roles)]}")

    def drive(self, seconds: float) -> None:
        """Lets so much time pass."""
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            self.look()
            time.sleep(0.05)


@contextmanager
def interleaved(
    servers: Sequence[Server], step: Step, slice_ms: float, seed: SliceSeed
) -> Iterator[InterleavedServers]:
    """Interleave servers whose clients are at work on a step."""
    with ExitStack() as stack:
        runs = [stack.enter_context(at_work(server, step, seed.plan)) for server in servers]
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

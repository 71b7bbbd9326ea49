"""The command `bench` as tests call it: a process of its own, over a folder of its own, with small cells."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

import psycopg

from engine.journal.reader import JournalReader
from engine.journal.rows import Attempt, EventRow, StepRow
from engine.journal.run_lock import is_locked
from engine.journal.writer import create_run
from engine.postgres.server import SUPERUSER
from tests.support import warm

CELLS = ("--interleave", "cells")
SMALL = ("--rows", "2000", "--rows-written", "1000", "--query-seconds", "1", "--set", "shared_buffers=32MB", *CELLS)
# A step that goes on until it is ended: as fast as it can, or with a wait in each commit, where it only has to run.
BUSY = ("--rows", "2000", "--rows-written", "50000000", "--set", "shared_buffers=32MB", "--steps", "l.i1", *CELLS)
WAITING = ("--set", "synchronous_commit=on", "--set", "commit_delay=20000", "--set", "commit_siblings=0")
LONG = (*BUSY, *WAITING)
# A step of some seconds, of the same kind.
SECONDS = (*LONG, "--rows-written", "5000")
PATIENCE_S = 200.0
CALL_TIMEOUT_S = 240.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Bench:
    """Calls `bench` with an output folder of its own."""

    out: Path
    environment: dict[str, str] = field(default_factory=dict)

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end; `--out` is added where it belongs."""
        command, environment = self.command(*arguments), os.environ | self.environment
        if warm.suits(environment):
            return warm.run(command, environment, CALL_TIMEOUT_S)
        return subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=CALL_TIMEOUT_S,
            check=False,
        )

    def command(self, *arguments: str) -> list[str]:
        """The command line."""
        in_folder = arguments[0] != "list" or arguments[1] in ("probes", "runs")
        out = ("--out", str(self.out)) if in_folder else ()
        # Tests do not measure: they may run at the same time, and during a run of the user.
        concurrent = ("--allow-concurrent",) if arguments[0] == "run" or arguments[0].startswith("-") else ()
        return [sys.executable, "-m", "engine", *arguments, *out, *concurrent]

    def begun(self, *arguments: str) -> warm.Command:
        """Starts a command."""
        return warm.bench(self.command(*arguments), os.environ | self.environment)

    def planned(self, *arguments: str, change: Callable[[dict[str, Any]], None] = lambda _: None) -> dict[str, Any]:
        """Creates a run that `resume` begins, and returns its manifest, which may be changed before."""
        done = self("run", *arguments, "--dry-run", "--json")
        assert done.returncode == 0, done.stderr
        record: dict[str, Any] = json.loads(done.stdout)["manifest"]
        change(record)
        self.out.mkdir(parents=True, exist_ok=True)
        create_run(self.out / record["run"], record)
        return record

    def detached(self, *arguments: str) -> Path:
        """Starts a run and returns its folder as soon as its engine has it."""
        done = self("run", *arguments, "--detach")
        assert done.returncode == 0, done.stderr + done.stdout
        return self.run

    @property
    def run(self) -> Path:
        """The newest run's folder."""
        return max(path.parent for path in self.out.glob("*/manifest.json"))

    def attempts(self) -> list[Attempt]:
        """All attempts of the newest run."""
        with JournalReader(self.run) as reader:
            return reader.attempts()

    def steps(self, attempt: Attempt) -> list[StepRow]:
        """The steps of an attempt."""
        with JournalReader(self.run) as reader:
            return reader.steps(attempt.id)

    def bound(self, step: str) -> list[int]:
        """The number of connections of a step bound to one CPU, with their clients, by cell and role."""
        with JournalReader(self.run) as reader:
            totals = [row.totals for cell in reader.attempts() for row in reader.steps(cell.id) if row.name == step]
        return [role.paired for step in totals if step is not None for role in step.roles.values()]

    def engine_pid(self) -> int:
        """The engine of the newest run."""
        return int((self.run / "engine.lock").read_text())

    def await_step(self, name: str, cell: int = 1, patience_s: float = PATIENCE_S) -> StepRow:
        """Waits until a step of the cell of that place (from 1) runs and has its roles at work."""

        def running() -> StepRow | None:
            attempts = self.attempts()
            if len(attempts) < cell:
                return None
            steps = [step for step in self.steps(attempts[-1]) if step.name == name and step.state == "running"]
            return steps[0] if steps else None

        return wait_for(running, f"step {name} of cell {cell}", patience_s)

    def await_end(self) -> None:
        """Waits until the engine of the newest run has gone."""
        wait_for(lambda: not is_locked(self.run), "the engine to end")

    def backend(self, step: StepRow, role: str) -> int:
        """The server process of a role."""
        return self._role(step, role)[0]

    def client(self, step: StepRow, role: str) -> int:
        """The client process of a role."""
        return self._role(step, role)[1]

    def _role(self, step: StepRow, role: str) -> tuple[int, int]:
        def connected() -> tuple[int, int] | None:
            with JournalReader(self.run) as reader:
                return next(
                    ((row.backend_pid, row.client_pid) for row in reader.roles(step.id) if row.name == role), None
                )

        return wait_for(connected, f"the role {role} to be recorded")

    def comparison(self) -> dict[str, object]:
        """`bench compare --json` of the newest run."""
        done = self("compare", "--json")
        assert done.returncode == 0, done.stderr
        comparison: dict[str, object] = json.loads(done.stdout)
        return comparison

    def ratios(self) -> list[dict[str, Any]]:
        """The ratios of the comparison of the newest run."""
        return cast(list[dict[str, Any]], self.comparison()["ratios"])

    def undrifted_pairs(self, planned: int, step: str = "") -> int:
        """The pairs that a comparison of the newest run counts: all but those between which the machine drifted.

        A slower clock, say, counts in steps without slices only: without `step` it is those of any. Nobody can promise
        a test a steady machine. Where every pair drifted, none is left out and no verdict is given.
        """
        left_out = {
            text.split(":")[1] for ratio in self.ratios() if step in ("", ratio["step"]) for text in ratio["left_out"]
        }
        drifted = {text for text in left_out if text.startswith(" pair ")}
        return planned - len(drifted)

    def descendants(self) -> list[str]:
        """Command lines of all server and client processes that belong to this folder's runs."""
        return [line for _, line in processes_of(self.out)]

    def stop(self) -> None:
        """Ends whatever still runs here, for the end of a test."""
        for manifest in self.out.glob("*/manifest.json"):
            if is_locked(manifest.parent):
                os.kill(int((manifest.parent / "engine.lock").read_text()), signal.SIGKILL)


def processes_of(out: Path) -> Iterator[tuple[int, str]]:
    """Processes whose command line, or whose working folder, lies below a folder: postmasters, backends, engines."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            inside = str(out) in line or str((entry / "cwd").readlink()).startswith(str(out))
        except OSError:
            continue
        if inside:
            yield int(entry.name), line


def stopped(out: Path) -> list[int]:
    """The stopped processes below a folder."""
    return [pid for pid, _ in processes_of(out) if state(pid) == "T"]


def state(pid: int) -> str:
    """The kernel's letter for the state of a process; empty if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def children_of(engine: int, module: bytes) -> list[int]:
    """The processes of a module that an engine has started, such as its reaper; none if it has ended."""
    pids = []
    with suppress(OSError):
        for pid in Path(f"/proc/{engine}/task/{engine}/children").read_text().split():
            with suppress(OSError):
                if module in Path(f"/proc/{pid}/cmdline").read_bytes():
                    pids.append(int(pid))
    return pids


def conductor_of(engine: int) -> list[int]:
    """The conductor that an engine has, if a step is driven in slices."""
    return children_of(engine, b"engine.slices.conductor")


def wait_for(look: Callable[[], T | None], what: str, patience_s: float = PATIENCE_S) -> T:
    """Return the value of `look` as soon as it is true; fail after some minutes, or as long as is given."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        result = look()
        if result:
            return result
        time.sleep(0.1)
    raise AssertionError(f"waited {patience_s:.0f} s for {what}")


def postmaster(bench: Bench) -> int:
    """The postmaster of the running cell."""
    (pidfile,) = bench.run.glob("cells/*/data/postmaster.pid")
    return int(pidfile.read_text().splitlines()[0])


def connect(bench: Bench) -> psycopg.Connection[tuple[object, ...]]:
    """A session of its own on the running cell's server; of several abreast on that of the last attempt."""
    socket = bench.run / "cells" / bench.attempts()[-1].cell / "socket"
    return psycopg.connect(host=str(socket.resolve()), user=SUPERUSER, dbname="ib", autocommit=True)


def stalls(bench: Bench, step: StepRow, role: str = "") -> list[EventRow]:
    """The stalls of a step so far, or those of a role."""
    with JournalReader(bench.run) as reader:
        return [event for event in reader.events(step.id) if event.kind == "stall" and role in ("", event.role)]


def ended_stalls(bench: Bench, step: StepRow) -> list[EventRow]:
    """The stalls of a step that are over."""
    return [stall for stall in stalls(bench, step) if stall.ended_ns is not None]


def nothing_left(bench: Bench) -> None:
    wait_for(lambda: not bench.descendants(), "all processes to go")
    assert not list(bench.run.glob("cells/*/data"))

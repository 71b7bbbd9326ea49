"""Runs the steps of one cell on a server that is up: clients started, watched, waited for, totals recorded."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

import workloads
from engine import pgstat, space
from engine.account import bound_to_engine
from engine.clock import Anchor
from engine.host import Host, device_of
from engine.model import Cell, StepTotals
from engine.plan import Manifest
from engine.processes import ServerProcesses
from engine.sampler import Sources, StepSampler
from engine.server import DATABASE, Server
from engine.serverlog import ServerLog
from engine.stalls import StallRule
from engine.waits import Activity
from engine.writer import JournalWriter
from workloads.insert import maintenance
from workloads.insert.knobs import Knobs
from workloads.insert.spec import StepSpec, role_list
from workloads.insert.steps import Step, generation
from workloads.page import Control, Page, State, Word

POLL_S = 0.05  # how often the states of the roles are looked at
READY_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 15.0
BLAME_S = 0.5


class StepFailed(Exception):
    """A step that cannot be finished; its text says why. Ends the cell, not the run."""


class Interrupted(Exception):
    """The run was asked to stop; its text says by what."""


@dataclass(slots=True)
class Stop:
    """The request to stop, set by a signal handler."""

    reason: str = ""

    def check(self) -> None:
        """Raises Interrupted once the run was asked to stop."""
        if self.reason:
            raise Interrupted(self.reason)


@dataclass(slots=True)
class _Launcher:
    """The process that forks a step's roles."""

    process: subprocess.Popen[bytes]
    log: Path

    def reason(self) -> str:
        """Why it ended, by its log's last line."""
        lines = self.log.read_text(errors="replace").strip().splitlines()
        ended = f"the client launcher ended with exit code {self.process.returncode}"
        return f"{ended}: {lines[-1]}" if lines else ended


class StepRunner:
    """What all steps of a cell share: the monitor connection and the samplers. A context manager."""

    def __init__(
        self, manifest: Manifest, cell: Cell, server: Server, journal: JournalWriter, attempt: int, stop: Stop
    ) -> None:
        self.manifest = manifest
        self.cell = cell
        self.server = server
        self.journal = journal
        self.attempt = attempt
        self.stop = stop
        self.generation: str = manifest.workload["generation"]
        self.clients: int = manifest.workload["clients"]
        self.knobs = Knobs.of(manifest.workload["knobs"])

    def __enter__(self) -> Self:
        self._open = ExitStack()
        with ExitStack() as opened:
            self.server.create_database()
            anchor = Anchor.now()
            self.monitor = opened.enter_context(pgstat.Monitor(self.server.dsn(DATABASE)))
            self.sources = Sources(
                journal=self.journal,
                processes=opened.enter_context(ServerProcesses(self.server.pid)),
                host=opened.enter_context(Host(device_of(self.server.data_dir))),
                log=opened.enter_context(ServerLog(self.server.log_path, (anchor.monotonic_ns, anchor.wall_ns))),
                activity=Activity(self.monitor),
                monitor_pid=self.monitor.backend_pid,
                rule=StallRule.of(self.manifest.stall_rule),
            )
            settings = pgstat.settings(self.monitor)
            self.journal.add_settings(self.attempt, ((each.name, each.value, each.source) for each in settings))
            self._open = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def run(self, ordinal: int, step: Step) -> None:
        """Runs one step and records its totals.

        Raises StepFailed when a role or the server fails, Interrupted when the run was asked to stop.
        """
        try:
            before = pgstat.snapshot(self.monitor)
            wal_first = pgstat.wal_lsn(self.monitor)
            sampler = self._pause(ordinal, step) if step.kind == "pause" else self._load(ordinal, step)
            wal_bytes = pgstat.wal_lsn(self.monitor) - wal_first
            pgstat.settle(self.monitor)
            self.journal.add_differences(sampler.step, pgstat.difference(before, pgstat.snapshot(self.monitor)))
            self.journal.end_step(sampler.step, sampler.ended_ns, self._totals(step, sampler, wal_bytes))
        except pgstat.MonitorError as error:
            raise StepFailed(self._blame(str(error))) from error

    def _totals(self, step: Step, sampler: StepSampler, wal_bytes: int) -> StepTotals:
        sizes = pgstat.sizes(self.monitor)
        self.journal.add_sizes(sampler.step, ((size.relation, size.kind, size.bytes) for size in sizes))
        seconds = (sampler.ended_ns - sampler.started_ns) / 1e9
        roles = sampler.role_totals
        server = sampler.server_totals()
        host, device = sampler.host_totals()
        return StepTotals(
            seconds=seconds,
            roles=roles,
            dbms_cpu_ns=server["cpu_ns"],
            dbms_runq_ns=server["runq_ns"],
            dbms_switches=server["switches"],
            dbms_read_bytes=server["read_bytes"],
            dbms_write_bytes=server["write_bytes"],
            client_cpu_ns=sum(role.client_cpu_ns for role in roles.values()),
            engine_cpu_ns=sampler.engine_cpu_ns,
            wal_bytes=wal_bytes,
            rows_indexed=step.rows_indexed * self.clients,
            rows_expected=step.rows * self.clients,
            rate_target_per_s=float(step.rate_per_s * self.clients),
            heap_bytes=sum(size.bytes for size in sizes if size.kind in ("heap", "toast")),
            index_bytes=sum(size.bytes for size in sizes if size.kind == "index"),
            database_bytes=pgstat.database_bytes(self.monitor),
            cluster_bytes=space.folder_bytes(self.server.data_dir),
            rss_bytes=sampler.largest_rss_bytes,
            host=host,
            device=device,
            observers=self.manifest.observers,
        )

    # -- a step with clients

    def _load(self, ordinal: int, step: Step) -> StepSampler:
        roles = role_list(step, generation(self.generation), self.clients, self.knobs)
        if step.background_vacuum:
            self._start_background_vacuums()
        with self._launched(step, len(roles)) as (page, launcher):
            self._await(page, launcher, State.READY)
            sampler = StepSampler(self.sources, self.attempt, page, [(role.client, role.name) for role in roles])
            sampler.begin(ordinal, step.name, step.kind, step.rows * self.clients, asdict(step))
            page.words[Control.START_NS] = sampler.started_ns
            self._watch(sampler, lambda: self._reached(page, launcher, State.DONE))
            sampler.finish(max(page.word(slot, Word.ENDED_NS) for slot in range(page.roles)))
            page.words[Control.RELEASE] = 1
            if launcher.process.wait(STOP_TIMEOUT_S) != 0:
                raise StepFailed(launcher.reason())
        return sampler

    @contextmanager
    def _launched(self, step: Step, roles: int) -> Iterator[tuple[Page, _Launcher]]:
        """A counters page and the launcher that works on it; whatever happens, no client survives this."""
        page = Page.create(roles)
        log = self.server.cell_dir / "clients.log"
        spec = StepSpec(
            page_fd=page.fd,
            dsn=self.server.dsn(DATABASE),
            step=step,
            generation=self.generation,
            clients=self.clients,
            knobs=self.knobs,
            seed=self.manifest.seed,
            repeat=self.cell.repeat,
        )
        with log.open("ab") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "workloads.launch"],
                stdin=subprocess.PIPE,
                stdout=errors,
                stderr=errors,
                pass_fds=(page.fd,),
                cwd=Path(workloads.__file__).parents[1],
                start_new_session=True,
                preexec_fn=bound_to_engine(signal.SIGKILL),
                **self.server.account.identity(),
            )
        launcher = _Launcher(process, log)
        assert process.stdin is not None
        try:
            process.stdin.write(spec.to_json().encode())
            process.stdin.close()
            yield page, launcher
        finally:
            page.words[Control.STOP] = 1
            page.words[Control.RELEASE] = 1
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(STOP_TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            page.close()

    def _await(self, page: Page, launcher: _Launcher, state: State) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not self._reached(page, launcher, state):
            if time.monotonic() > deadline:
                raise StepFailed(f"clients were not ready within {READY_TIMEOUT_S:.0f} s; see {launcher.log}")
            self.stop.check()
            time.sleep(0.005)

    def _reached(self, page: Page, launcher: _Launcher, wanted: State) -> bool:
        """Whether all roles have come to a state. Raises StepFailed when one failed or died."""
        states = [State(page.word(slot, Word.STATE)) for slot in range(page.roles)]
        for slot, state in enumerate(states):
            if state == State.FAILED:
                raise StepFailed(self._blame(page.error(slot)))
        if all(state >= wanted for state in states):
            return True
        if launcher.process.poll() is not None:
            raise StepFailed(self._blame(launcher.reason()))
        return False

    # -- a step without clients

    def _pause(self, ordinal: int, step: Step) -> StepSampler:
        """Vacuum of all tables at once, one session each, a checkpoint, and the rest of the pause."""
        sampler = StepSampler(self.sources, self.attempt)
        sampler.begin(ordinal, step.name, step.kind, 0, asdict(step))
        until_ns = sampler.started_ns + round(step.seconds * 1e9)
        for statements in maintenance.pause_statements(self.generation, self.clients, self.server.build.major):
            self._execute_all(sampler, statements)
        self._watch(sampler, lambda: time.monotonic_ns() >= until_ns)
        sampler.finish(time.monotonic_ns())
        return sampler

    def _start_background_vacuums(self) -> None:
        """g22's vacuums before a query step: two per table, apart in time; the step does not wait for them."""
        statements = maintenance.background_vacuum_statements(self.generation, self.clients)
        for _ in range(maintenance.BACKGROUND_VACUUMS):
            for statement in statements:
                threading.Thread(target=self._vacuum, args=(statement,), daemon=True).start()
            until = time.monotonic() + maintenance.BACKGROUND_VACUUM_GAP_S
            while time.monotonic() < until:
                self.stop.check()
                time.sleep(POLL_S)

    def _vacuum(self, statement: str) -> None:
        with suppress(psycopg.Error), closing(self.server.connect(DATABASE)) as connection:
            connection.execute(statement.encode())

    def _execute_all(self, sampler: StepSampler, statements: Sequence[str]) -> None:
        """Runs statements side by side, a session each, and watches until all are done."""
        failures: list[str] = []

        def execute(connection: psycopg.Connection[Any], statement: str) -> None:
            try:
                connection.execute(statement.encode())
            except psycopg.Error as error:
                failures.append(f"{statement}: {error}")

        with ExitStack() as opened:
            threads = []
            for statement in statements:
                connection = opened.enter_context(closing(self.server.connect(DATABASE)))
                opened.callback(connection.cancel)  # on the way out of an interrupted or failed watch
                threads.append(threading.Thread(target=execute, args=(connection, statement), daemon=True))
            for thread in threads:
                thread.start()
            self._watch(sampler, lambda: not any(thread.is_alive() for thread in threads))
        if failures:
            raise StepFailed(self._blame(failures[0]))

    # -- watching

    def _watch(self, sampler: StepSampler, done: Callable[[], bool]) -> None:
        """Samples until `done`; raises StepFailed when the server dies, Interrupted when asked to stop."""
        while not done():
            self.stop.check()
            reason = self.server.died_reason()
            if reason:
                raise StepFailed(reason)
            sampler.watch()
            time.sleep(POLL_S)

    def _blame(self, reason: str) -> str:
        """The server's end when it ended, else `reason`. Clients notice a killed server before it can be reaped."""
        deadline = time.monotonic() + BLAME_S
        while time.monotonic() < deadline:
            died = self.server.died_reason()
            if died:
                return died
            time.sleep(POLL_S)
        return reason

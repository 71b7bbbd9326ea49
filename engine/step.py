"""Runs the steps of one cell on a server that is up: clients started, watched, waited for, totals recorded."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import workloads
from engine import metrics, pgstat, planstats, space
from engine.account import bound_to_engine
from engine.clock import Anchor
from engine.commands import Commands
from engine.endings import StepFailed, Stop
from engine.host import Host, device_of
from engine.launcher import Launcher
from engine.model import PROBED_ARM, Cell, Manifest, StepTotals
from engine.probed import Record
from engine.probeset import choice_of
from engine.probing import Pace, Probing
from engine.processes import ServerProcesses
from engine.sampler import Sources, StepSampler
from engine.server import DATABASE, Server
from engine.serverlog import ServerLog
from engine.session import Session
from engine.stalls import StallRule
from engine.waits import Activity
from engine.writer import JournalWriter
from workloads.insert import maintenance
from workloads.insert.knobs import Knobs
from workloads.insert.spec import Role, StepSpec, role_list
from workloads.insert.steps import Step, generation
from workloads.page import Control, Page, State, Word

POLL_S = 0.02  # how often the states of the roles are looked at: the most by which a step's last sample is late
CHECK_POLLS = 5  # so many polls between two looks at what costs a system call: is everybody alive?
BETWEEN_STEPS_PATIENCE_S = 120.0
READY_TIMEOUT_S = 120.0
BLAME_S = 0.5


class StepRunner:
    """What all steps of a cell share: the monitor connection and the samplers. A context manager."""

    def __init__(
        self,
        manifest: Manifest,
        cell: Cell,
        server: Server,
        journal: JournalWriter,
        attempt: int,
        stop: Stop,
        commands: Commands,
    ) -> None:
        self.manifest = manifest
        self.cell = cell
        self.server = server
        self.journal = journal
        self.attempt = attempt
        self.stop = stop
        self.commands = commands
        self.generation: str = manifest.workload["generation"]
        self.clients: int = manifest.workload["clients"]
        self.knobs = Knobs.of(manifest.workload["knobs"])
        self._planstats = planstats.PROBE in manifest.observers

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
            if self._planstats:
                planstats.begin(self.monitor)
            settings = pgstat.settings(self.monitor)
            self.journal.add_settings(self.attempt, ((each.name, each.value, each.source) for each in settings))
            # Last, so that they are the first to go: attached over the server, before any client is there.
            self.probing = opened.enter_context(self._probing())
            self.commands.probing = self.probing
            opened.callback(self._forget_probing)
            self._open = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def _probing(self) -> Probing:
        manifest = self.manifest
        # Where the probes' cost is asked, every other cell goes without.
        bare = manifest.probes_in_arm and self.cell.subject.arm != PROBED_ARM
        names = () if bare else manifest.observers
        return Probing(
            [choice_of(name) for name in names if name != planstats.PROBE],
            self.server.build,
            self.server.pid,
            self.journal,
            self.attempt,
            self.server.cell_dir,
            allow_slow=manifest.allow_slow_probes,
            budget_percent=manifest.probe_budget,
            check=self._check_alive,
        )

    def _forget_probing(self) -> None:
        self.commands.probing = None

    def run(self, ordinal: int, step: Step) -> None:
        """Runs one step and records its totals.

        Raises StepFailed when a role or the server fails, Interrupted when the run was asked to stop.
        """
        try:
            sampler = self._pause(ordinal, step) if step.kind == "pause" else self._load(ordinal, step)
            with self._patient_monitor() as monitor:
                pgstat.settle(monitor)
                differences = pgstat.difference(self._before, pgstat.snapshot(monitor))
                self.journal.add_differences(sampler.step, differences)
                probed, observers = self.probing.finish_step(sampler.ended_ns, step.name)
                if self._planstats:
                    probed[planstats.ROLE] = {planstats.PROBE: self._statements(monitor, sampler)}
                    observers = tuple(sorted((*observers, planstats.PROBE)))
                totals = self._totals(step, sampler, probed, observers)
                self.journal.end_step(sampler.step, sampler.ended_ns, totals)
        except pgstat.MonitorError as error:
            raise StepFailed(self._blame(str(error))) from error
        finally:
            self.commands.step = None

    def _begin(self, ordinal: int, step: Step, page: Page | None = None, roles: Sequence[Role] = ()) -> StepSampler:
        """First snapshots, with all clients connected and none at work, then the step's record. The clock runs."""
        with self._patient_monitor() as monitor:
            self._before = pgstat.snapshot(monitor)
            self._plans = planstats.snapshot(monitor, self.server.build.major) if self._planstats else {}
            self._wal_first = pgstat.wal_lsn(monitor)
        try:
            sampler = StepSampler(self.sources, self.attempt, page, roles)
        except (FileNotFoundError, ProcessLookupError) as error:
            raise StepFailed(self._blame("a client or server process ended before the step began")) from error
        sampler.begin(ordinal, step.name, step.kind, step.rows * self.clients, asdict(step))
        self.commands.step = sampler.step
        return sampler

    def _statements(self, monitor: pgstat.Monitor, sampler: StepSampler) -> Record:
        after = planstats.snapshot(monitor, self.server.build.major)
        differences = planstats.difference(self._plans, after)
        self.journal.add_differences(sampler.step, differences)
        seconds = (sampler.ended_ns - sampler.started_ns) / 1e9
        return planstats.record(differences[planstats.PROBE].values(), seconds)

    def _begin_probing(self, step: Step, sampler: StepSampler, launcher: int = 0) -> None:
        """The probes' frames are this step's from now on."""
        roles = {self.monitor.backend_pid: "monitor"}
        roles |= {role.backend_pid: role.name for role in sampler.roles}
        clients = {role.client_pid: f"client:{role.name}" for role in sampler.roles}
        clients |= {launcher: "client"} if launcher else {}
        busy = step.kind in ("load", "write", "query")
        self.probing.begin_step(sampler.step, sampler.started_ns, roles | clients, tuple(clients), busy=busy)

    def _finish(self, sampler: StepSampler, ended_ns: int) -> None:
        """Last samples, with the clients still connected: what they do to disconnect is not the step's."""
        sampler.finish(ended_ns)
        with self._patient_monitor() as monitor:
            self._wal_last = pgstat.wal_lsn(monitor)

    @contextmanager
    def _patient_monitor(self) -> Iterator[pgstat.Monitor]:
        """The monitor between steps: it may take its time, as nothing is measured."""
        with self.monitor.patient(BETWEEN_STEPS_PATIENCE_S, self._check):
            yield self.monitor

    def _check(self) -> None:
        """Raises Interrupted when asked to stop, StepFailed when the server has ended."""
        self.probing.idle()
        self._check_alive()

    def _check_alive(self) -> None:
        self.stop.check()
        reason = self.server.died_reason()
        if reason:
            raise StepFailed(reason)

    def _totals(
        self, step: Step, sampler: StepSampler, probed: dict[str, dict[str, Record]], observers: tuple[str, ...]
    ) -> StepTotals:
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
            wal_bytes=self._wal_last - self._wal_first,
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
            observers=observers,
            probes=probed,
        )

    # -- a step with clients

    def _load(self, ordinal: int, step: Step) -> StepSampler:
        roles = role_list(step, generation(self.generation), self.clients, self.knobs)
        if step.background_vacuum:
            self._start_background_vacuums()
        with self._launched(step, len(roles)) as (page, launcher):
            self._await_ready(page, launcher)
            sampler = self._begin(ordinal, step, page, roles)
            page.words[Control.START_NS] = sampler.started_ns
            self._begin_probing(step, sampler, launcher.process.pid)
            self.journal.commit()
            self._watch(sampler, partial(_done, page), partial(self._check_clients, page, launcher))
            self._finish(sampler, max(page.word(slot, Word.ENDED_NS) for slot in range(page.roles)))
            page.words[Control.RELEASE] = 1
            launcher.await_end()
        return sampler

    @contextmanager
    def _launched(self, step: Step, roles: int) -> Iterator[tuple[Page, Launcher]]:
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
        launcher = Launcher(process, log)
        try:
            launcher.send(spec.to_json())
            yield page, launcher
        finally:
            page.words[Control.STOP] = 1
            page.words[Control.RELEASE] = 1
            launcher.end()
            page.close()

    def _await_ready(self, page: Page, launcher: Launcher) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while any(page.word(slot, Word.STATE) < State.READY for slot in range(page.roles)):
            self._check_clients(page, launcher)
            if time.monotonic() > deadline:
                raise StepFailed(f"clients were not ready within {READY_TIMEOUT_S:.0f} s; see {launcher.log}")
            self._check()
            time.sleep(0.005)
        self._check_clients(page, launcher)

    def _check_clients(self, page: Page, launcher: Launcher) -> None:
        if page.words[Control.STOP]:  # a role that fails sets it, for its partners
            errors = [page.error(slot) for slot in range(page.roles) if page.word(slot, Word.STATE) == State.FAILED]
            if errors:
                raise StepFailed(self._blame(errors[0]))
        if launcher.process.poll() is not None:
            raise StepFailed(self._blame(launcher.reason()))

    # -- a step without clients

    def _pause(self, ordinal: int, step: Step) -> StepSampler:
        """Vacuum of all tables at once, one session each, a checkpoint, and the rest of the pause."""
        sampler = self._begin(ordinal, step)
        self._begin_probing(step, sampler)
        self.journal.commit()
        until_ns = sampler.started_ns + round(step.seconds * 1e9)
        for statements in maintenance.pause_statements(self.generation, self.clients, self.server.build.major):
            self._execute_all(sampler, statements)
        self._watch(sampler, lambda: time.monotonic_ns() >= until_ns)
        self._finish(sampler, time.monotonic_ns())
        return sampler

    def _start_background_vacuums(self) -> None:
        """g22's vacuums before a query step: two per table, apart in time; the step does not wait for them."""
        for _ in range(maintenance.BACKGROUND_VACUUMS):
            for statement in maintenance.background_vacuum_statements(self.generation, self.clients):
                self._open.enter_context(Session(self.server.connect(DATABASE), statement))
            until = time.monotonic() + maintenance.BACKGROUND_VACUUM_GAP_S
            while time.monotonic() < until:
                self._check()
                time.sleep(POLL_S)

    def _execute_all(self, sampler: StepSampler, statements: Sequence[str]) -> None:
        """Runs statements side by side, a session each, and watches until all are done. Keeps what they report."""
        with ExitStack() as opened:
            sessions = [
                opened.enter_context(Session(self.server.connect(DATABASE), statement)) for statement in statements
            ]
            self._watch(sampler, lambda: all(session.done() for session in sessions))
        with (self.server.cell_dir / "maintenance.log").open("a") as log:
            for session in sessions:
                log.writelines(f"{line}\n" for line in (session.statement, *session.notices))
        failures = [session.error for session in sessions if session.error]
        if failures:
            raise StepFailed(self._blame(failures[0]))

    # -- watching

    def _watch(self, sampler: StepSampler, done: Callable[[], bool], check: Callable[[], None] = lambda: None) -> None:
        """Samples until `done`; raises StepFailed when the server or (`check`) a client dies, Interrupted on a stop."""
        polls = 0
        while not done():
            if polls % CHECK_POLLS == 0:
                check()
                self._check()
            polls += 1
            sampler.watch()
            self.probing.watch(partial(_pace, sampler), stalling=sampler.stalling)
            time.sleep(POLL_S)
        check()

    def _blame(self, reason: str) -> str:
        """The server's end when it ended, else `reason`. Clients notice a killed server before it can be reaped."""
        deadline = time.monotonic() + BLAME_S
        while time.monotonic() < deadline:
            died = self.server.died_reason()
            if died:
                return died
            time.sleep(POLL_S)
        return reason


def _done(page: Page) -> bool:
    """Whether all roles have done their work, or cannot."""
    return all(page.word(slot, Word.STATE) >= State.DONE for slot in range(page.roles))


def _pace(sampler: StepSampler) -> Pace:
    """What the step has been like so far."""
    seconds = max(0.001, (time.monotonic_ns() - sampler.started_ns) / 1e9)
    statements = sum(role.word(Word.STATEMENTS) for role in sampler.roles)
    host, _ = sampler.host_totals()
    return Pace(statements / seconds, (metrics.cpu_busy_ns(host) or 0) / 1e9 / seconds)

"""Runs the steps of one cell on a server that is up: clients started, watched, waited for, totals recorded."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Self

from engine.core.clock import Anchor, patient
from engine.core.model import PROBED, Cell, Manifest
from engine.core.record import converted
from engine.features import MeasuredStep, with_parts
from engine.host.machine_counters import Host, device_of
from engine.observe.sampler import StepSampler
from engine.observe.sources import Sources
from engine.observe.stalls import StallRule
from engine.postgres import pgstat, setting_kinds
from engine.postgres.activity import Activity
from engine.postgres.cellserver import CellServer
from engine.postgres.server_processes import ServerProcesses
from engine.postgres.serverlog import ServerLog
from engine.postgres.unknown import unknown
from engine.remote.client_host import ClientHost
from engine.run import client_step
from engine.run.cell_steps import cell_steps
from engine.run.clients import launched
from engine.run.control import Commands
from engine.run.phase import Phase
from engine.run.statements import StepStatements
from engine.run.step_totals import reads_of, timed, totals_of
from engine.run.stop import StepFailed, Stop
from engine.slices.hold import used_ns
from engine.slices.recorder import SliceRecord
from engine.slices.sliced_server import Side
from engine.system.files import forget_cached
from engine.tracing import planstats
from engine.tracing.attach import Probing
from engine.tracing.selection import choice_of
from workloads import workload
from workloads.api.base import Maintenance, Step
from workloads.client import client_gate
from workloads.client.counter_page import Control, Page, Word

POLL_S = 0.02  # between checks of the roles' states: a step's last sample is late by this at most
LEAST_S = 0.005
# Least and greatest interval between checks that cost a system call (liveness).
CHECK_NS, LATEST_CHECK_NS = 100_000_000, 300_000_000
BETWEEN_STEPS_PATIENCE_S = patient(120.0)


@dataclass(eq=False)
class StepRunner:
    """Runs the steps of a cell with one monitor connection and one set of samplers. A context manager."""

    manifest: Manifest
    cell: Cell
    server: CellServer
    attempt: int
    stop: Stop
    commands: Commands
    host: ClientHost | None = None  # that clients run on, if not on this machine
    idle_servers: Sequence[ServerProcesses] = ()  # stopped servers of the interleaved cells
    seconds: Mapping[str, int] = field(default_factory=dict)  # of steps, where these differ from the plan; 0: left out

    def __post_init__(self) -> None:
        self.journal = self.commands.journal
        self._starting = replace(self.server.waiting, check=self._check_alive)
        self._waiting = replace(self.server.waiting, check=self._check)
        self.running_cell = self.commands.cells[self.attempt]
        self.planned = self.manifest.workload
        self.workload = workload(self.planned["name"])
        self.steps = cell_steps(self.planned, self.server.build.label, self.cell.repeat, self.seconds)
        self._report: dict[str, Any] = {}  # of the last step with clients
        self.step = 0  # the journal's, while one runs
        self.sliced: tuple[Step, Side] | None = None  # the last that may be sliced, and this server in it
        self.slices: SliceRecord | None = None  # of the step with clients that runs
        self._sampler: StepSampler | None = None  # of the last step
        self._spill_over_ns: int | None = None  # CPU time of the idle servers: as the last step began, then in it
        self._watched: tuple[Page, int, int] | None = None  # CHANGED_NS of a step's page, and when to look at it again
        self._planstats = planstats.PROBE in self.manifest.observation.observers
        self._views = (*pgstat.VIEWS, planstats.PROBE) if self._planstats else pgstat.VIEWS

    def __enter__(self) -> Self:
        self._open = ExitStack()
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # several descriptors are kept for each connection
        with ExitStack() as opened:
            self.server.create_database()
            anchor, inside = Anchor.now(), self.server.inside
            began = (anchor.monotonic_ns, anchor.wall_ns)
            host = opened.enter_context(Host(device_of(inside.data_dir))) if inside else None
            log = opened.enter_context(ServerLog(inside.log_path, began)) if inside else None
            self._connected = opened.enter_context(ExitStack())
            self._connect(host, log)
            with self.monitor.patient(BETWEEN_STEPS_PATIENCE_S, self._starting):
                settings = pgstat.settings(self.monitor, "settings" if inside else "external_settings")
                self.defaults = pgstat.defaults(self.monitor)
                dropped = self.manifest.config(self.cell.subject).dropped
                self.unknown = unknown(self.monitor, tuple(filter(setting_kinds.is_unknown, dropped)))
            self.journal.add_settings(self.attempt, settings)
            self._open = opened.pop_all()
            self._statements = StepStatements(self.server, self._waiting, self._open)
        return self

    def _connect(self, host: Host | None, log: ServerLog | None) -> None:
        """Connect to the server, and attach to its processes: at first, and after it was started again."""
        opened, inside = self._connected, self.server.inside
        monitor = pgstat.Monitor(self.server.dsn(), server=self.server.build.label, waiting=self._starting)
        self.monitor = opened.enter_context(monitor)
        with self.monitor.patient(BETWEEN_STEPS_PATIENCE_S, self._starting):
            activity = Activity(self.monitor)
            if self._planstats:
                planstats.begin(self.monitor)
        self.sources = Sources(
            journal=self.journal,
            processes=opened.enter_context(ServerProcesses(inside.pid)) if inside else None,
            host=host,
            log=log,
            activity=activity,
            monitor_pid=self.monitor.backend_pid,
            rule=converted(self.manifest.observation.stall_rule, StallRule, "manifest.json: stall_rule"),
        )
        # Last, so that they are removed first: attached to the server before any client connects.
        self.probing = opened.enter_context(self._probing())
        self.running_cell.probing = self.probing
        opened.callback(setattr, self.running_cell, "probing", None)

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _probing(self) -> Probing:
        observation = self.manifest.observation
        # To measure the probes' cost, every other cell has none.
        bare = observation.probes_in_control and self.cell.subject.control != PROBED
        names, inside = () if bare else observation.observers, self.server.inside
        return Probing(
            [choice_of(name) for name in names if name != planstats.PROBE],
            self.server.build,
            inside.pid if inside else 0,
            self.journal,
            self.attempt,
            self.server.cell_dir,
            allow_slow=observation.allow_slow_probes,
            check=self._check_alive,
            unavailable=""
            if inside
            else f"{self.server.build.label} is an external server: probes cannot see inside it",
        )

    def run(self, ordinal: int, step: Step) -> Iterator[Phase]:
        """Run one step, yielding at each phase, and record its totals. Raises StepFailed, MonitorError, Interrupted."""
        try:
            work = self.workload.maintenance(self.planned, step, self.server.build.major)
            self._statements.do(work.before)
            if work.evict and not self._statements.evict(pgstat.question("evict", self.monitor.version)):
                self._connected.close()
                self.server.restart()
                self._connect(self.sources.host, self.sources.log)
            if work.cold:
                forget_cached(self.server.cell_dir)
            self._statements.start_background(work)
            with ExitStack() as self._hooks:  # of features around the step
                run = self._load if step.roles else self._maintain
                sampler = yield from run(ordinal, step, work)
            with self._patient_monitor() as monitor:
                pgstat.settle(monitor)
                differences = pgstat.difference(self._before, pgstat.snapshot(monitor, self._views))
                self.journal.add_differences(sampler.step, differences)
                probed, observers = self.probing.finish_step(sampler.ended_ns, step.name)
                if self._planstats:
                    counted = planstats.record(differences[planstats.PROBE].values(), sampler.seconds)
                    probed[planstats.ROLE] = {planstats.PROBE: counted}
                    observers = tuple(sorted((*observers, planstats.PROBE)))
                observers = tuple(sorted((*observers, *self._measured.observers)))
                sizes = pgstat.sizes(self.monitor)
                self.journal.add_sizes(sampler.step, sizes)
                totals = replace(
                    totals_of(step, sampler, self.server.inside, sizes, self._wal_last - self._wal_first),
                    **timed(step, self._report),
                    database_bytes=pgstat.database_bytes(self.monitor),
                    observers=observers,
                    probes=probed,
                    report=self._report,
                    spill_over_ns=self._spill_over_ns,
                    **self._measured.totals,
                    features=self._measured.figures,
                    **reads_of(differences, self.server.build.major),
                )
                self.journal.end_step(sampler.step, sampler.ended_ns, totals)
        finally:
            self.running_cell.step = None
            if self._sampler is not None:
                self._sampler.close()
        if work.after:
            yield Phase.TOGETHER
            self._statements.do(work.after)
        yield Phase.FINISHED

    def _begin(self, ordinal: int, step: Step, work: Maintenance, page: Page | None = None) -> StepSampler:
        """Take the first snapshots, with all clients connected and idle, then record the step. The clock runs."""
        with self._patient_monitor() as monitor:
            inside, monitor_pid = self.server.inside, monitor.backend_pid
            self._measured = MeasuredStep(step, page, inside.pid if inside else 0, monitor_pid)
            for feature, part in with_parts(self.manifest.parts):
                self._hooks.enter_context(feature.around_step(part, self._measured))
            self._before = pgstat.snapshot(monitor, self._views)
            self._wal_first = pgstat.wal_lsn(monitor)
        try:
            relations = partial(self.workload.relations, self.planned)
            sampler = self._sampler = StepSampler(self.sources, self.attempt, step, page, relations)
        except (FileNotFoundError, ProcessLookupError) as error:
            raise StepFailed("a client or server process ended before the step began") from error
        primary = asdict(step.primary_metric) if step.primary_metric else None
        plan = {**step.record, "group": step.group, "primary_metric": primary, "vacuumed": work.vacuums}
        self._spill_over_ns = used_ns(self.idle_servers, 0)
        sampler.begin(ordinal, step.name, step.kind, step.work, plan, self._wal_first)
        self.running_cell.step = self.step = sampler.step
        return sampler

    def _begin_probing(self, step: Step, sampler: StepSampler, launcher: int = 0) -> None:
        roles = {self.monitor.backend_pid: "monitor"}
        roles |= {role.backend_pid: role.name for role in sampler.roles if role.backend_pid}
        clients = {role.client_pid: f"client:{role.name}" for role in sampler.roles if role.is_here}
        clients |= {launcher: "client"} if launcher and not self.host else {}
        busy = step.primary_metric is not None and step.primary_metric.live
        self.probing.begin_step(sampler.step, sampler.started_ns, roles | clients, tuple(clients), busy=busy)

    def _finish(self, sampler: StepSampler, ended_ns: int) -> None:
        """Take the last samples with the clients still connected: disconnecting is not part of the step."""
        self._hooks.close()
        sampler.finish(ended_ns)
        with self._patient_monitor() as monitor:
            self._wal_last = pgstat.wal_lsn(monitor)

    @contextmanager
    def _patient_monitor(self) -> Iterator[pgstat.Monitor]:
        """The monitor between steps, where it may be slow because nothing is measured."""
        with self.monitor.patient(BETWEEN_STEPS_PATIENCE_S, self._waiting):
            yield self.monitor

    def _check(self) -> None:
        self.probing.idle()
        self._check_alive()
        self._statements.poll_background()

    def _check_alive(self) -> None:
        self.stop.check()
        reason = self.server.died_reason()
        if reason:
            raise StepFailed(reason)

    # -- a step with clients

    def _load(self, ordinal: int, step: Step, work: Maintenance) -> Generator[Phase, None, StepSampler]:
        server, host = self.server, self.host
        launch = client_step.launch_of(
            step, self.planned, server, host, (self.manifest.design.seed, self.cell.repeat), self.journal.found()
        )
        with launched(launch, len(step.roles), server, host) as (page, launcher), ExitStack() as ends:
            check = partial(client_step.check_clients, page, launcher)
            sliced = server.inside if step.sliced else None
            if sliced:
                yield Phase.LAUNCHED
            launcher.send()
            client_step.await_ready(page, launcher, step.preparation_s, check, self._waiting)
            if sliced:
                side = client_step.side_of(step, page, self.cell.subject, sliced.pid, self.monitor.backend_pid)
                self.sliced = (step, side)
                yield Phase.READY
            sampler = self._begin(ordinal, step, work, page)
            self.slices = SliceRecord(self.journal, sampler.step, page)
            ends.callback(setattr, self, "slices", None)  # its page goes
            page.words[Control.START_NS] = sampler.started_ns
            self._begin_probing(step, sampler, launcher.process.pid)
            self.journal.commit()
            yield from self._watch(sampler, client_step.all_done(page), check, page)
            self._spill_over_ns = used_ns(self.idle_servers, self._spill_over_ns)
            yield Phase.DONE
            self._finish(sampler, max(page.word(slot, Word.ENDED_NS) for slot in range(page.roles)))
            page.words[Control.RELEASE] = 1
            launcher.await_end(self._waiting)
            self.slices.keep()
            sampler.add_up()
            self._report = launcher.report()
        return sampler

    def rest(self) -> None:
        """Sleep, while a step runs alone, until something is due or a role ends: idle wake-ups are expensive."""
        if self._watched is None:
            time.sleep(POLL_S)
        else:
            page, changed_ns, due_ns = self._watched
            left_s = (due_ns - time.monotonic_ns()) / 1e9
            client_gate.wait_while(page, Control.CHANGED_NS, changed_ns, max(LEAST_S, left_s))

    # -- a step without clients

    def _maintain(self, ordinal: int, step: Step, work: Maintenance) -> Generator[Phase, None, StepSampler]:
        """Run a step that consists of SQL: its groups one after another, then the rest of its time.

        Interleaved servers rest at once, each as long as it would alone.
        """
        self._report = {}
        sampler = self._begin(ordinal, step, work)
        self._begin_probing(step, sampler)
        self.journal.commit()
        for statements in work.groups:
            yield from self._statements.side_by_side(statements, partial(self._watch, sampler))
        self._spill_over_ns = used_ns(self.idle_servers, self._spill_over_ns)
        ended_ns = time.monotonic_ns()
        left_ns = sampler.started_ns + round(work.least_s * 1e9) - ended_ns
        if left_ns > 0:
            yield Phase.TOGETHER
            ended_ns = time.monotonic_ns() + left_ns
            yield from self._watch(sampler, lambda: time.monotonic_ns() >= ended_ns)
            yield Phase.DONE
        self._finish(sampler, ended_ns)
        return sampler

    # -- watching

    def _watch(
        self,
        sampler: StepSampler,
        done: Callable[[], bool],
        check: Callable[[], None] = lambda: None,
        page: Page | None = None,
    ) -> Iterator[Phase]:
        """Sample until `done()`, asked again whenever the step's `page` changes. Raises StepFailed, Interrupted."""
        checked_ns = 0
        while True:
            changed_ns = page.words[Control.CHANGED_NS] if page is not None else 0
            if done():
                break
            if time.monotonic_ns() - checked_ns >= CHECK_NS:
                check()
                self._check()
                checked_ns = time.monotonic_ns()
            sampler.watch()
            self.probing.watch(stalling=sampler.stalling)
            due_ns = min(sampler.due_ns, checked_ns + LATEST_CHECK_NS)
            self._watched = (page, changed_ns, due_ns) if page is not None else None
            yield Phase.RUNNING
        self._watched = None
        check()

"""Runs the steps of one cell on a server that is up: clients started, watched, waited for, totals recorded."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Self

from engine.core.model import Cell, Manifest
from engine.observe.sampler import StepSampler
from engine.postgres.cellserver import CellServer
from engine.postgres.server_processes import ServerProcesses
from engine.remote.client_host import ClientHost
from engine.run import client_step
from engine.run.clients import launched
from engine.run.control import Commands
from engine.run.phase import Phase
from engine.run.statements import StepStatements
from engine.run.step_totals import StepCounts
from engine.run.stop import StepFailed, Stop
from engine.run.watched_server import WatchedServer
from engine.slices.recorder import SliceRecord
from engine.slices.sliced_server import Side
from engine.system.files import forget_cached
from workloads import workload
from workloads.api.base import Maintenance, Step
from workloads.client import client_gate
from workloads.client.counter_page import Control, Page, Word

POLL_S = 0.02  # between checks of the roles' states: a step's last sample is late by this at most
LEAST_S = 0.005
# Least and greatest interval between checks that cost a system call (liveness).
CHECK_NS, LATEST_CHECK_NS = 100_000_000, 300_000_000


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

    def __post_init__(self) -> None:
        self.journal = self.commands.journal
        self._waiting = replace(self.server.waiting, check=self._check)
        self.running_cell = self.commands.cells[self.attempt]
        self.planned = self.manifest.workload
        self.workload = workload(self.planned["name"])
        self._report: dict[str, Any] = {}  # of the last step with clients
        self.sliced: tuple[Step, Side] | None = None  # the last that may be sliced, and this server in it
        self.slices: SliceRecord | None = None  # of the step with clients that runs
        self._sampler: StepSampler | None = None  # of the last step
        self._due: tuple[Page, int, int] | None = None  # page of the step, its CHANGED_NS, and when to look again

    def __enter__(self) -> Self:
        self._open = ExitStack()
        watched = WatchedServer(self.server, self.manifest, self.cell, self.attempt, self.commands, self.stop)
        self.watched = self._open.enter_context(watched)
        self._statements = StepStatements(self.server, self._waiting, self._open)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def run(self, ordinal: int, step: Step) -> Iterator[Phase]:
        """Run one step, yielding at each phase, and record its totals. Raises StepFailed, MonitorError, Interrupted."""
        try:
            work = self.workload.maintenance(self.planned, step, self.server.build.major)
            self._statements.do(work.before)
            if work.evict and not self._statements.evict(self.watched.monitor.version):
                self.watched.restart()
            if work.cold:
                forget_cached(self.server.cell_dir)
            self._statements.start_background(work)
            parts = self.manifest.parts
            with StepCounts(self.watched, parts, self.idle_servers, self._waiting) as self._counts:
                run = self._load if step.roles else self._maintain
                sampler = yield from run(ordinal, step, work)
            totals = self._counts.totals(step, sampler, self._report)
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
        wal_lsn = self._counts.begin(step, page)
        try:
            relations = partial(self.workload.relations, self.planned)
            sampler = self._sampler = StepSampler(self.watched.sources, self.attempt, step, page, relations)
        except (FileNotFoundError, ProcessLookupError) as error:
            raise StepFailed("a client or server process ended before the step began") from error
        primary = asdict(step.primary_metric) if step.primary_metric else None
        plan = {**step.record, "group": step.group, "primary_metric": primary, "vacuumed": work.vacuums}
        self._counts.start_spill_over()
        sampler.begin(ordinal, step.name, step.kind, step.work, plan, wal_lsn)
        self.running_cell.step = sampler.step
        return sampler

    def _check(self) -> None:
        self.watched.probing.idle()
        self.watched.check_alive()
        self._statements.poll_background()

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
                side = client_step.side_of(step, page, self.cell.subject, sliced.pid, self.watched.monitor.backend_pid)
                self.sliced = (step, side)
                yield Phase.READY
            sampler = self._begin(ordinal, step, work, page)
            self.slices = SliceRecord(self.journal, sampler.step, page)
            ends.callback(setattr, self, "slices", None)  # its page goes
            page.words[Control.START_NS] = sampler.started_ns
            self.watched.begin_probing(step, sampler, 0 if host else launcher.process.pid)
            self.journal.commit()
            yield from self._watch(sampler, client_step.all_done(page), check, page)
            self._counts.end_spill_over()
            yield Phase.DONE
            self._counts.finish(sampler, max(page.word(slot, Word.ENDED_NS) for slot in range(page.roles)))
            page.words[Control.RELEASE] = 1
            launcher.await_end(self._waiting)
            self.slices.keep()
            sampler.add_up()
            self._report = launcher.report()
        return sampler

    def rest(self) -> None:
        """Sleep, while a step runs alone, until something is due or a role ends: idle wake-ups are expensive."""
        if self._due is None:
            time.sleep(POLL_S)
        else:
            page, changed_ns, due_ns = self._due
            left_s = (due_ns - time.monotonic_ns()) / 1e9
            client_gate.wait_while(page, Control.CHANGED_NS, changed_ns, max(LEAST_S, left_s))

    # -- a step without clients

    def _maintain(self, ordinal: int, step: Step, work: Maintenance) -> Generator[Phase, None, StepSampler]:
        """Run a step that consists of SQL: its groups one after another, then the rest of its time.

        Interleaved servers rest at once, each as long as it would alone.
        """
        self._report = {}
        sampler = self._begin(ordinal, step, work)
        self.watched.begin_probing(step, sampler)
        self.journal.commit()
        for statements in work.groups:
            yield from self._statements.side_by_side(statements, partial(self._watch, sampler))
        self._counts.end_spill_over()
        ended_ns = time.monotonic_ns()
        left_ns = sampler.started_ns + round(work.least_s * 1e9) - ended_ns
        if left_ns > 0:
            yield Phase.TOGETHER
            ended_ns = time.monotonic_ns() + left_ns
            yield from self._watch(sampler, lambda: time.monotonic_ns() >= ended_ns)
            yield Phase.DONE
        self._counts.finish(sampler, ended_ns)
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
            self.watched.probing.watch(stalling=sampler.stalling)
            due_ns = min(sampler.due_ns, checked_ns + LATEST_CHECK_NS)
            self._due = (page, changed_ns, due_ns) if page is not None else None
            yield Phase.RUNNING
        self._due = None
        check()

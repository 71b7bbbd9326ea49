"""A cell's server while its steps run: the engine's connection to it, the sources of samples, and attached probes."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Self

from engine.core.clock import Anchor, patient
from engine.core.model import PROBED, Cell, Manifest
from engine.core.record import converted
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
from engine.postgres.waiting import Waiting
from engine.run.control import Commands
from engine.run.stop import StepFailed, Stop
from engine.tracing import planstats
from engine.tracing.attach import Probing
from engine.tracing.selection import choice_of
from workloads.api.base import Step

BETWEEN_STEPS_PATIENCE_S = patient(120.0)


class WatchedServer:
    """A server with one monitor connection and one set of sources for all steps of a cell. A context manager."""

    def __init__(
        self, server: CellServer, manifest: Manifest, cell: Cell, attempt: int, commands: Commands, stop: Stop
    ) -> None:
        self.server, self.journal = server, commands.journal
        self._cell, self._attempt, self._stop = cell, attempt, stop
        self._manifest, self._observation = manifest, manifest.observation
        self._running_cell = commands.cells[attempt]
        self._starting = replace(server.waiting, check=self.check_alive)
        self.counts_plans = planstats.PROBE in self._observation.observers
        self.views = (*pgstat.VIEWS, planstats.PROBE) if self.counts_plans else pgstat.VIEWS

    def __enter__(self) -> Self:
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
            with self.patient(self._starting) as monitor:
                settings = pgstat.settings(monitor, "settings" if inside else "external_settings")
                self.defaults = pgstat.defaults(monitor)
                dropped = self._manifest.config(self._cell.subject).dropped
                self.unknown = unknown(monitor, tuple(filter(setting_kinds.is_unknown, dropped)))
            self.journal.add_settings(self._attempt, settings)
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def restart(self) -> None:
        """Start the server again, which empties its shared buffers, and connect anew."""
        self._connected.close()
        self.server.restart()
        self._connect(self.sources.host, self.sources.log)

    @contextmanager
    def patient(self, waiting: Waiting) -> Iterator[pgstat.Monitor]:
        """The monitor between steps, where it may be slow because nothing is measured."""
        with self.monitor.patient(BETWEEN_STEPS_PATIENCE_S, waiting):
            yield self.monitor

    def check_alive(self) -> None:
        """Raise Interrupted if the run is to stop, and StepFailed if the server has ended."""
        self._stop.check()
        reason = self.server.died_reason()
        if reason:
            raise StepFailed(reason)

    def begin_probing(self, step: Step, sampler: StepSampler, launcher: int = 0) -> None:
        """Attribute to roles what probes see from now on; `launcher` is the clients' launcher, 0 elsewhere."""
        roles = {self.monitor.backend_pid: "monitor"}
        roles |= {role.backend_pid: role.name for role in sampler.roles if role.backend_pid}
        clients = {role.client_pid: f"client:{role.name}" for role in sampler.roles if role.is_here}
        clients |= {launcher: "client"} if launcher else {}
        busy = step.primary_metric is not None and step.primary_metric.live
        self.probing.begin_step(sampler.step, sampler.started_ns, roles | clients, tuple(clients), busy=busy)

    def _connect(self, host: Host | None, log: ServerLog | None) -> None:
        """Connect to the server, and attach to its processes: at first, and after it was started again."""
        opened, inside = self._connected, self.server.inside
        monitor = pgstat.Monitor(self.server.dsn(), server=self.server.build.label, waiting=self._starting)
        self.monitor = opened.enter_context(monitor)
        with self.patient(self._starting):
            activity = Activity(self.monitor)
            if self.counts_plans:
                planstats.begin(self.monitor)
        self.sources = Sources(
            journal=self.journal,
            processes=opened.enter_context(ServerProcesses(inside.pid)) if inside else None,
            host=host,
            log=log,
            activity=activity,
            monitor_pid=self.monitor.backend_pid,
            rule=converted(self._observation.stall_rule, StallRule, "manifest.json: stall_rule"),
        )
        # Last, so that they are removed first: attached to the server before any client connects.
        self.probing = opened.enter_context(self._probing())
        self._running_cell.probing = self.probing
        opened.callback(setattr, self._running_cell, "probing", None)

    def _probing(self) -> Probing:
        # To measure the probes' cost, every other cell has none.
        bare = self._observation.probes_in_control and self._cell.subject.control != PROBED
        names, inside = () if bare else self._observation.observers, self.server.inside
        return Probing(
            [choice_of(name) for name in names if name != planstats.PROBE],
            self.server.build,
            inside.pid if inside else 0,
            self.journal,
            self._attempt,
            self.server.cell_dir,
            allow_slow=self._observation.allow_slow_probes,
            check=self.check_alive,
            unavailable=""
            if inside
            else f"{self.server.build.label} is an external server: probes cannot see inside it",
        )

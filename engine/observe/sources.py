"""Sources of data about the steps of a cell."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from engine.host.machine_counters import Host
from engine.journal.writer import JournalWriter
from engine.observe.stalls import StallRule
from engine.postgres.activity import Activity
from engine.postgres.pgstat import MonitorError
from engine.postgres.server_processes import ServerProcesses, ServerSample
from engine.postgres.serverlog import LogEvent, ServerLog

UNSEEN_SERVER = ServerSample({}, {}, {})  # for invisible processes


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources through which the steps of a cell are watched. An external server has no processes, host or log."""

    journal: JournalWriter
    processes: ServerProcesses | None
    host: Host | None
    log: ServerLog | None
    activity: Activity
    monitor_pid: int
    rule: StallRule
    # Recent log events, and current ones: a checkpoint may outlive its step.
    recent: deque[LogEvent] = field(default_factory=lambda: deque(maxlen=100))
    lasting: dict[tuple[str, int, int | None], int] = field(default_factory=dict)

    def server(self, last: ServerSample | None = None, *, all_processes: bool = True) -> ServerSample:
        """All server processes, or `last` if they have ended; without it raises MonitorError. See
        `ServerProcesses.sample`.
        """
        if self.processes is None:
            return UNSEEN_SERVER
        sample = self.processes.sample(all_processes=all_processes) or last
        if sample is None:
            raise MonitorError("the server has exited")
        return sample

    def machine(self) -> tuple[dict[str, int], dict[str, int]]:
        return (self.host.host(), self.host.device()) if self.host is not None else ({}, {})

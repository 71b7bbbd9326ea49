"""What the steps of a cell are watched through."""

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

UNSEEN_SERVER = ServerSample({}, {}, {})  # of one whose processes are not to be seen


@dataclass(frozen=True, slots=True)
class Sources:
    """What the steps of a cell are watched through; all live longer than a step.

    Of an external server only its own statistics are seen: no processes, no host, no log.
    """

    journal: JournalWriter
    processes: ServerProcesses | None
    host: Host | None
    log: ServerLog | None
    activity: Activity
    monitor_pid: int
    rule: StallRule
    # What the server's log reported lately, and which of it still lasts: a checkpoint may outlive its step.
    recent: deque[LogEvent] = field(default_factory=lambda: deque(maxlen=100))
    lasting: dict[tuple[str, int, int | None], int] = field(default_factory=dict)

    def server(self, last: ServerSample | None = None, *, whole: bool = True) -> ServerSample:
        """All server processes now; what was last seen of them when the server has exited.

        Not `whole` is for a second within a step: see `ServerProcesses.sample`. Raises MonitorError when nothing was
        seen of it before.
        """
        if self.processes is None:
            return UNSEEN_SERVER
        sample = self.processes.sample(whole=whole) or last
        if sample is None:
            raise MonitorError("the server has exited")
        return sample

    def machine(self) -> tuple[dict[str, int], dict[str, int]]:
        """The server's host and device now; nothing where they are not seen."""
        return (self.host.host(), self.host.device()) if self.host is not None else ({}, {})

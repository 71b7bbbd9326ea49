"""Servers that are stopped while another one does unsliced work.

Their background work would be measured with it: an autovacuum and a checkpoint left by a load last longer than an index
build. The postmaster keeps running: it must obey its death signal, and kills processes that are stopped five seconds
after it. So do clients: one step's are gone before the next, and clients that wait for a step sleep or load
their modules, or were stopped by their own launcher, which would not have them continued.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from engine.host.procfs import children
from engine.postgres.server_processes import ServerProcesses
from engine.slices.sliced_server import send


@contextmanager
def held(postmasters: Sequence[int]) -> Iterator[Callable[[], bool]]:
    """Stop all processes of these servers within, the engine's sessions included: query nothing there.

    Yields a function that stops processes started since, and returns whether there were any.
    """
    stopped: dict[int, int] = {}  # pidfds, as pids are reused

    def stop_new() -> bool:
        new = {pid for postmaster in postmasters for pid in children(postmaster)} - stopped.keys()
        for pid in new:
            with suppress(ProcessLookupError):
                stopped[pid] = os.pidfd_open(pid)
        send((stopped[pid] for pid in new & stopped.keys()), signal.SIGSTOP)
        return bool(new)

    try:
        while stop_new():  # the postmaster starts processes requested before
            pass
        yield stop_new
    finally:
        send(stopped.values(), signal.SIGCONT)
        for descriptor in stopped.values():
            os.close(descriptor)


def used_ns(servers: Sequence[ServerProcesses], before_ns: int | None) -> int | None:
    """The servers' CPU time beyond `before_ns`; None without servers, or if one has ended."""
    samples = [server.sample() for server in servers]
    used = [sample.total["cpu_ns"] for sample in samples if sample is not None]
    return sum(used) - before_ns if used and len(used) == len(servers) and before_ns is not None else None

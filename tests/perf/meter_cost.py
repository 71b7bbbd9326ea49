"""What the interference meter costs: its own process, and what the conductor reads at each slice.

    PGBED_SERVERS=... python -m tests.perf.meter_cost [BUILD] [--seconds 30]

The same build twice, driven in slices by the conductor, its clients those of the query step qr1000. Printed are the
CPU time of the meter's process a second of the clock, and what reading its page, the count of runnable tasks and the
states of a server's processes takes, times the slices a second. Exit code 1 when both together exceed 0.5 % of a CPU.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median

from engine.builds import resolve
from engine.core.model import Subject
from engine.host.procfs import children
from engine.slices.block_order import SliceSeed
from engine.slices.meter import Machine, MeterPage
from engine.slices.sliced_server import Processes, Side, SlicedServer
from tests.support.interleaved_servers import interleaved, query_step, servers_up

MOST = 0.005  # of a CPU
ACTIVE = 4  # processes of a server that did something in a slice
LOOPS, TURNS = 200, 15
SETTLING_S = 2.0


def took_s(what: Callable[[], object]) -> float:
    """CPU time of one call: the median of turns."""

    def turn() -> float:
        began_ns = time.thread_time_ns()
        for _ in range(LOOPS):
            what()
        return (time.thread_time_ns() - began_ns) / LOOPS / 1e9

    return median(turn() for _ in range(TURNS))


def process_s(pid: int) -> float:
    """CPU seconds of a process, all its threads."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def command_of(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("build", nargs="?", default="16.3-prebuilt")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rows", type=int, default=20_000)
    asked = parser.parse_args()
    build = resolve.local_build(asked.build, Path(os.environ["PGBED_SERVERS"]) / asked.build)
    with (
        servers_up([build, build], asked.rows) as servers,
        interleaved(servers, query_step(asked.rows, "qr1000"), 50.0, SliceSeed(1, 1, "cost")) as duet,
    ):
        duet.drive(SETTLING_S)
        meters = [pid for pid in children(os.getpid()) if b"engine.slices.meter" in command_of(pid)]
        before_s, slices = sum(map(process_s, meters)), len(duet.slices)
        began_s = time.monotonic()
        duet.drive(asked.seconds)
        lasted_s = time.monotonic() - began_s
        process = (sum(map(process_s, meters)) - before_s) / lasted_s
        per_s = (len(duet.slices) - slices) / lasted_s
        state, page = duet.conductor.meter, duet.page(0)
        side = Side(Subject("side0", "config"), page.fd, page.roles, (), servers[0].pid)
        server = SlicedServer(side, page, Processes(servers[0].pid, 0))
        server.used = server.processes.used_ns()
        active = set(list(server.used)[:ACTIVE])
        before = {pid: (cpu_ns - (pid in active), 0) for pid, (cpu_ns, _) in server.used.items()}
        machine = Machine(MeterPage.create().fd)
        reading = took_s(machine.runnable) + took_s(lambda: server.still_running(before)) + 2 * took_s(machine.late_ns)
    print(state.text)
    print(f"the meter {process:.3%} of a CPU; {1e6 * reading:.0f} us a slice, {per_s:.0f} slices a second: "
          f"{reading * per_s:.3%}; load {os.getloadavg()[0]:.1f}")  # fmt: skip
    total = process + reading * per_s
    print(f"together {total:.2%} of a CPU")
    return 1 if total > MOST else 0


if __name__ == "__main__":
    sys.exit(main())

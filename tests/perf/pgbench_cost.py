"""What it costs to watch pgbench: throughput and CPU per transaction against a bare one, select-only.

    PGBED_SERVERS=... PGBED_PGBENCH=... python -m tests.perf.pgbench_cost [--server LABEL] [--seconds S] [--rounds N]

One pgbench as the launcher runs it (sampled log in memory, read and counted every 20 ms, ages asked of the server four
times a second) and two bare ones run against one server, but only one of them at a time: they are
stopped and continued in turns of 40 ms, in another order each time. Whole runs one after another would differ by more
than what is asked for. Ratios are geometric means over the rounds with 95 % intervals; the second bare one shows what
the method itself makes of no difference.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, stdev

import psycopg
from scipy.stats import t as student

from engine.builds import resolve
from engine.core.model import Config
from engine.host.procfs import TaskReader
from engine.postgres import pgstat
from engine.postgres.activity import Activity
from engine.postgres.pgstat import MonitorError
from engine.postgres.server import DATABASE, Server
from workloads.counter_page import Page
from workloads.pgbench import command, summary
from workloads.pgbench.log import parse
from workloads.pgbench.log_counts import Counting
from workloads.pgbench.options import Options
from workloads.pgbench.program import APPLICATION, Pgbench
from workloads.pgbench.scripts import Script

GOAL = 0.98  # throughput of a watched one to that of a bare one
SLICE_S, READ_S, ASK_S = 0.04, 0.02, 0.25
LOG_EVERY = 16
SETTINGS = (("shared_buffers", "256MB"), ("fsync", "off"), ("max_connections", "60"), ("autovacuum", "off"))
WAYS = ("bare", "watched", "bare again")
BACKENDS = "SELECT pid FROM pg_stat_activity WHERE application_name = %s AND backend_type = 'client backend'"


@dataclass
class Runner:
    """A pgbench that is stopped, and what its processes have used so far."""

    pgbench: Pgbench
    clients: int
    backends: list[TaskReader] = field(default_factory=list)
    counting: Counting | None = None
    _first: tuple[int, int] = (0, 0)

    def begin(self) -> None:
        self.own = TaskReader(self.pgbench.pid)
        self._first = self._used()

    def turn(self, activity: Activity, asked_s: float) -> float:
        """Lets it run for a slice; returns when the server was last asked for ages."""
        self.pgbench.send(signal.SIGCONT)
        until_s = time.monotonic() + SLICE_S
        while (left_s := until_s - time.monotonic()) > 0:
            time.sleep(min(left_s, READ_S) if self.counting else left_s)
            if self.counting:
                for text in (text for thread in self.pgbench.lines() for text in thread):
                    line = parse(text, lag=False, retries=False)
                    if line is not None:
                        self.counting.take(line)
                if time.monotonic() - asked_s > ASK_S:
                    asked_s = time.monotonic()
                    with suppress(MonitorError):
                        activity.sample()
        self.pgbench.send(signal.SIGSTOP)
        return asked_s

    def finish(self) -> tuple[float, float, float]:
        """Ends it: (transactions, CPU us of pgbench for each, CPU us of the backends for each)."""
        last = self._used()
        self.pgbench.send(signal.SIGALRM)
        self.pgbench.send(signal.SIGCONT)
        while not self.pgbench.has_ended(10):
            self.pgbench.lines()
        done = summary.parse(self.pgbench.output)["processed"]
        own, backends = (after - before for before, after in zip(self._first, last, strict=True))
        return done, own / done / 1000, backends / done / 1000

    def _used(self) -> tuple[int, int]:
        tasks = [reader.read() for reader in (self.own, *self.backends)]
        cpu_ns = [task.cpu_ns if task else 0 for task in tasks]
        return cpu_ns[0], sum(cpu_ns[1:])


def start(way: str, clients: int, server: Server, folder: Path, opened: ExitStack) -> Runner:
    """A pgbench with its clients connected, stopped."""
    argv = command.run(
        os.environ["PGBED_PGBENCH"],
        18,
        Options(),
        [Script("select-only")],
        str(folder),
        clients=clients,
        dsn=server.dsn(),
        seed=1,
    )
    watched = way == "watched"
    if watched:
        argv[1:1] = ["--log", f"--log-prefix={folder / 'log'}", f"--sampling-rate={1 / LOG_EVERY}"]
    with psycopg.connect(server.dsn(), autocommit=True) as connection:

        def backends() -> set[int]:
            return {pid for (pid,) in connection.execute(BACKENDS, (APPLICATION,))}

        known = backends()
        runner = Runner(opened.enter_context(Pgbench(argv, folder, threads=int(watched))), clients)
        time.sleep(1)  # its first connection has gone by then
        while len(found := backends() - known) != clients:
            time.sleep(0.05)
        runner.pgbench.send(signal.SIGSTOP)
        runner.backends = [opened.enter_context(TaskReader(pid)) for pid in sorted(found)]
    if watched:
        page = Page.create(clients)
        opened.callback(page.close)
        runner.counting = Counting(page, LOG_EVERY, time.time_ns() - time.monotonic_ns(), False, 0.0, began_ns=1)
    return runner


def one_round(clients: int, seconds: float, server: Server, folder: Path) -> dict[str, tuple[float, float, float]]:
    """All ways in turns, each for so many seconds."""
    with ExitStack() as opened:
        runners = {way: start(way, clients, server, folder, opened) for way in random.sample(WAYS, len(WAYS))}
        activity = Activity(opened.enter_context(pgstat.Monitor(server.dsn(DATABASE))))
        for runner in runners.values():
            runner.begin()
        asked_s = 0.0
        for _ in range(round(seconds / SLICE_S)):
            for way in random.sample(WAYS, len(WAYS)):
                asked_s = runners[way].turn(activity, asked_s)
        return {way: runner.finish() for way, runner in runners.items()}


def interval(logs: Sequence[float]) -> tuple[float, float, float]:
    """The geometric mean of ratios, and its 95 % bounds, from their logarithms."""
    half = float(student.ppf(0.975, len(logs) - 1)) * stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.inf
    return math.exp(mean(logs)), math.exp(mean(logs) - half), math.exp(mean(logs) + half)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--server", default="16.3-prebuilt")
    arguments.add_argument("--seconds", type=float, default=3)
    arguments.add_argument("--rounds", type=int, default=5)
    options = arguments.parse_args()
    build = resolve.local_build(options.server, Path(os.environ["PGBED_SERVERS"]) / options.server)
    folder = Path(tempfile.mkdtemp(prefix="pgbed-cost-", dir="/tmp"))
    folder.chmod(0o777)
    good = True
    try:
        with Server(build, Config("cost", SETTINGS, "test"), folder / "cell") as server:
            server.create_database()
            with Pgbench(command.initialize(os.environ["PGBED_PGBENCH"], Options(), server.dsn()), folder, 0) as made:
                while not made.has_ended(100):
                    pass
            print(f"{'clients':>7} {'way':10} {'tps ratio':>24} {'pgbench CPU ratio':>24} {'all CPU ratio':>24}")
            for clients in (1, 8):
                rounds = [one_round(clients, options.seconds, server, folder) for _ in range(options.rounds)]
                for way in WAYS[1:]:
                    tps = interval([math.log(each[way][0] / each["bare"][0]) for each in rounds])
                    own = interval([math.log(each[way][1] / each["bare"][1]) for each in rounds])
                    both = interval([math.log(sum(each[way][1:]) / sum(each["bare"][1:])) for each in rounds])
                    texts = (f"{ratio:.3f} [{low:.3f}, {high:.3f}]" for ratio, low, high in (tps, own, both))
                    print(f"{clients:7} {way:10}", *(f"{text:>24}" for text in texts), flush=True)
                    good = good and (way != "watched" or tps[2] >= GOAL)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("load average at the end:", *(f"{load:.1f}" for load in os.getloadavg()), "on", os.cpu_count(), "CPUs")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

"""What the OLTP tests' clients cost: CPU per event, their share of all CPU, against pgbench with the same statement.

    PGBED_SERVERS=... PGBED_PGBENCH=... python -m tests.perf.oltp_cost [--server LABEL] [--seconds S] [--rounds N]

One client at a time against one server, in turns: ours, pgbench's, with a script, and a bare one, a loop in C that
sends messages made before and waits for the answers (bare_client.c): no client can do less. Each is left to the
scheduler ("free") or bound to one CPU with its backend ("paired"). CPU time is read from the kernel over the same
stretch of time for client and backend. pgbench prepares its statements, but for the list of 1000: it allows 255
parameters. Figures of different runs or machines do not compare; shares and ratios do.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import mmap
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Literal

import numpy as np
import psycopg

from engine.builds import resolve
from engine.core.model import Config
from engine.postgres.server import Server
from tests.support.oltprun import run_step, running, steps
from tests.support.steprun import cpu_s
from workloads.connection import open_connection
from workloads.counter_page import Word
from workloads.oltp.catalog import BY_NAME
from workloads.oltp.messages import Draw, events, name_of
from workloads.oltp.options import Options
from workloads.pgbench import summary

# How much larger our share of the CPU time may be than the bare client's, both bound to the server's CPU.
GOAL = {"point-query": 0.1}
TESTS = ("point-query", "random-points.100", "random-points.1000", "update-nonindex", "read-only.10")
PGBENCH = {"point-query": "prepared", "random-points.100": "prepared", "random-points.1000": "simple"}
SETTINGS = (("shared_buffers", "512MB"), ("max_wal_size", "4GB"), ("synchronous_commit", "off"), ("autovacuum", "off"))
SETTLED_S = 0.5
PER_CALL = 32  # messages of the bare client, which divides those of a block
FIND = "SELECT pid FROM pg_stat_activity WHERE application_name = 'pgbench' AND backend_type = 'client backend'"
Placement = Literal["free", "paired"]


@dataclass(frozen=True, slots=True)
class Cost:
    per_s: float
    client_us: float
    server_us: float

    @property
    def share(self) -> float:
        return self.client_us / (self.client_us + self.server_us)


def over(seconds: float, client: int, backend: int, count: Callable[[], float]) -> Cost:
    """The CPU time of two processes over a stretch of time, and what was done in it."""
    before = cpu_s(client), cpu_s(backend), count(), time.monotonic()
    time.sleep(seconds)
    after = cpu_s(client), cpu_s(backend), count(), time.monotonic()
    spent = [late - early for early, late in zip(before, after, strict=True)]
    return Cost(spent[2] / spent[3], spent[0] / spent[2] * 1e6, spent[1] / spent[2] * 1e6)


def ours(server: Server, test: str, seconds: float, rows: int, placement: Placement) -> Cost:
    options = Options(rows=rows, seconds=int(seconds) + 60, placement=placement)
    with running(server.dsn(), steps(options)[test], options) as run:
        run.start()
        time.sleep(SETTLED_S)
        client, backend = (run.word(1, "query", word) for word in (Word.CLIENT_PID, Word.BACKEND_PID))
        return over(seconds, client, backend, lambda: run.word(1, "query", Word.STATEMENTS))


def script(test: str, rows: int) -> str:
    """The test's event for pgbench."""
    (statement,) = BY_NAME[test].event
    sql = statement.of(1)
    count = statement.values[0].count
    draws = [f"\\set id{number} random(1, {rows})" for number in range(1, count + 1)]
    for number in range(count, 0, -1):
        sql = sql.replace(f"${number}", f":id{number}")
    return "\n".join([*draws, f"{sql};", ""])


def pgbench(server: Server, test: str, seconds: float, rows: int, placement: Placement) -> Cost:
    program = os.environ["PGBED_PGBENCH"]
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file, psycopg.connect(server.dsn()) as watching:
        file.write(script(test, rows))
        file.flush()
        command = [program, "-n", "-M", PGBENCH[test], "-T", str(round(seconds + 2 * SETTLED_S)), "-f", file.name]
        with subprocess.Popen([*command, server.dsn()], stdout=subprocess.PIPE, text=True) as process:
            time.sleep(SETTLED_S / 2)
            ((backend,),) = watching.execute(FIND).fetchall()
            if placement == "paired":
                for pid in (process.pid, backend):
                    os.sched_setaffinity(pid, {max(os.sched_getaffinity(0))})
            time.sleep(SETTLED_S / 2)
            cost = over(seconds, process.pid, backend, time.monotonic)
            tps = summary.parse(process.communicate()[0])["tps"]  # of the whole time, of which this is most
            return Cost(tps, cost.client_us / tps, cost.server_us / tps)


@cache
def bare_client() -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "bare_client.so"
        source = Path(__file__).with_name("bare_client.c")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
        return ctypes.CDLL(str(library))


def bare(server: Server, test: str, seconds: float, rows: int, placement: Placement) -> Cost:
    loop = bare_client().exchange
    (statement,) = BY_NAME[test].event
    block = [message for (message,) in next(events(Draw(np.random.default_rng(1), 1, rows), (statement,)))]
    size = len(block[0])
    calls = [b"".join(block[first : first + PER_CALL]) for first in range(0, len(block), PER_CALL)]
    shared = mmap.mmap(-1, 16)  # answers, and the backend's process id
    words = memoryview(shared).cast("q")
    child = os.fork()
    if not child:
        connection = open_connection(server.dsn())
        connection.prepare(name_of(0, 1).encode(), statement.of(1).encode())
        os.set_blocking(connection.socket, True)
        words[1] = connection.backend_pid
        for messages in itertools.cycle(calls):
            if loop(connection.socket, messages, ctypes.c_long(PER_CALL), ctypes.c_long(size)):
                os._exit(1)
            words[0] += PER_CALL
    try:
        while not words[0]:
            time.sleep(0.01)
        if placement == "paired":
            for pid in (child, words[1]):
                os.sched_setaffinity(pid, {max(os.sched_getaffinity(0))})
        time.sleep(SETTLED_S)
        return over(seconds, child, words[1], lambda: words[0])
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


Way = Callable[[Server, str, float, int, Placement], Cost]
WAYS: dict[str, Way] = {"ours": ours, "pgbench": pgbench, "bare": bare}


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--server", default="16.3-prebuilt")
    arguments.add_argument("--rows", type=int, default=400_000)
    arguments.add_argument("--seconds", type=float, default=2)
    arguments.add_argument("--rounds", type=int, default=3)
    options = arguments.parse_args()
    build = resolve.local_build(options.server, Path(os.environ["PGBED_SERVERS"]) / options.server)
    folder = Path(tempfile.mkdtemp(prefix="pgbed-cost-", dir="/tmp"))
    folder.chmod(0o755)
    costs: dict[tuple[str, str], list[Cost]] = defaultdict(list)
    try:
        with Server(build, Config("cost", SETTINGS, "built in"), folder) as server:
            server.create_database()
            plan = Options(rows=options.rows)
            run_step(server.dsn(), steps(plan)["load"], plan)
            with psycopg.connect(server.dsn(), autocommit=True) as connection:
                connection.execute("VACUUM (ANALYZE) sbtest1")
            for _ in range(options.rounds):
                for test in TESTS:
                    for way, measure in WAYS.items():
                        for placement in ("free", "paired"):
                            if way == "ours" or test in PGBENCH:  # a single statement
                                cost = measure(server, test, options.seconds, options.rows, placement)
                                costs[test, f"{way} {placement}"].append(cost)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if report(costs) else 1


def report(costs: dict[tuple[str, str], list[Cost]]) -> bool:
    good = True
    print(f"{'test':20} {'client':16} {'events/s':>9} {'ratio':>6} {'client us':>9} {'server us':>9} {'share':>6}")
    for (test, way), found in costs.items():
        usual = costs[test, "ours free"]
        ratio = median(one.per_s / other.per_s for one, other in zip(found, usual, strict=True))
        per_s, client, server = (
            median(getattr(one, name) for one in found) for name in ("per_s", "client_us", "server_us")
        )
        share = median(one.share for one in found)
        print(f"{test:20} {way:16} {per_s:9,.0f} {ratio:6.3f} {client:9.1f} {server:9.1f} {share:6.1%}", end="")
        if way == "ours paired" and test in GOAL:
            most = median(one.share for one in costs[test, "bare paired"]) + GOAL[test]
            good = good and share <= most
            print(f"  {'reached' if share <= most else 'MISSED'} (at most {most:.0%})", end="")
        print()
    print("load average at the end:", *(f"{load:.1f}" for load in os.getloadavg()), "on", os.cpu_count(), "CPUs")
    return good


if __name__ == "__main__":
    sys.exit(main())

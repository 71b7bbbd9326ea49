"""What the clients cost: CPU per row and per query, their share of all CPU, and throughput against a plain loop.

    PGBED_SERVERS=... python -m tests.perf.client_cost [--server 16.3-prebuilt] [--rows N] [--seconds S] [--rounds N]

Everything is measured in one run against one server: each step is run by the bench's clients with either placement
("free", the default, leaves it to the scheduler; "paired" binds each role to its backend's CPU) and by ordinary psycopg
connections that execute the same statements ("plain"), in turns. Numbers of different runs or machines do not compare;
the ratios do.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from multiprocessing.synchronize import Semaphore
from pathlib import Path
from statistics import median
from typing import Literal

import psycopg

from engine.builds import resolve
from engine.host import environment
from engine.host.procfs import children
from engine.postgres import configs
from engine.postgres.server import Server
from tests.support.steprun import cpu_s, run_step
from workloads import seeds
from workloads.counter_page import Word
from workloads.insert import ddl, maintenance, queries, row_values
from workloads.insert.options import Options
from workloads.insert.steps import Step, generation, plan_steps

FORM = generation("g24b")
TARGETS = {"l.i0": (0.8, 0.15), "qr100": (10.0, 0.30)}  # client CPU us per row or query; share of all CPU
SETTINGS = ("shared_buffers=1GB", "max_wal_size=8GB", "autovacuum=off")


@dataclass
class Cost:
    """Sums over the repeats of a step."""

    operations: float = 0
    seconds: float = 0
    client_cpu_s: float = 0
    server_cpu_s: float = 0

    def add(self, operations: float, seconds: float, client_cpu_s: float, server_cpu_s: float) -> None:
        self.operations += operations
        self.seconds += seconds
        self.client_cpu_s += client_cpu_s
        self.server_cpu_s += server_cpu_s

    @property
    def per_s(self) -> float:
        return self.operations / self.seconds

    @property
    def client_us(self) -> float:
        return self.client_cpu_s / self.operations * 1e6

    @property
    def share(self) -> float:
        return self.client_cpu_s / (self.client_cpu_s + self.server_cpu_s)


def server_cpu(server: Server) -> dict[int, float]:
    """CPU seconds of every process of the server."""
    return {pid: cpu_s(pid) for pid in (server.pid, *children(server.pid))}


def since(before: dict[int, float], after: dict[int, float]) -> float:
    """CPU seconds spent between; processes that are gone by `after` are not in it."""
    return sum(spent - before.get(pid, 0.0) for pid, spent in after.items())


# -- the bench's clients


def bench(server: Server, step: Step, cost: Cost, placement: Literal["free", "paired"], role: str) -> None:
    """One step by the launcher. Client CPU is that of all roles of the step, their start included."""
    before = server_cpu(server)
    result = run_step(server.dsn(), step, FORM.name, options=Options(placement=placement))
    background = since(before, {p: c for p, c in server_cpu(server).items() if p in before})
    if result.exit_code:
        sys.exit(f"{step.name}: {[found.error for found in result.roles.values()]}")
    main = result[1, role]
    operations = main[Word.ROWS] if role == "insert" else main[Word.STATEMENTS]
    cost.add(
        operations,
        (main[Word.ENDED_NS] - main[Word.STARTED_NS]) / 1e9,
        # In the query steps the streams beside the queries are the step's load, not the query client's cost.
        sum(found.client_cpu_s for name, found in result.roles.items() if role == "insert" or name.name == role),
        background
        + sum(found.backend_cpu_s for name, found in result.roles.items() if role == "insert" or name.name == role),
    )


# -- plain loops


def plain_insert(
    dsn: str, table: str, step: Step, go: Semaphore | None, other: Semaphore | None, spent: multiprocessing.Queue[float]
) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        block = row_values.RowBlock(
            seeds.stream(1, "plain", step.name), TEXT, FORM.price_type, row_values.block_rows(step.rows_per_statement)
        )
        statement = row_values.insert_statements(block, step.rows_per_statement, ddl.insert_head(table).encode())
        for _ in range(step.rounds):
            if go and other:
                go.acquire()
            connection.execute(statement())
            if go and other:
                other.release()
        spent.put(cpu_s(connection.info.backend_pid))


def plain_delete(
    dsn: str, table: str, step: Step, go: Semaphore, other: Semaphore, spent: multiprocessing.Queue[float]
) -> None:
    template = ddl.delete_template(FORM.delete_form, table, step.rows_per_statement)
    with psycopg.connect(dsn, autocommit=True) as connection:
        (low,) = connection.execute(ddl.min_key(table)).fetchone() or (0,)
        for number in range(step.rounds):
            go.acquire()
            connection.execute((template % {"lo": low + number * step.rows_per_statement}).encode())
            other.release()
        spent.put(cpu_s(connection.info.backend_pid))


def plain_query(
    dsn: str, table: str, step: Step, seconds: float, done: multiprocessing.Queue[tuple[int, float, float]]
) -> None:
    generator = seeds.stream(1, "plain", step.name)
    with psycopg.connect(dsn, autocommit=True) as connection:
        count = 0
        if step.query == "range":
            for text in queries.range_prepares(FORM, table, "prepared"):
                connection.execute(text.encode())
            draw = queries.range_blocks(FORM, table, "prepared", generator)
        else:
            for text in queries.point_prepares(table, "prepared", 0):
                connection.execute(text.encode())
            ((low, high),) = connection.execute(
                f"SELECT min(transactionid), max(transactionid) FROM {table}".encode()
            ).fetchall()
            point = queries.point_statements(table, "prepared", generator)

            def draw() -> list[bytes]:
                return [point(low, high) for _ in range(100)]

        began, cpu = time.monotonic(), time.process_time()
        backend = connection.info.backend_pid
        backend_cpu = cpu_s(backend)
        while time.monotonic() < began + seconds:
            for statement in draw():
                connection.execute(statement).fetchall()
                count += 1
        done.put((count, time.process_time() - cpu, cpu_s(backend) - backend_cpu))


def plain(server: Server, step: Step, cost: Cost, role: str, seconds: float) -> None:
    """One step by ordinary connections: the same statements, the same processes, no counters."""
    dsn, table = server.dsn(), "pi2"
    with psycopg.connect(dsn, autocommit=True) as connection:
        if step.kind == "load":
            for text in ddl.create_table(FORM, table):
                connection.execute(text.encode())
        elif step.kind == "index":
            for text in ddl.create_indexes(FORM, table):
                connection.execute(text.encode())
            return
    if role == "query":
        done: multiprocessing.Queue[tuple[int, float, float]] = multiprocessing.Queue()
        worker = multiprocessing.Process(target=plain_query, args=(dsn, table, step, seconds, done))
        worker.start()
        count, client, backend = done.get()
        worker.join()
        cost.add(count, seconds, client, backend)
        return
    workers = []
    backends: multiprocessing.Queue[float] = multiprocessing.Queue()
    began, before, used = time.monotonic(), server_cpu(server), os.times()
    if step.deletes:
        inserted, deleted = multiprocessing.Semaphore(0), multiprocessing.Semaphore(8)
        workers.append(
            multiprocessing.Process(target=plain_insert, args=(dsn, table, step, deleted, inserted, backends))
        )
        workers.append(
            multiprocessing.Process(target=plain_delete, args=(dsn, table, step, inserted, deleted, backends))
        )
    else:
        workers.append(multiprocessing.Process(target=plain_insert, args=(dsn, table, step, None, None, backends)))
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        if worker.exitcode:
            sys.exit("a plain loop failed")
    spent = os.times()
    client = spent.children_user + spent.children_system - used.children_user - used.children_system
    seconds = time.monotonic() - began
    others = since(before, {pid: cpu for pid, cpu in server_cpu(server).items() if pid in before})
    cost.add(step.rows, seconds, client, others + sum(backends.get() for _ in workers))


# -- the comparison


Costs = dict[str, dict[str, list[Cost]]]  # step, way, repeat


def measure(server: Server, steps: tuple[Step, ...], repeats: int, seconds: float) -> Costs:
    """Every step in every way, so many times, each time in another order."""
    costs: Costs = defaultdict(lambda: defaultdict(list))
    for repeat in range(repeats):
        for step in steps:
            if step.kind == "pause":
                with psycopg.connect(server.dsn(), autocommit=True) as connection:
                    for table in ("pi1", "pi2"):
                        connection.execute(maintenance.vacuum_statement(FORM, table, server.build.major).encode())
                continue
            role = "query" if step.query else "insert"
            ways: list[Literal["plain", "free", "paired"]] = ["plain", "free", "paired"]
            if step.kind == "index":
                ways = ["plain", "free"]  # the indexes can be made but once
            for way in ways[repeat % len(ways) :] + ways[: repeat % len(ways)]:
                cost = Cost()
                if way == "plain":
                    plain(server, step, cost, role, seconds)
                else:
                    bench(server, step, cost, way, role)
                costs[step.name][way].append(cost)
    return costs


def report(costs: Costs) -> bool:
    """Prints the table; throughput to plain is the median of the repeats' ratios. True when all is reached."""
    print(f"{'step':8} {'way':6} {'per s':>10} {'to plain':>9} {'client us':>10} {'share':>7}")
    good = True  # of the default
    for step, ways in costs.items():
        if step == "l.x":
            continue
        for way, repeats in ways.items():
            total = Cost()
            for cost in repeats:
                total.add(cost.operations, cost.seconds, cost.client_cpu_s, cost.server_cpu_s)
            ratio = median(cost.per_s / other.per_s for cost, other in zip(repeats, ways["plain"], strict=True))
            line = f"{step:8} {way:6} {total.per_s:10.0f} {ratio:9.3f} {total.client_us:10.2f} {total.share:7.1%}"
            if way != "plain":
                cpu_us, share = TARGETS.get(step, (float("inf"), 1.0))
                reached = total.client_us <= cpu_us and total.share <= share and ratio >= 1
                good = good and (reached or way == "paired")
                limits = f" (at most {cpu_us} us, {share:.0%})" if step in TARGETS else ""
                line += f"  {'reached' if reached else 'MISSED'}{limits}"
            print(line)
    print("load average at the end:", *(f"{load:.1f}" for load in os.getloadavg()), "on", os.cpu_count(), "CPUs")
    return good


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--server", default="16.3-prebuilt")
    arguments.add_argument("--rows", type=int, default=200_000)
    arguments.add_argument("--seconds", type=float, default=3)
    arguments.add_argument("--rounds", type=int, default=3)
    options = arguments.parse_args()
    build = resolve.local_build(options.server, Path(os.environ["PGBED_SERVERS"]) / options.server)
    (spec,) = configs.resolve(["cx9a2_c8r32"])
    config = configs.apply(spec, build, environment.machine(Path("/tmp")), configs.overrides(SETTINGS))
    steps = plan_steps(
        FORM.name,
        options.rows,
        selected=("l.i1", "l.i2", "pause", "qr100", "qp100"),
        rows_written=options.rows // 4,
        query_seconds=options.seconds,
    )
    folder = Path(tempfile.mkdtemp(prefix="pgbed-cost-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        with Server(build, config, folder) as server:
            server.create_database()
            return 0 if report(measure(server, steps, options.rounds, options.seconds)) else 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


TEXT = row_values.text_buffer(seeds.stream(1, "text"))

if __name__ == "__main__":
    sys.exit(main())

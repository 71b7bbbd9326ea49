"""What counting events costs a server: the same client with events counted, and without, in turns.

    PGBED_SERVERS=... python -m tests.perf.counters_cost [--server 16.3-prebuilt] [--blocks N] [--turn S]

One client selects rows by their key, as fast as it can: statements so short that switches between processes, at which
counting costs, are a large part of the work. Events of all of the server's processes are counted for every second turn,
in blocks ABBA, as `bench run --counters` counts them for a step; on a machine without a PMU, perf counts the kernel's
events alone. Printed are the ratios of counted to not, of the rate and of the backend's
CPU time per operation, with 95 % intervals from the blocks; the promise is at most 1 % of either.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import psycopg

from engine.analysis.statistics import paired_interval
from engine.builds import resolve
from engine.core.model import Config
from engine.host import perf
from engine.host.procfs import TaskReader
from engine.observe.step_counters import StepCounters, server_roles
from engine.postgres.server import Server

SETTINGS = (("shared_buffers", "64MB"), ("fsync", "off"), ("autovacuum", "off"))
MOST = 0.01  # more CPU per operation, and less of the rate
COUNTED = (False, True, True, False)
ROWS = 100_000
WARM_S = 3.0
TABLE = (
    f"CREATE TABLE one (id int PRIMARY KEY, value int); INSERT INTO one SELECT i, i FROM generate_series(1, {ROWS}) i"
)
QUERY = "SELECT value FROM one WHERE id = %s"


class Turn(NamedTuple):
    """What was done in a turn, how long it was, and the backend's CPU time."""

    ops: int
    ns: int
    cpu_ns: int


def turn(connection: psycopg.Connection[tuple[object, ...]], backend: TaskReader, seconds: float) -> Turn:
    """Selects for so long."""
    first, began_ns, ops = backend.read(), time.perf_counter_ns(), 0
    while time.perf_counter_ns() - began_ns < seconds * 1e9:
        connection.execute(QUERY, (ops * 7919 % ROWS + 1,), prepare=True)
        ops += 1
    ns, last = time.perf_counter_ns() - began_ns, backend.read()
    if first is None or last is None:
        sys.exit("the backend has ended")
    return Turn(ops, ns, last.cpu_ns - first.cpu_ns)


def measured(server: Server, program: str, blocks: int, seconds: float) -> list[list[Turn]]:
    """The turns of each block."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(TABLE)
        backend = TaskReader(connection.info.backend_pid, io=False)
        turn(connection, backend, WARM_S)
        found = []
        for _ in range(blocks):
            turns = []
            for counted in COUNTED:
                if not counted:
                    turns.append(turn(connection, backend, seconds))
                    continue
                counters = StepCounters(program, lambda: server_roles(server.pid, {}, 0))
                counters.start()
                turns.append(turn(connection, backend, seconds))
                counters.finish()
                counters.close()
                if not counters.counted.roles:
                    sys.exit(counters.counted.note)
            found.append(turns)
        backend.close()
    return found


def ratios(blocks: Sequence[Sequence[Turn]]) -> tuple[list[float], list[float]]:
    """Of each block counted to not counted: of the rate, and of the CPU time per operation."""
    rates, costs = [], []
    for block in blocks:
        bare, watched = (
            Turn(
                *map(sum, zip(*(each for each, own in zip(block, COUNTED, strict=True) if own == counted), strict=True))
            )
            for counted in (False, True)
        )
        rates.append(watched.ops / watched.ns * bare.ns / bare.ops)
        costs.append(watched.cpu_ns / watched.ops * bare.ops / bare.cpu_ns)
    return rates, costs


def main() -> int:
    """Reads the options, measures, and prints the ratios; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="16.3-prebuilt")
    parser.add_argument("--blocks", type=int, default=60)
    parser.add_argument("--turn", type=float, default=0.2, help="seconds")
    options = parser.parse_args()
    if "PGBED_SERVERS" not in os.environ:
        sys.exit("PGBED_SERVERS is not set: it names a folder of LABEL -> PostgreSQL install")
    program = perf.find()
    build = resolve.local_build(options.server, Path(os.environ["PGBED_SERVERS"]) / options.server)
    with tempfile.TemporaryDirectory(prefix="pgbed-counters-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        with Server(build, Config("cost", SETTINGS, "tests.perf"), Path(folder)) as server:
            server.create_database()
            blocks = measured(server, program, options.blocks, options.turn)
    ops = sum(each.ops for block in blocks for each in block)
    print(f"{options.server}, {len(blocks)} blocks of 4 x {options.turn:g} s, {ops} selects; counted, to not:")
    rate, cost = map(paired_interval, ratios(blocks))
    for name, found in (("rate", rate), ("the backend's CPU per operation", cost)):
        bounds = "" if found.low is None else f" [{found.low:.4f}-{found.high:.4f}]"
        print(f"  {found.ratio:.4f}{bounds}  {name}")
    reached = cost.ratio <= 1 + MOST and rate.ratio >= 1 - MOST
    print("reached" if reached else "MISSED", f"(at most {MOST:.0%} of either)")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())

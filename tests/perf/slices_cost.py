"""What driving in slices costs: the clients, the conductor, and time. Ratios of one run, on this machine as it is.

    PGBED_SERVERS=... python -m tests.perf.slices_cost [BUILD] [--seconds 60] [--slice-ms 50]

The same build twice, driven in slices by the conductor, its clients those of the query step qr1000 (with inserts and
deletes at 1000 rows/s). Printed are

- the part of each role's CPU per statement that goes to the gate and the active clock. What one look at the gate, one
  wait at it, and one reading of the active clock beyond the plain one cost is measured in a process of its own, with
  the code that clients run, in turns with the same loop without it. How often they happen a statement is counted: a
  wait for each slice, readings by clients that count them, in some seconds before (counted_readings.py). The streams of
  inserts and deletes send few statements and are woken by each slice: theirs is a cost of slices, shown in the sum;
- the conductor's CPU per second of the clock;
- the part of the time of the clock in which one of the servers was active.

Exit code 1 when a query costs 1 % more or above, the conductor 2 % of a CPU, or less than 95 % of the time is active.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from engine.builds import resolve
from engine.postgres.server import Server
from engine.slices.block_order import SliceSeed
from tests.perf.counted_readings import readings
from tests.support.interleaved_servers import InterleavedServers, interleaved, query_step, servers_up
from tests.support.steprun import cpu_s
from workloads import client_gate
from workloads.counter_page import Control, Page, Word
from workloads.process import active, await_slice, clock

SIDES = (0, 1)
ROLES = ("query", "insert", "delete")
STEP = "qr1000"
MOST_OF_A_QUERY, MOST_OF_A_CPU, LEAST_ACTIVE = 0.01, 0.02, 0.95
LOOPS, TURNS, WAITS = 20_000, 25, 2000
SETTLING_S, COUNTED_S = 2.0, 5.0
COUNTED = "tests.perf.counted_readings"
GATE = int(Control.GATE)


@dataclass(frozen=True)
class State:
    """Sums over both servers at a moment, or between two."""

    clock_s: float
    conductor_s: float
    slices: float
    active_s: float
    client_s: dict[str, float]  # by role
    statements: dict[str, float]

    @classmethod
    def of(cls, duet: InterleavedServers) -> State:
        duet.look()
        pages = [duet.page(side) for side in SIDES]
        now_ns = time.monotonic_ns()
        return cls(
            now_ns / 1e9,
            cpu_s(duet.conductor.process.pid),
            len(duet.slices),
            sum(client_gate.active_ns(page, now_ns) for page in pages) / 1e9,
            {role: sum(cpu_s(duet.client(side, role)) for side in SIDES) for role in ROLES},
            {
                role: sum(page.word(duet.slot(0, role), Word.STATEMENTS) for page in pages)
                for role in ROLES
            },
        )  # fmt: skip

    def since(self, before: State) -> State:
        """The difference."""
        return State(
            self.clock_s - before.clock_s,
            self.conductor_s - before.conductor_s,
            self.slices - before.slices,
            self.active_s - before.active_s,
            {role: self.client_s[role] - before.client_s[role] for role in ROLES},
            {role: self.statements[role] - before.statements[role] for role in ROLES},
        )


def cost_ns(with_it: Callable[[], object], without: Callable[[], object]) -> float:
    """CPU time of one thing beyond another, each done LOOPS times a call: the median of turns."""

    def took_ns(what: Callable[[], object]) -> int:
        began_ns = time.thread_time_ns()
        what()
        return time.thread_time_ns() - began_ns

    return median(took_ns(with_it) - took_ns(without) for _ in range(TURNS)) / LOOPS


def look_ns() -> float:
    """One look at a gate that is open, as before each statement (see `workloads.insert.roles`)."""
    page = Page.create(1)
    words, in_flight = page.words, page.slot(0) + Word.IN_FLIGHT_NS

    def looking() -> None:
        for _ in range(LOOPS):
            words[in_flight] = began_ns = clock()
            if not words[GATE]:
                began_ns = await_slice(page, 0)
        assert began_ns

    def not_looking() -> None:
        for _ in range(LOOPS):
            words[in_flight] = began_ns = clock()
        assert began_ns

    return cost_ns(looking, not_looking)


def reading_ns() -> float:
    """One reading of the active clock, beyond one of the plain clock."""
    page = Page.create(1)

    def reading() -> None:
        for _ in range(LOOPS):
            active(page)

    def plain() -> None:
        for _ in range(LOOPS):
            clock()

    return cost_ns(reading, plain)


def wait_ns() -> float:
    """One wait at the gate, by a process that does nothing else: from finding it shut to going on."""
    page, (reader, writer) = Page.create(1), os.pipe()
    in_flight = page.slot(0) + Word.IN_FLIGHT_NS
    client_gate.shut(page)
    child = os.fork()
    if child == 0:
        try:
            began_ns = time.thread_time_ns()
            for _ in range(WAITS):
                await_slice(page, 0)
                page.words[GATE] = 0
            os.write(writer, str(time.thread_time_ns() - began_ns).encode())
        finally:
            os._exit(0)
    os.close(writer)
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        time.sleep(0.0005)  # asleep by now, as clients are for the other server's slice
        if not page.words[GATE] and not page.words[in_flight]:
            client_gate.open_now(page)
    return int(os.read(reader, 64)) / WAITS


def readings_per_statement(servers: Sequence[Server], asked: argparse.Namespace) -> dict[str, float]:
    """How often each role reads the active clock for a statement, driven in slices like the others."""
    seed = SliceSeed(asked.seed, 1, "readings")
    with interleaved(servers, query_step(asked.rows, STEP), asked.slice_ms, seed, COUNTED) as duet:
        duet.drive(COUNTED_S)
        page = duet.page(0)
        return {
            role: readings(page, duet.client(0, role)) / page.word(duet.slot(0, role), Word.STATEMENTS)
            for role in ROLES
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("build", nargs="?", default="16.3-prebuilt")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--slice-ms", type=float, default=20.0)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    build = resolve.local_build(asked.build, Path(os.environ["PGBED_SERVERS"]) / asked.build)
    look, reading, wait = look_ns(), reading_ns(), wait_ns()
    with servers_up([build, build], asked.rows) as servers:
        counted = readings_per_statement(servers, asked)
        with interleaved(
            servers, query_step(asked.rows, STEP), asked.slice_ms, SliceSeed(asked.seed, 1, "cost")
        ) as duet:
            duet.drive(SETTLING_S)
            before = State.of(duet)
            duet.drive(asked.seconds)
            spent = State.of(duet).since(before)
    print(f"a look {look:.0f} ns, a wait {wait / 1000:.1f} us, the active clock {reading:.0f} ns beyond the plain one; "
          f"load {os.getloadavg()[0]:.1f}")  # fmt: skip
    gate_s = dict.fromkeys(ROLES, 0.0)
    for role, statements in spent.statements.items():
        gate_s[role] = ((look + reading * counted[role]) * statements + wait * spent.slices) / 1e9
        print(f"{role:<8}{spent.client_s[role] / statements * 1e6:>8.1f} us of CPU a statement, "
              f"{spent.slices / statements:.4f} waits, {counted[role]:.2f} readings: "
              f"gate and active clock {gate_s[role] / spent.client_s[role]:.2%}")  # fmt: skip
    print(f"all clients: gate and active clock {sum(gate_s.values()) / sum(spent.client_s.values()):.2%}")
    conductor, active_part = spent.conductor_s / spent.clock_s, spent.active_s / spent.clock_s
    print(f"conductor {conductor:.2%} of a CPU, {spent.conductor_s / spent.slices * 1e6:.0f} us a slice")
    print(f"active {active_part:.1%} of the time of the clock")
    wrong = {
        f"a query costs {MOST_OF_A_QUERY:.0%} or more": gate_s["query"] >= MOST_OF_A_QUERY * spent.client_s["query"],
        f"the conductor takes {MOST_OF_A_CPU:.0%} of a CPU or more": conductor >= MOST_OF_A_CPU,
        f"less than {LEAST_ACTIVE:.0%} of the time is active": active_part < LEAST_ACTIVE,
    }
    for what in (what for what, is_so in wrong.items() if is_so):
        print(what, file=sys.stderr)
    return 1 if any(wrong.values()) else 0


if __name__ == "__main__":
    sys.exit(main())

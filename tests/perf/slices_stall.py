"""Do totals show rare stalls of one server, and does `typical` leave them out? On this machine as it is.

    PGBED_SERVERS=... python -m tests.perf.slices_stall [BUILD] [--seconds 240] [--every 5] [--for-ms 100]

The same build twice, driven in slices by the conductor, its clients those of the query step qr100. By turns, in an
order that is drawn, nothing happens, or one server's backend is stopped (SIGSTOP) for 100 ms in each 5 s of its active
time, at a random moment of its own slices. What is between the two kinds of turns is the stalls: their truth is
ln(1 - stopped time / counted time), both measured, about -2 %.

Exit code 1 unless the ratio of totals holds the truth within its error and tells it from 0, and that of `typical` does
not tell it from 0.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from engine.analysis.slice_estimates import self_check, typical
from engine.analysis.slice_verdicts import PARTS
from engine.builds import resolve
from engine.results.comparison import RATE
from engine.results.slice_ratio import LogRatio
from engine.slices.block_order import SliceSeed
from tests.support.interleaved_servers import (
    Block,
    InterleavedServers,
    difference,
    interleaved,
    own_ratios_of,
    percent,
    query_step,
    ratio_of,
    servers_up,
    sides_of,
    whole_blocks,
)
from workloads import client_gate

STALLED = 1  # the side
RATE_PARTS = PARTS[RATE]
SETTLING_S = 3.0


class Turns:
    """Turns of one length in active time, with a stall in each or none."""

    def __init__(self, duet: InterleavedServers, every_s: float, for_s: float, chance: random.Random) -> None:
        self._duet, self._every_ns, self._for_s, self._chance = duet, every_s * 1e9, for_s, chance
        self.stalled_ns = 0  # of active time, in all

    def turn(self, stalling: bool) -> list[Block]:
        """One turn: the blocks that began in it."""
        duet = self._duet
        ready_ns, block = time.monotonic_ns(), duet.look()
        self._until(lambda: duet.look() > block + 1)
        began_ns = self._active_ns()
        if stalling:
            due_ns = began_ns + self._chance.uniform(0, self._every_ns)
            self._until(lambda: self._active_ns() >= due_ns)
            self._stall()
        self._until(lambda: self._active_ns() >= began_ns + self._every_ns)
        ended_ns, block = time.monotonic_ns(), duet.look()
        self._until(lambda: duet.look() > block + 1)
        return [block for block in whole_blocks(duet.slices) if ready_ns < block[0].opened_ns < ended_ns]

    def _stall(self) -> None:
        backend, began_ns = self._duet.backend(STALLED), self._active_ns()
        os.kill(backend, signal.SIGSTOP)
        try:
            time.sleep(self._for_s)
        finally:
            self.stalled_ns += self._active_ns() - began_ns
            os.kill(backend, signal.SIGCONT)

    def _active_ns(self) -> int:
        return client_gate.active_ns(self._duet.page(STALLED), time.monotonic_ns())

    @staticmethod
    def _until(holds: Callable[[], bool]) -> None:
        while not holds():
            time.sleep(0.002)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("build", nargs="?", default="16.3-prebuilt")
    parser.add_argument("--seconds", type=float, default=240.0, help="of the clock, in all")
    parser.add_argument("--every", type=float, default=5.0, help="seconds of active time")
    parser.add_argument("--for-ms", type=float, default=100.0)
    parser.add_argument("--slice-ms", type=float, default=20.0)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    build = resolve.local_build(asked.build, Path(os.environ["PGBED_SERVERS"]) / asked.build)
    chance, found = random.Random(asked.seed), {True: list[Block](), False: list[Block]()}
    with (
        servers_up([build, build], asked.rows) as servers,
        interleaved(servers, query_step(asked.rows), asked.slice_ms, SliceSeed(asked.seed, 1, "stall")) as duet,
    ):
        duet.drive(SETTLING_S)
        turns = Turns(duet, asked.every, asked.for_ms / 1000, chance)
        until_s = time.monotonic() + asked.seconds
        while time.monotonic() < until_s:
            for stalling in chance.sample([True, False], 2):
                found[stalling] += turns.turn(stalling)
    counted_ns = sum(each.counted_ns for block in found[True] for each in block if each.side == STALLED)
    truth = math.log1p(-turns.stalled_ns / counted_ns)
    check = self_check([own for blocks in found.values() for own in own_ratios_of(blocks, RATE_PARTS)])
    print(f"blocks with stalls {len(found[True])}, without {len(found[False])}; self-check f {check.f:.2f}; "
          f"load {os.getloadavg()[0]:.1f}")  # fmt: skip
    print(f"stopped for {turns.stalled_ns / counted_ns:.2%} of the active time: truth {percent(truth)}")
    totals = [ratio_of(found[turn], RATE_PARTS) for turn in (True, False)]
    trimmed = [typical(*sides_of(found[turn], RATE_PARTS)) for turn in (True, False)]
    means = [LogRatio(each.log_ratio, each.variance, 0) for each in trimmed if each]
    total, total_half = difference(totals[0], totals[1], check.inflation)
    middle, middle_half = difference(means[0], means[1], check.inflation)
    print(f"totals  {percent(total, total_half)}")
    print(f"typical {percent(middle, middle_half)}")
    print(
        "rare events are said to make the difference:",
        "yes" if trimmed[0] and trimmed[0].has_rare_events(inflation=check.inflation) else "no",
    )
    wrong = {
        "totals do not hold the truth": abs(total - truth) > total_half,
        "totals do not tell it from 0": abs(total) <= total_half,
        "typical tells it from 0": abs(middle) > middle_half,
    }
    for what in (what for what, is_so in wrong.items() if is_so):
        print(what, file=sys.stderr)
    return 1 if any(wrong.values()) else 0


if __name__ == "__main__":
    sys.exit(main())

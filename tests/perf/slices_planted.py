"""Is a slow-down of known size found? The same build twice, one of the two slowed down on purpose, on this machine.

    PGBED_SERVERS=... python -m tests.perf.slices_planted [BUILD] [--trials 40] [--comparisons 0]

Both servers run with a library (planted.c) whose recv() goes on for some iterations of a loop after each message. One
pair of clusters is driven in slices by the conductor, its clients are those of the query step qr100, and by turns, in
an order that is drawn, one server's loop takes 0, 1, 2, 3 and 5 % of the CPU time of a statement (client and backend).

The truth is not what was asked for but what the loop took: at each turn the backend itself runs it 1000 times between
two looks at its own CPU time, in statements that are not counted; the median of a trial is d ns a statement. Then
truly ln(1 + d / server CPU per op) for the CPU per op, both without the loop. For the rate it is -ln(1 + d / CPU of
client and backend per op): on one CPU these two take turns, so that while nobody waits there is no other time, and
whoever else takes the CPU from them takes it in proportion.

Printed are, for each size: the mean truth; theta(N) - theta(0) of all trials together, with its 95 % interval; the
median half width of a single trial's interval, in how many trials that held the truth, and told it from 0. With
--comparisons: fresh clusters, 5 pairs a comparison, the five sizes judged together like five steps; how often each was
named. Exit code 1 when fewer intervals hold the truth than 95 % less two standard errors, or when 0 or 1 % are named,
or 3 % in fewer than 7 of 10 and 5 % in fewer than 9 of 10 comparisons: this needs a quiet machine.
"""

from __future__ import annotations

import argparse
import itertools
import math
import mmap
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median

from engine.analysis.slice_estimates import pooled, self_check
from engine.analysis.slice_verdicts import PARTS
from engine.analysis.statistics import ALPHA, holm_shares, judge, p_value
from engine.builds import resolve
from engine.core.model import Build
from engine.results.comparison import CHANGED, CPU, RATE
from engine.slices.block_order import SliceSeed
from tests.support.interleaved_servers import (
    NORMAL_95,
    Block,
    InterleavedServers,
    difference,
    interleaved,
    own_ratios_of,
    per_op,
    percent,
    query_step,
    ratio_of,
    servers_up,
    whole_blocks,
)
from tests.support.steprun import cpu_s

SIZES = (0.0, 0.01, 0.02, 0.03, 0.05)
SLOWED = 1  # the side
SLICE_MS = 20.0
TURN_BLOCKS = 9  # about 0.7 s, of which the first two are lost
LEAST_BLOCKS = 20  # of each size in a trial: fewer have no error
ROUNDS = 1000  # as in planted.c
PROBED = 20_000  # iterations, to see how long one takes
PAIRS, MARGIN = 5, 0.02
NAMED = {0.0: (0.0, 0.0), 0.01: (0.0, 0.0), 0.03: (0.7, 1.0), 0.05: (0.9, 1.0)}  # least and most of comparisons
PATIENCE_S = 10.0

Trial = dict[float, list[Block]]  # size: its blocks


class Planted:
    """The mapped file of one server: see planted.c."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(24))
        path.chmod(0o666)  # the server is another user's
        with path.open("r+b") as file:
            self._words = memoryview(mmap.mmap(file.fileno(), 24)).cast("q")

    def set(self, iterations: int, backend: int) -> None:
        """Plants so many iterations and asks a backend how long they take."""
        self._words[0] = iterations
        self._words[1] = backend

    @property
    def answered(self) -> bool:
        return self._words[1] == 0

    @property
    def took_ns(self) -> float:
        """What was answered, for one message."""
        return self._words[2] / ROUNDS


class Pair:
    """Two servers of one build under the conductor, one of which can be slowed down."""

    def __init__(self, duet: InterleavedServers, planted: Planted, chance: random.Random) -> None:
        self.duet, self._planted, self._chance = duet, planted, chance
        self._iterations = dict.fromkeys(SIZES, 0)
        self._empty_ns = 0.0
        self.answers: list[tuple[float, float]] = []  # size, ns of the loop in a message

    def calibrate(self) -> None:
        """Finds how many iterations make each size."""
        client, slices = self.duet.client(SLOWED), len(self.duet.slices)
        busy_s = cpu_s(client)
        blocks = self._turn(0.0, 12)
        self._empty_ns = self.answers[-1][1]
        statement_ns = per_op(blocks, SLOWED, PARTS[CPU]) + self._client_ns(busy_s, slices)
        self._iterations[SIZES[-1]] = PROBED
        self._turn(SIZES[-1], 2)
        iteration_ns = (self.answers[-1][1] - self._empty_ns) / PROBED
        self._iterations = {size: round(size * statement_ns / iteration_ns) for size in SIZES}

    def trial(self) -> tuple[Trial, float]:
        """Blocks of each size, by turns in a drawn order; and the client's CPU time per op (ns) in all of it."""
        found: Trial = {size: [] for size in SIZES}
        self.answers = []
        busy_s, slices = cpu_s(self.duet.client(SLOWED)), len(self.duet.slices)
        while min(len(blocks) for blocks in found.values()) < LEAST_BLOCKS:
            order = [size for size in SIZES if len(found[size]) < LEAST_BLOCKS]
            for size in self._chance.sample(order, len(order)):
                found[size] += self._turn(size, TURN_BLOCKS)
        return found, self._client_ns(busy_s, slices)

    def loop_ns(self, size: float) -> float:
        """What the loop of a size took in a message, by the median answer of the last trial."""
        per_iteration = median((ns - self._empty_ns) / self._iterations[of] for of, ns in self.answers if of)
        return per_iteration * self._iterations[size]

    def _client_ns(self, busy_s: float, slices: int) -> float:
        """The client's CPU time per op since it had used so much, and so many slices had ended."""
        ops = sum(each.cpu_ops for each in self.duet.slices[slices:] if each.side == SLOWED)
        return (cpu_s(self.duet.client(SLOWED)) - busy_s) * 1e9 / ops

    def _turn(self, size: float, count: int) -> list[Block]:
        """So many blocks after the change and, all in all, those that were of this size from end to end."""
        duet = self.duet
        first = duet.look()
        self._planted.set(self._iterations[size], duet.backend(SLOWED))
        until_s = time.monotonic() + PATIENCE_S
        while not self._planted.answered:
            if time.monotonic() > until_s:
                sys.exit("the backend did not answer: does this server read messages by other means than recv()?")
            time.sleep(0.002)
        ready_ns = time.monotonic_ns()
        self.answers.append((size, self._planted.took_ns))
        while duet.look() < first + count:
            time.sleep(0.005)
        return [block for block in whole_blocks(duet.slices[-8 * count :]) if block[0].opened_ns > ready_ns]


def preloaded(build: Build, folder: Path, library: Path) -> tuple[Build, Planted]:
    """The build with the library in its servers, and what they map."""
    (folder / "bin").mkdir(parents=True)
    planted = Planted(folder / "planted")
    environment = f"LD_PRELOAD={library} PGBED_PLANTED={folder / 'planted'}"
    for program, words in (("initdb", ""), ("postgres", environment)):
        path = folder / "bin" / program
        path.write_text(f'#!/bin/sh\n{words} exec {build.bin / program} "$@"\n')
        path.chmod(0o755)
    return replace(build, prefix=str(folder)), planted


def fresh_pairs(build: Build, rows: int, number: int) -> Generator[Pair, None, None]:
    """Pairs of fresh clusters without end, each conducted until the next is asked for."""
    chance = random.Random(number)
    for repeat in itertools.count(1):
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pgbed-planted-", dir="/tmp")))
            folder.chmod(0o755)
            library, source = folder / "planted.so", Path(__file__).with_name("planted.c")
            subprocess.run(["cc", "-O2", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
            sides = [preloaded(build, folder / side, library) for side in ("plain", "slowed")]
            servers = stack.enter_context(servers_up([build for build, _ in sides], rows))
            seed = SliceSeed(number, repeat, "planted")
            pair = Pair(
                stack.enter_context(interleaved(servers, query_step(rows), SLICE_MS, seed)), sides[SLOWED][1], chance
            )
            pair.calibrate()
            yield pair


def coverage(pair: Pair, trials: int) -> bool:
    """Prints how often intervals held the truth; whether that is often enough."""
    found: dict[tuple[str, float], list[tuple[float, float, float]]] = {}  # estimates, truths, half widths
    everything: Trial = {size: [] for size in SIZES}
    for _ in range(trials):
        blocks, client_ns = pair.trial()
        server_ns = per_op(blocks[0.0], SLOWED, PARTS[CPU])
        for metric in (RATE, CPU):
            for size, (estimate, half) in differences(blocks, metric).items():
                whole_ns = server_ns + (client_ns if metric == RATE else 0)
                truth = math.log1p(pair.loop_ns(size) / whole_ns) * (-1 if metric == RATE else 1)
                found.setdefault((metric, size), []).append((estimate, truth, half))
        for size, each in blocks.items():
            everything[size] += each
    print(f"{'metric':<22}{'planted':>8}{'truth':>9}{'all together':>22}{'half of one':>13}{'held':>12}{'not 0':>12}")
    held = 0
    for (metric, size), rows in found.items():
        good = sum(abs(estimate - truth) <= half for estimate, truth, half in rows)
        seen = sum(abs(estimate) > half for estimate, _, half in rows)
        held += good
        truth, half = fmean(row[1] for row in rows), median(row[2] for row in rows)
        together = percent(*differences(everything, metric)[size])
        print(f"{metric:<22}{size:>8.0%}{percent(truth):>9}{together:>22}{half:>13.2%}"
              f"{good:>6} of {trials}{seen:>6} of {trials}")  # fmt: skip
    count = trials * len(found)
    least = 0.95 * count - 2 * math.sqrt(0.95 * 0.05 * count)
    print(f"intervals that hold the truth: {held} of {count} ({held / count:.1%}; at least {least:.0f} are wanted)")
    return held >= least


def differences(blocks: Trial, metric: str) -> dict[float, tuple[float, float]]:
    """For each size theta(N) - theta(0), and half its 95 % interval."""
    check = self_check([own for each in blocks.values() for own in own_ratios_of(each, PARTS[metric])])
    ratios = {size: ratio_of(each, PARTS[metric]) for size, each in blocks.items()}
    return {size: difference(ratios[size], ratios[0.0], check.inflation) for size in SIZES[1:]}


def comparisons(pairs: Iterator[Pair], count: int) -> bool:
    """Prints how often each size is named; whether that is as it should be."""
    named = dict.fromkeys(SIZES, 0)
    for number in range(1, count + 1):
        trials = [next(pairs).trial()[0] for _ in range(PAIRS)]
        own = [own for trial in trials for each in trial.values() for own in own_ratios_of(each, PARTS[RATE])]
        rows = [[ratio_of(trial[size], PARTS[RATE]) for trial in trials] for size in SIZES]
        steps = pooled(rows, self_check(own).inflation).steps
        levels = [ALPHA * share for share in holm_shares([p_value(step.estimate) for step in steps])]
        texts = []
        for size, step, level in zip(SIZES, steps, levels, strict=True):
            verdict = judge(step.estimate, MARGIN, level=level).verdict
            named[size] += verdict in CHANGED
            texts.append(f"{size:.0%}: {percent(step.estimate.mean, NORMAL_95 * step.estimate.error)} {verdict}")
        print(f"comparison {number}: {'; '.join(texts)}; load {os.getloadavg()[0]:.1f}", flush=True)
    print("named:", ", ".join(f"{size:.0%} in {times} of {count}" for size, times in named.items()))
    return all(least * count <= named[size] <= most * count for size, (least, most) in NAMED.items())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("build", nargs="?", default="16.3-prebuilt")
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--comparisons", type=int, default=0)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    build = resolve.local_build(asked.build, Path(os.environ["PGBED_SERVERS"]) / asked.build)
    began, good = time.monotonic(), True
    with closing(fresh_pairs(build, asked.rows, asked.seed)) as pairs:
        if asked.trials:
            good = coverage(next(pairs), asked.trials)
        if asked.comparisons:
            good = comparisons(pairs, asked.comparisons) and good
    print(f"{time.monotonic() - began:.0f} s, load at the end {os.getloadavg()[0]:.1f}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

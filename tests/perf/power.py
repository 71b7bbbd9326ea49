"""The smallest difference that a comparison sees, and its silence without one. Equal servers, side by side.

    python -m tests.perf.power --out FOLDER [--build 18.6] [--comparisons 20] [BENCH OPTIONS]

Makes the runs that FOLDER does not have yet, each of 4 pairs in slices of a build against itself, on this machine as
it is: every third beside a neighbour that burns all CPUs in bursts. A run takes three to four minutes. Printed are

- false names by rates, server CPU and response times (a family each), and how many 95% intervals of the first two
  hold 1, in all and by step;
- for each step the median half width of its interval, alone and with the neighbour;
- the power: differences of known size are planted in the recorded ratios, one step at a time, in both directions, and
  judged among all steps. A factor on a server's time moves the log ratio of each pair by its log and leaves the scatter
  as it was, so that this is what a server that is slower by it in every statement would show. `certain`: the p-value is
  below its level; with a smaller --margin than the effect it is named. Beside it what the engine's own prediction says.
  More pairs than a run has are drawn without replacement from the runs of a kind.

Exit code 1 if a family names anything in more than one comparison of twenty, or fewer than 93% of the intervals hold
1.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median

from scipy import special

from engine.analysis.answer.compare import compare, compared_cells
from engine.analysis.cells.alpha_spending import Levels
from engine.analysis.ratios import slice_verdicts
from engine.analysis.statistics.inference import Estimate, holm_shares, p_value, t_quantile
from engine.analysis.statistics.slice_estimates import by_kind, self_check
from engine.journal.archive import MANIFEST
from engine.results.ratio import CHANGED, CPU, LATENCIES, RATE, Ratio
from engine.results.slice_ratio import LogRatio
from tests.perf.layouts import bench
from workloads.insert.steps import SHAPES

ALONE, NEIGHBOUR = KINDS = ("alone", "neighbour")
TURNS = (ALONE, ALONE, NEIGHBOUR)
PAIRS = 4
PLAN = ("--interleave", "slices", "--repeats", str(PAIRS), "--rows", "30000", "--rows-written", "15000",
        "--query-seconds", "2", "--plain")  # fmt: skip
SIZES = (0.005, 0.01, 0.02, 0.03, 0.05)
DRAWS, SEED = 40, 20240529
MOST_FALSE, LEAST_HELD = 0.05, 0.93

FAMILIES = {"rates": (RATE,), "server CPU": (CPU,), "response times": tuple(LATENCIES)}


@dataclass(frozen=True)
class StepRatios:
    """The log ratios of a step's pairs, and those of each server to itself (`own`, whose truth is 1)."""

    ratios: list[LogRatio]
    own: list[LogRatio]


Steps = Mapping[str, StepRatios]


@dataclass(frozen=True)
class Aa:
    """A run of two equal servers: what it says of them, and the ratios of its pairs by step."""

    kind: str
    ratios: tuple[Ratio, ...]
    steps: Steps
    levels: Levels


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--build", default="18.6")
    parser.add_argument("--comparisons", type=int, default=20)
    asked, more = parser.parse_known_args()  # all others are for bench
    asked.out.mkdir(parents=True, exist_ok=True)
    asked.out.chmod(0o755)
    runs = []
    for number, kind in zip(range(1, asked.comparisons + 1), itertools.cycle(TURNS), strict=False):
        folder = asked.out / f"{number:02}-{kind}"
        if not folder.exists():
            measure(folder, kind, number, asked.build, more)
        runs.append(read(folder, kind))
    good = silence(runs)
    widths(runs)
    power("alone", [run for run in runs if run.kind == ALONE], (PAIRS, 3 * PAIRS, 9 * PAIRS))
    power("with a neighbour", [run for run in runs if run.kind == NEIGHBOUR], (PAIRS, 3 * PAIRS))
    return 0 if good else 1


def measure(folder: Path, kind: str, number: int, build: str, options: Sequence[str]) -> None:
    began_s = time.monotonic()
    with neighbour() if kind == NEIGHBOUR else nullcontext():
        words = ("run", "--pg", build, "--aa", *PLAN, "--seed", str(number), *options)
        if code := subprocess.run(bench(folder, *words), stdout=subprocess.DEVNULL).returncode:
            sys.exit(code)  # bench has said why
    print(f"{folder.name}: {time.monotonic() - began_s:.0f} s, load {os.getloadavg()[0]:.1f}", flush=True)


@contextmanager
def neighbour() -> Iterator[None]:
    """Burns all CPUs in bursts, log-uniform from 0.5 to 20 s, with as long a pause between them."""
    over = threading.Event()

    def burn() -> None:
        chance = random.Random(1)
        while not over.is_set():
            length = math.exp(chance.uniform(math.log(0.5), math.log(20)))
            burners = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(os.cpu_count() or 1)]
            over.wait(length)
            for burner in burners:
                burner.kill()
                burner.wait()
            over.wait(length)

    thread = threading.Thread(target=burn)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def read(folder: Path, kind: str) -> Aa:
    path = next(folder.glob(f"*/{MANIFEST}")).parent
    cells = compared_cells([path])
    [subject] = cells.others
    steps = {
        step: StepRatios(ratios, slice_verdicts.own_ratios(pairs, step, RATE))
        for step in cells.steps
        for pairs in [cells.pairs(subject, step)]
        if len(ratios := slice_verdicts.log_ratios(pairs, step, RATE)) == PAIRS
    }
    return Aa(kind, compare([path]).ratios, steps, cells.levels)


def silence(runs: Sequence[Aa]) -> bool:
    """Prints named steps, and how many intervals hold 1; whether that is as promised."""
    held, count, false = 0, 0, dict.fromkeys(FAMILIES, 0)
    for kind in KINDS:
        part = [run for run in runs if run.kind == kind]
        bounds = [(r.low, r.high) for run in part for r in run.ratios if r.metric in (RATE, CPU) and r.low and r.high]
        good = sum(low <= 1 <= high for low, high in bounds)
        texts = []
        for family, metrics in FAMILIES.items():
            named = [[r for r in run.ratios if r.metric in metrics and r.verdict in CHANGED] for run in part]
            wrong = sum(map(bool, named))
            which = ", ".join(f"{r.step} {r.metric} {r.ratio:.3f}" for ratios in named for r in ratios)
            texts.append(f"{wrong} by {family}{f' ({which})' if which else ''}")
            false[family] += wrong
        print(f"{kind:<10} of {len(part)} comparisons are named {', '.join(texts)}; {good} of {len(bounds)} hold 1")
        held, count = held + good, count + len(bounds)
    texts = [f"{wrong} by {family}" for family, wrong in false.items()]
    print(f"all        of {len(runs)}: {', '.join(texts)}; {held} of {count} hold 1 ({held / count:.1%})")
    return max(false.values()) <= max(1, MOST_FALSE * len(runs)) and held >= LEAST_HELD * count


def widths(runs: Sequence[Aa]) -> None:
    print(f"\n{'step':<8}{'half width, alone':>20}{'with a neighbour':>20}{'hold 1':>12}")
    for step in dict.fromkeys(step for run in runs for step in run.steps):
        halves = {kind: [math.sqrt(r.high / r.low) - 1 for r in of(runs, (kind,), step) if r.low and r.high]
                  for kind in KINDS}  # fmt: skip
        texts = [f"{median(halves[kind]):.2%}" if halves[kind] else "" for kind in KINDS]
        bounds = [(r.low, r.high) for r in of(runs, KINDS, step) if r.low and r.high]
        holding = f"{sum(low <= 1 <= high for low, high in bounds)} of {len(bounds)}"
        print(f"{step:<8}{texts[0]:>20}{texts[1]:>20}{holding:>12}")


def of(runs: Iterable[Aa], kinds: Sequence[str], step: str) -> list[Ratio]:
    return [r for run in runs if run.kind in kinds for r in run.ratios if (r.step, r.metric) == (step, RATE)]


def power(title: str, runs: Sequence[Aa], counts: Sequence[int]) -> None:
    """Prints how often each size is certain, of the steps of the queries and of the inserts."""
    chance = random.Random(SEED)
    print(f"\nplanted in runs {title}: certain in (predicted)")
    for count in counts:
        if count > len(runs) * PAIRS:
            continue
        samples = [run.steps for run in runs] if count == PAIRS else [drawn(runs, count, chance) for _ in range(DRAWS)]
        by_size: dict[tuple[str, float], list[tuple[float, float]]] = {}
        for steps in samples:
            estimates = estimates_of(steps)
            for step, size in itertools.product(estimates, SIZES):
                by_size.setdefault((group(step), size), []).extend(planted(estimates, step, size, runs[0].levels))
        for name in dict.fromkeys(name for name, _ in by_size):
            rows = [(size, [fmean(part) for part in zip(*by_size[name, size], strict=True)]) for size in SIZES]
            texts = (f"{size:.1%}: {seen:.0%} ({likely:.0%})" for size, (seen, likely) in rows)
            print(f"{count:>3} pairs  {name:<8} {'  '.join(texts)}", flush=True)


def group(step: str) -> str:
    return "queries" if step.startswith("q") else "inserts" if step.startswith("l.i") else step


def drawn(runs: Sequence[Aa], count: int, chance: random.Random) -> dict[str, StepRatios]:
    """A number of pairs of all runs, with the steps that all have; a pair's steps stay together."""
    places = chance.sample([(run, place) for run in runs for place in range(PAIRS)], count)
    return {
        step: StepRatios(
            [run.steps[step].ratios[place] for run, place in places],
            [ratio for run in {id(run): run for run, _ in places}.values() for ratio in run.steps[step].own],
        )
        for step in runs[0].steps
        if all(step in run.steps for run in runs)
    }  # fmt: skip


def estimates_of(steps: Steps) -> dict[str, Estimate]:
    """The verdicts of a comparison of these pairs."""
    inflation = self_check([ratio for row in steps.values() for ratio in row.own]).inflation
    judged = by_kind(
        [SHAPES[step].query or SHAPES[step].kind for step in steps], [row.ratios for row in steps.values()], inflation
    )
    return {step: row.estimate for step, row in zip(steps, judged, strict=True)}


def planted(estimates: Mapping[str, Estimate], step: str, size: float, levels: Levels) -> list[tuple[bool, float]]:
    """Certainty of the difference in either direction, and its predicted likelihood."""
    chances = []
    for log in (math.log1p(size), -math.log1p(size)):
        shifted = replace(estimates[step], mean=estimates[step].mean + log)
        p_values = {name: p_value(shifted if name == step else estimate) for name, estimate in estimates.items()}
        shares = dict(zip(p_values, holm_shares(list(p_values.values()), levels.differs), strict=True))
        certain = p_values[step] <= levels.differs(shares[step]) and (shifted.mean > 0) == (log > 0)
        chances.append((certain, likely(shifted, abs(log), levels.differs(1 / len(estimates)))))
    return chances


def likely(estimate: Estimate, log: float, level: float) -> float:
    """The frequency with which a difference of this log is certain: see `statistics.smallest_visible_effect`."""
    error = estimate.sd / math.sqrt(estimate.pairs)
    return float(special.stdtr(estimate.degrees, log / error - t_quantile(1 - level, estimate.degrees)))


if __name__ == "__main__":
    sys.exit(main())

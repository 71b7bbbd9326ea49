"""Do the intervals and verdicts keep their promises? A simulation with known truth, the same on every run.

    python tests/perf/statistics_coverage.py [--trials 4000] [--promises]

Cells are made with a chosen true ratio, log-normal noise from cell to cell, and a slow-down over the session; the
engine's own plan orders them and its own statistics judges them. Printed are, for each design,

- coverage: how often the 95 % interval holds the truth (should be 95 %), for ABBA order and, for contrast, for the
  orders that the engine does not use (ABAB paired, AAAA BBBB);
- verdicts: how often a true effect is called what it is, and how often no effect is called one (at most 5 %);
- families: how often a comparison of ten steps has any false verdict (at most 5 %), and how often an effect in one of
  them is named, each step judged among all and, for contrast, by itself;
- two modes: how often cells from a single mode are taken for two.

Exit code 1 when a promise that the engine makes is broken. With --promises the orders that the engine does not use,
which decide nothing, are left out.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from functools import cache

from engine.analysis.change_points import LEVEL, levels
from engine.analysis.statistics import ALPHA, holm_shares, judge, p_value, paired_interval, scatter
from engine.core.model import Subject
from engine.plan.schedule import interleave
from engine.results.comparison import CHANGED

SEED = 20240529
MARGIN = 0.02
BASE, OTHER = Subject("base", "default"), Subject("other", "default")


@cache
def order(design: str, pairs: int) -> list[Subject]:
    """The cells in time; ABBA is the engine's own plan."""
    if design == "ABBA":
        return [cell.subject for cell in interleave([BASE, OTHER], pairs)]
    if design == "ABAB":
        return [BASE, OTHER] * pairs
    return [BASE] * pairs + [OTHER] * pairs


def ratios(design: str, pairs: int, truth: float, noise: float, drift: float, rng: random.Random) -> list[float]:
    """One session: the rate falls by `drift` from its first to its last cell; returns the pairs' ratios."""
    subjects = order(design, pairs)
    rates: dict[Subject, list[float]] = {BASE: [], OTHER: []}
    for place, subject in enumerate(subjects):
        level = 1 - drift * place / (len(subjects) - 1)
        effect = truth if subject == OTHER else 1.0
        rates[subject].append(level * effect * math.exp(rng.gauss(0, noise)))
    return [other / base for base, other in zip(rates[BASE], rates[OTHER], strict=True)]


def coverage(design: str, pairs: int, drift: float, trials: int, rng: random.Random) -> float:
    """The share of sessions whose 95 % interval holds the truth: a ratio of 0.97, cells that vary by 1 %."""
    hits = 0
    for _ in range(trials):
        interval = paired_interval(ratios(design, pairs, 0.97, 0.01, drift, rng))
        assert interval.low is not None
        assert interval.high is not None
        hits += interval.low <= 0.97 <= interval.high
    return hits / trials


def verdicts(pairs: int, truth: float, noise: float, trials: int, rng: random.Random) -> dict[str, float]:
    """The share of each verdict."""
    found: dict[str, int] = {}
    for _ in range(trials):
        verdict = judge(ratios("ABBA", pairs, truth, noise, 0.0, rng), MARGIN).verdict
        found[verdict] = found.get(verdict, 0) + 1
    return {verdict: count / trials for verdict, count in found.items()}


def family(pairs: int, truth: float, noise: float, trials: int, rng: random.Random) -> tuple[float, float, float]:
    """Of comparisons of ten steps, one with an effect: false verdicts among all and by themselves, effects named."""
    false = alone = named = 0
    for _ in range(trials):
        steps = [ratios("ABBA", pairs, truth if step == 0 else 1.0, noise, 0.0, rng) for step in range(10)]
        levels = [ALPHA * share for share in holm_shares([p_value(step) for step in steps])]
        found = [judge(step, MARGIN, level=level).verdict for step, level in zip(steps, levels, strict=True)]
        unlevelled = [judge(step, MARGIN).verdict for step in steps]
        false += any(verdict in CHANGED for verdict in found[1:])
        alone += any(verdict in CHANGED for verdict in unlevelled[1:])
        named += found[0] in CHANGED
    return false / trials, alone / trials, named / trials


def false_modes(cells: int, noise: float, trials: int, rng: random.Random) -> float:
    """The share of single-mode samples that are flagged as two modes."""
    flagged = 0
    for _ in range(trials):
        found = scatter([math.exp(rng.gauss(0, noise)) for _ in range(cells)], MARGIN)
        flagged += found is not None and found.bimodal
    return flagged / trials


def false_changes(seconds: int, noise: float, memory: float, trials: int, rng: random.Random) -> float:
    """The share of steps without a change that are said to have run at several rates.

    Of the deviation of a second the next one keeps a part, its `memory`.
    """
    flagged = 0
    for _ in range(trials):
        rates, away = [], 0.0
        for second in range(seconds):
            away = memory * away + rng.gauss(0, noise)
            rates.append((second + 1.0, 100 * (1 + away)))
        flagged += len(levels(rates)) > 1
    return flagged / trials


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trials", type=int, default=4000)
    parser.add_argument("--promises", action="store_true")
    asked = parser.parse_args()
    trials, designs = asked.trials, ("ABBA",) if asked.promises else ("ABBA", "ABAB", "AAAABBBB")
    rng = random.Random(SEED)
    broken: list[str] = []

    print(f"coverage of the 95 % interval, {trials} sessions each (truth 0.97, 1 % noise)")
    print(f"{'design':<12}{'drift':>6}" + "".join(f"{f'n={n}':>8}" for n in (3, 4, 5, 6, 8)))
    for drift in (0.0, 0.06):
        for design in designs:
            row = [coverage(design, pairs, drift, trials, rng) for pairs in (3, 4, 5, 6, 8)]
            print(f"{design:<12}{drift:>6.0%}" + "".join(f"{share:>8.1%}" for share in row))
            if design == "ABBA" and min(row) < 0.935:
                broken.append(f"ABBA covers only {min(row):.1%} with {drift:.0%} drift")

    names = ("faster", "slower", "same", "inconclusive")
    print(f"\nverdicts, margin {MARGIN:.0%}")
    print(f"{'truth':>6}{'noise':>7}{'pairs':>6}" + "".join(f"{name:>14}" for name in names))
    for truth in (1.0, 0.99, 0.97, 0.93):
        for noise in (0.005, 0.02):
            for pairs in (3, 6):
                found = verdicts(pairs, truth, noise, trials, rng)
                shares = "".join(f"{found.get(name, 0):>14.1%}" for name in names)
                print(f"{truth:>6.2f}{noise:>7.1%}{pairs:>6}{shares}")
                wrong = found.get("faster", 0) + (found.get("slower", 0) if truth == 1.0 else 0)
                if wrong > 0.06:
                    broken.append(f"no effect called one in {wrong:.1%} (noise {noise}, {pairs} pairs)")
                if truth <= 0.97 and found.get("same", 0) > 0.06:
                    broken.append(f"an effect of {truth} called same in {found['same']:.1%}")

    print("\nten steps, an effect in one of them: comparisons with a false verdict, and with that effect named")
    print(f"{'truth':>6}{'noise':>7}{'pairs':>6}{'among all':>12}{'by itself':>12}{'named':>9}")
    for truth, noise, pairs in ((1.0, 0.02, 4), (1.0, 0.05, 6), (0.95, 0.01, 4), (0.95, 0.01, 6), (0.97, 0.01, 6)):
        false, alone, found_share = family(pairs, truth, noise, trials // 4, rng)
        print(f"{truth:>6.2f}{noise:>7.1%}{pairs:>6}{false:>12.1%}{alone:>12.1%}{found_share:>9.1%}")
        if false > 0.06:
            broken.append(f"{false:.1%} of comparisons of ten steps have a false verdict")

    print("\ntwo modes seen where there is one")
    print(f"{'noise':>6}" + "".join(f"{f'n={n}':>8}" for n in (3, 4, 5, 6, 10)))
    for noise in (0.005, 0.01, 0.02, 0.05):
        row = [false_modes(cells, noise, trials, rng) for cells in (3, 4, 5, 6, 10)]
        print(f"{noise:>6.1%}" + "".join(f"{share:>8.1%}" for share in row))
        if row[0] > 0:
            broken.append("two modes claimed from three cells")

    print("\nsteps without a change that are said to have run at several rates, by scatter and memory of their seconds")
    print(f"{'noise':>6}{'memory':>8}" + "".join(f"{f'{n} s':>8}" for n in (10, 30, 60)))
    for noise, memory in ((0.03, 0.0), (0.1, 0.0), (0.5, 0.0), (0.03, 0.5), (0.1, 0.5), (0.1, 0.8)):
        row = [false_changes(seconds, noise, memory, trials // 4, rng) for seconds in (10, 30, 60)]
        print(f"{noise:>6.0%}{memory:>8.1f}" + "".join(f"{share:>8.1%}" for share in row))
        if memory == 0.0 and max(row) > 1.5 * LEVEL:
            broken.append(f"a change claimed in {max(row):.1%} of steps without one (noise {noise})")
        if memory == 0.5 and max(row) > 0.05:
            broken.append(f"a change claimed in {max(row):.1%} of steps whose seconds depend on each other")

    for promise in broken:
        print(f"broken: {promise}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

"""Does the advice "4 more pairs" keep what verdicts promise? A simulation with known truth, the same on every run.

    python -m tests.perf.interim_looks [--trials 2000] [--promises]

A comparison of one step or ten is judged; while a step is not known, as many pairs as are advised are added and all
pairs are judged again, up to four times in all. Printed are, for several numbers of first pairs and amounts of noise,

- how often any of these analyses calls two equal servers different, at the levels that analyses share
  (`engine.analysis.alpha_spending`) and, for contrast, each time at 5 %;
- how often any calls a step the same that differs by exactly the margin;
- how often the pairs that were advised settled the step that they were advised for.

Exit code 1 when either of the first two is more than 5 %, by more than chance. With --promises the contrast, which
decides nothing, is left out.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass

from engine.analysis.alpha_spending import FIRST
from engine.analysis.statistics import Judgement, holm_levels, judge, p_value, same_p_value, spent_level
from engine.core.model import LEVEL
from engine.results.comparison import CHANGED

SEED = 20261124
MARGIN = 0.02
LOOKS = 4
MOST_ADDED = 100  # pairs that a patient user would add at once
PARTS = [FIRST, *((LEVEL - FIRST) / 2**n for n in range(1, LOOKS))]


@dataclass
class Tally:
    """What went wrong in one series of analyses, and what became of the advice."""

    wrong: bool = False
    advised: int = 0
    settled: int = 0


def judged(pairs: list[list[float]], level: float, shrink: Callable[[int], float]) -> list[Judgement]:
    """The steps' verdicts, as a family."""
    differs = holm_levels([p_value(step) for step in pairs], level)
    same = holm_levels([same_p_value(step, MARGIN) for step in pairs], level)
    return [
        judge(step, MARGIN, level=a, same_level=b, shrink=shrink)
        for step, a, b in zip(pairs, differs, same, strict=True)
    ]


def series(steps: int, truth: float, first: int, noise: float, shared: bool, chance: random.Random) -> Tally:
    """One comparison to its end, with analyses that share the error or not."""
    tally, pairs = Tally(), [[] for _ in range(steps)]  # type: Tally, list[list[float]]
    done: list[tuple[int, float]] = []
    wanted, unknown = first, set[int]()
    for look in range(LOOKS):
        for step in pairs:
            step += [math.exp(math.log(truth) + chance.gauss(0, noise)) for _ in range(wanted)]
        done.append((len(pairs[0]), PARTS[look]))
        level = spent_level(*done) if shared else LEVEL
        left = PARTS[min(look + 1, LOOKS - 1)]

        def shrink(more: int, level: float = level, left: float = left) -> float:
            return spent_level(*done, (done[-1][0] + more, left)) / level if shared else 1.0

        found = judged(pairs, level, shrink)
        tally.wrong |= any(each.verdict in (CHANGED if truth == 1 else ("same",)) for each in found)
        tally.settled += sum(found[place].verdict != "inconclusive" for place in unknown)
        advice = {place: each.more_pairs for place, each in enumerate(found) if each.more_pairs is not None}
        wanted = max(advice.values(), default=0)
        if not 0 < wanted <= MOST_ADDED:
            break
        # The others need fewer pairs, so that they are settled more often than is promised.
        unknown = {place for place, more in advice.items() if more == wanted} if look + 1 < LOOKS else set()
        tally.advised += len(unknown)
    return tally


def main() -> int:
    """Print the tables; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--promises", action="store_true")
    asked = parser.parse_args()
    trials, kinds = asked.trials, (True,) if asked.promises else (True, False)
    chance, broken = random.Random(SEED), []
    print(f"up to {LOOKS} analyses as advised, {trials} comparisons each; wrong in any of them:")
    print(f"{'steps':>6}{'truth':>7}{'first':>7}{'noise':>7}{'shared':>9}{'at 5 %':>9}{'settled as advised':>21}")
    designs = [(1, 4, 0.03), (1, 6, 0.03), (1, 6, 0.06), (10, 4, 0.01), (10, 6, 0.02), (10, 6, 0.04)]
    for truth in (1.0, 1 + MARGIN):
        for steps, first, noise in designs:
            shared, *alone = (
                [series(steps, truth, first, noise, kind, chance) for _ in range(trials)] for kind in kinds
            )
            wrong, *fixed = (sum(each.wrong for each in all_) / trials for all_ in (shared, *alone))
            contrast = "".join(f"{each:.1%}" for each in fixed) or "-"
            advised = sum(each.advised for each in shared)
            settled = f"{sum(each.settled for each in shared) / advised:.0%} of {advised}" if advised else "-"
            print(f"{steps:>6}{truth:>7.2f}{first:>7}{noise:>7.1%}{wrong:>9.1%}{contrast:>9}{settled:>21}")
            if wrong > LEVEL + 2.33 * math.sqrt(LEVEL * (1 - LEVEL) / trials):
                broken.append(f"wrong in {wrong:.1%} ({steps} steps, truth {truth}, {first} pairs, noise {noise:.0%})")
    for promise in broken:
        print(f"broken: {promise}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

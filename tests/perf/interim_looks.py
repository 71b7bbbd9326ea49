"""Do analyses that share pairs keep what verdicts promise? Simulations with known truth, the same on every run.

    python -m tests.perf.interim_looks [--trials 2000] [--promises]

A comparison of one step or ten is judged; while a step is not known, as many pairs as are advised are added and all
pairs are judged again, up to four times in all. Printed are, for several numbers of first pairs and amounts of noise,

- how often any of these analyses calls two equal servers different, at the levels that analyses share
  (`engine.analysis.alpha_spending`) and, for contrast, each time at 5 %;
- how often any calls a step the same that differs by exactly the margin;
- how often the pairs that were advised settled the step that they were advised for.

Then, of series whose analyses do not depend on what they find: what tests spend in all analyses, as the sum over the
steps of a family, at the levels of their shares and, for contrast, at their shares of the family's level. Scatter is
known here, and all are held against the smallest share, as where nothing differs: so little is to be seen only over
millions of series.

Exit code 1 when either of the first two is more than 5 %, or more is spent than is allowed, by more than chance. With
--promises the first contrast, which decides nothing and takes as long again, is left out.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from engine.analysis.alpha_spending import FIRST, Analysis, Levels, alone, planned
from engine.analysis.statistics import Judgement, holm_shares, judge, p_value, same_p_value
from engine.core.model import INTERIM_ANALYSES, LEVEL, PAIRS
from engine.results.comparison import CHANGED

SEED = 20261124
MARGIN = 0.02
LOOKS = 4
MOST_ADDED = 100  # pairs that a patient user would add at once
PARTS = [FIRST, *((LEVEL - FIRST) / 2**n for n in range(1, LOOKS))]
SERIES, AT_ONCE = 4_000_000, 500_000
PLANS: dict[str, list[Analysis]] = {
    "three runs of 4 pairs": [(4 * n, part) for n, part in enumerate(PARTS[:3], 1)],
    "--until-known": planned(INTERIM_ANALYSES, PAIRS),
    "--minutes, 12 pairs": planned(INTERIM_ANALYSES, 12),
}
STEPS = (1, 10, 40)


@dataclass
class Tally:
    """What went wrong in one series of analyses, and what became of the advice."""

    wrong: bool = False
    advised: int = 0
    settled: int = 0


def judged(pairs: list[list[float]], levels: Levels) -> list[Judgement]:
    """The steps' verdicts, as a family."""
    differs = holm_shares([p_value(step) for step in pairs], levels.differs)
    same = holm_shares([same_p_value(step, MARGIN) for step in pairs], levels.same)
    return [
        judge(
            step, MARGIN, "more", *levels.both(shares),
            later=lambda more, shares=shares: levels.later(more).both(shares),  # type: ignore[misc]
        )
        for step, *shares in zip(pairs, differs, same, strict=True)
    ]  # fmt: skip


def series(steps: int, truth: float, first: int, noise: float, shared: bool, chance: random.Random) -> Tally:
    """One comparison to its end, with analyses that share the error or not."""
    tally, pairs = Tally(), [[] for _ in range(steps)]  # type: Tally, list[list[float]]
    done: list[tuple[int, float]] = []
    wanted, unknown = first, set[int]()
    for look in range(LOOKS):
        for step in pairs:
            step += [math.exp(math.log(truth) + chance.gauss(0, noise)) for _ in range(wanted)]
        done.append((len(pairs[0]), PARTS[look]))
        left = LEVEL - sum(spent for _, spent in done)
        found = judged(pairs, Levels(tuple(done), left) if shared else alone(LEVEL))
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


def spent(plan: Sequence[Analysis]) -> dict[tuple[int, str], tuple[float, float]]:
    """What each of the numbers of steps spends, for a difference and for sameness, by either kind of level."""
    looks = [Levels(tuple(plan[:count])) for count in range(1, len(plan) + 1)]
    levels = {(steps, kind): [each.both((1 / steps,) * 2) if kind == "own" else (each.differs() / steps,) * 2
                              for each in looks]
              for steps in STEPS for kind in ("own", "in proportion")}  # fmt: skip
    out = dict.fromkeys(levels, np.zeros(2))
    chance = np.random.default_rng(SEED)
    for _ in range(SERIES // AT_ONCE):
        total, before = np.zeros(AT_ONCE), 0
        wrong = {place: np.zeros((2, AT_ONCE), bool) for place in levels}
        for look, (pairs, _) in enumerate(plan):
            total += chance.standard_normal(AT_ONCE) * math.sqrt(pairs - before)
            before, away = pairs, total / math.sqrt(pairs)
            for place, own in levels.items():
                differs, same = own[look]
                wrong[place][0] |= abs(away) > -special.ndtri(differs / 2)
                wrong[place][1] |= away > -special.ndtri(same)
        out = {place: out[place] + each.sum(axis=1) for place, each in wrong.items()}
    return {(steps, kind): tuple(steps * count / SERIES) for (steps, kind), count in out.items()}


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
    print(f"{'spent by all steps together':<30}{'allowed':>9}{'differs: own, in proportion':>30}{'same':>18}")
    for name, plan in PLANS.items():
        allowed, found = sum(part for _, part in plan), spent(plan)
        for steps in STEPS:
            (differs, same), (differs_before, same_before) = found[steps, "own"], found[steps, "in proportion"]
            both = f"{differs:>16.2%}{differs_before:>14.2%}{same:>9.2%}{same_before:>9.2%}"
            print(f"{name:<22}{steps:>3} step{'s' if steps > 1 else ' '}{allowed:>9.2%}{both}")
            if max(differs, same) > allowed + 3 * math.sqrt(allowed * steps / SERIES):
                broken.append(f"{name}, {steps} steps: {differs:.2%} and {same:.2%} spent, {allowed:.2%} allowed")
    for promise in broken:
        print(f"broken: {promise}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

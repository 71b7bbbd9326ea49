"""What a look at a run that goes on finds: which steps are not known yet."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from engine.core.comparison import MIN_PAIRS, RATE


def unknown_steps(run: Path, level: float) -> list[str]:
    """The steps whose rates would be inconclusive for a subject, were these its pairs and `level` that of verdicts.

    A step with too few pairs to judge is not known; one whose verdict is withheld, or that has no ratio, will not be by
    more pairs either. Doubles of the base are never asked for.
    """
    from engine.analysis import verdicts  # loads scipy, between repeats only
    from engine.analysis.comparison import compared_cells

    found = verdicts.ratios(replace(compared_cells([run]), level=level))
    rates = [ratio for ratio in found if ratio.metric == RATE and not ratio.arm]
    unknown: Collection[str] = {
        ratio.step
        for ratio in rates
        if ratio.verdict == "inconclusive" or (ratio.verdict == "none" and 0 < ratio.pairs < MIN_PAIRS)
    }
    return [step for step in dict.fromkeys(ratio.step for ratio in rates) if step in unknown]


def scatter_between(run: Path) -> float:
    """The standard deviation of log ratios in slices from one pair of clusters to the next, by the pairs so far.

    Of several subjects the smallest, and where there are too few pairs the least that was ever seen.
    """
    from engine.analysis.comparison import compared_cells
    from engine.analysis.sliced import log_ratios
    from engine.analysis.slices import MIN_TAU, pooled

    cells, found = compared_cells([run]), []
    for subject in (subject for subject in cells.others if not subject.arm):
        ratios = [log_ratios(cells.pairs(subject, step), step, RATE) for step in cells.steps]
        known = [pairs for pairs in ratios if len(pairs) >= MIN_PAIRS]
        found.append(pooled(known).tau if known else MIN_TAU)
    return min(found, default=MIN_TAU)

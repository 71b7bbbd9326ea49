"""An interim analysis of a run: which steps are not known yet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.results.comparison import MIN_PAIRS, RATE, Ratio
from engine.results.slice_ratio import MIN_TAU

if TYPE_CHECKING:
    from engine.analysis.cells import ComparedCells


@dataclass(frozen=True, slots=True)
class Seen:
    """Steps that are not known yet, and others whose verdicts no more pairs will give, at `level`."""

    level: float
    unknown: tuple[str, ...]
    withheld: tuple[str, ...]


def look(run: Path) -> Seen:
    """The steps whose rates are inconclusive for a subject, judged by the pairs so far.

    A step is also unknown if it has too few pairs, or if its verdict is withheld for a reason that later pairs may not
    have: the machine changed in each pair so far, or slices strayed. If it is withheld for another reason, or has no
    ratio, more pairs will not help. Controls are never considered.
    """
    from engine.analysis import verdicts  # loads scipy, between repeats only
    from engine.analysis.compare import compared_cells

    cells = compared_cells([run])
    rates = [ratio for ratio in verdicts.ratios(cells) if ratio.metric == RATE and not ratio.control]
    unknown = {
        ratio.step
        for ratio in rates
        if ratio.verdict == "inconclusive"
        or (ratio.verdict == "none" and 0 < ratio.pairs < MIN_PAIRS)
        or (ratio.verdict == "withheld" and _for_now(cells, ratio))
    }
    withheld = {ratio.step for ratio in rates if ratio.verdict == "withheld"} - unknown
    steps = dict.fromkeys(ratio.step for ratio in rates)
    return Seen(
        cells.level,
        tuple(step for step in steps if step in unknown),
        tuple(step for step in steps if step in withheld),
    )


def _for_now(cells: ComparedCells, ratio: Ratio) -> bool:
    from engine.analysis.comparability import steady
    from engine.analysis.slice_verdicts import STRAYED

    (subject,) = [subject for subject, name in cells.names.items() if name == ratio.subject]
    pairs = cells.pairs(subject, ratio.step)
    drifted = bool(pairs) and not steady(pairs, ratio.step)
    return drifted or all(reason.startswith(STRAYED) for reason in ratio.reasons)


def scatter_between(run: Path) -> float:
    """The standard deviation of interleaved log ratios between pairs of clusters, by the pairs so far.

    Of several subjects the smallest; if pairs are too few, the least ever seen.
    """
    from engine.analysis.compare import compared_cells
    from engine.analysis.slice_estimates import pooled
    from engine.analysis.slice_verdicts import log_ratios, self_check, steps_of

    cells, found = compared_cells([run]), []
    for subject in (subject for subject in cells.others if not subject.control):
        steps = steps_of(cells, subject)
        ratios = [log_ratios(pairs, step, RATE) for pairs, step in steps]
        known = [pairs for pairs in ratios if len(pairs) >= MIN_PAIRS]
        found.append(pooled(known, self_check(steps, RATE).inflation).tau if known else MIN_TAU)
    return min(found, default=MIN_TAU)

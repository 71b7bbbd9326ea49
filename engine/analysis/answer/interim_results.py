"""An interim analysis of a run: which steps are undecided, how wide each still is, and for which reason."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from engine.results.ratio import MIN_PAIRS, PRIMARY_METRICS, RATE, UNCLEAR, Ratio
from engine.results.slice_ratio import MIN_TAU

if TYPE_CHECKING:
    from engine.analysis.cells.compared_cells import ComparedCells
    from engine.results.slice_ratio import LogRatio


@dataclass(frozen=True, slots=True)
class SliceNoise:
    """The scatter and lengths that widen the interval of a sliced step of a fixed length.

    `per_root_second` is the standard deviation of its log ratio within a pair of one second, the largest of all
    subjects'; `lengths_s` are the planned lengths of its pairs.
    """

    per_root_second: float
    lengths_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """Steps that are undecided, and others whose verdicts no more pairs will give, at `level`.

    `widths` are half the 95% intervals of all steps' ratios, the widest of all subjects, as fractions; `tau` is the
    standard deviation of log ratios between pairs of clusters, over all kinds of steps. None of `widths`, `noise` and
    `tau` depends on how much the servers differ: a plan that follows them alone keeps the errors of verdicts.
    """

    level: float
    undecided: tuple[str, ...]
    withheld: tuple[str, ...]
    steps: tuple[str, ...] = ()
    widths: Mapping[str, float] = field(default_factory=dict)
    noise: Mapping[str, SliceNoise] = field(default_factory=dict)
    tau: float = MIN_TAU


def look(run: Path, *, on_the_way: bool) -> Seen:
    """The steps whose rates or times are undecided for a subject, judged by the pairs so far.

    Verdicts are at the levels of an analysis `on_the_way`, or at the remaining level if this is the run's last one. `no
    slower` and `no faster` decide nothing here: pairs that end with them because a difference was not seen yet would
    have their sign tested again at the last, much larger level. A step is also undecided if it has too few pairs, or if
    its verdict is withheld for a reason that later pairs may not have: the machine changed in each pair so far, or
    slices strayed. If it is withheld for another reason, or has no ratio, more pairs will not help. Controls are never
    considered.
    """
    from engine.analysis.answer.compare import compared_cells
    from engine.analysis.cells.alpha_spending import levels_on_the_way
    from engine.analysis.ratios import measured_ratios, verdicts

    cells = compared_cells([run])
    (result,) = cells.runs
    interim = result.manifest.design.interim_analyses
    levels = levels_on_the_way(interim, result.whole_repeats) if on_the_way else cells.levels
    cells = replace(cells, levels=levels)
    ratios = verdicts.ratios(cells, measured_ratios.measured(cells))
    rates = [ratio for ratio in ratios if ratio.metric in PRIMARY_METRICS and not ratio.control]
    undecided = {
        ratio.step
        for ratio in rates
        if ratio.verdict in UNCLEAR
        or (ratio.verdict == "none" and 0 < ratio.pairs < MIN_PAIRS)
        or (ratio.verdict == "withheld" and _for_now(cells, ratio))
    }
    withheld = {ratio.step for ratio in rates if ratio.verdict == "withheld"} - undecided
    steps = dict.fromkeys(ratio.step for ratio in rates)
    widths: dict[str, float] = {}
    for ratio in rates:
        if ratio.low and ratio.high:
            widths[ratio.step] = max(widths.get(ratio.step, 0.0), math.sqrt(ratio.high / ratio.low) - 1)
    noise, taus = _noise(cells)
    return Seen(
        cells.levels.differs(),
        tuple(step for step in steps if step in undecided),
        tuple(step for step in steps if step in withheld),
        tuple(steps),
        widths,
        noise,
        min(taus, default=MIN_TAU),
    )


def _for_now(cells: ComparedCells, ratio: Ratio) -> bool:
    from engine.analysis.checks.comparability import steady
    from engine.analysis.ratios.slice_verdicts import STRAYED

    (subject,) = [subject for subject, name in cells.names.items() if name == ratio.subject]
    pairs = cells.pairs(subject, ratio.step)
    drifted = bool(pairs) and not steady(pairs, ratio.step)
    return drifted or all(reason.startswith(STRAYED) for reason in ratio.reasons)


def _noise(cells: ComparedCells) -> tuple[dict[str, SliceNoise], list[float]]:
    """The noise of each sliced step of a fixed length, and for each subject the scatter between pairs of clusters."""
    from engine.analysis.ratios.slice_verdicts import log_ratios, self_check, steps_of
    from engine.analysis.statistics.slice_estimates import by_kind, noise_per_root_second

    noises: dict[str, SliceNoise] = {}
    taus = []
    for subject in (subject for subject in cells.others if not subject.control):
        steps = steps_of(cells, subject)
        ratios = {step: logs for pairs, step in steps if (logs := log_ratios(pairs, step, RATE))}
        inflation = self_check(steps, RATE).inflation
        known = {step: logs for step, logs in ratios.items() if len(logs) >= MIN_PAIRS}
        kinds = [pairs[0][0].steps[step].group for pairs, step in steps if step in known]
        if known:
            taus.append(
                math.sqrt(fmean(step_noise.tau**2 for step_noise in by_kind(kinds, list(known.values()), inflation)))
            )
        for step, logs in ratios.items():
            _widen(noises, step, noise_per_root_second(logs, inflation), logs)
    return noises, taus


def _widen(noises: dict[str, SliceNoise], step: str, spread: float | None, logs: list[LogRatio]) -> None:
    if spread is not None and (step not in noises or spread > noises[step].per_root_second):
        noises[step] = SliceNoise(spread, tuple(ratio.seconds for ratio in logs))

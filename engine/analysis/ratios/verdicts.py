"""Ratios of pairs of cells, with verdicts: which are judged, which are withheld and why, which are worth reporting.

Verdicts (`analysis.ratios.three_sided`) are given in two families, the rates (or times) of all steps and the server CPU
per operation of all steps. In each at most 5% of comparisons name a difference that does not exist, and at most 5%
call something the same, or no slower, that differs by the margin (less than 5% where pairs may be judged again with
others: `analysis.cells.alpha_spending`). Instructions per operation, the time that planning a DELETE takes, and all
quantiles of response times are families of their own. All other metrics are causes: they have no verdict, and those
that differ by the margin or more are marked (by Benjamini and Hochberg's procedure, 5%).

An interval that is printed with a verdict is a 95% interval on its own, except beside `faster` and `slower`: of R
signs that are certain among m, bounds are at the level of a share R / m of the error, so that of those that are quoted
because something was found at most 5% are wrong (Benjamini and Yekutieli, Journal of the American Statistical
Association 100, 2005).

A verdict is withheld, with the reason, if one stands against it in `analysis.ratios.measured_ratios`, or if
- the cells are bimodal, and the ratios differ from the one mode to the other by so much that it could make the effect;
- servers are external, and the user has not accepted that others may use them: there is no verdict then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from engine.analysis.cells.compared_cells import METRICS, NEGLIGIBLE, ComparedCells
from engine.analysis.checks import external_servers
from engine.analysis.ratios import three_sided
from engine.analysis.ratios.measured_ratios import MeasuredRatio, geometric_mean, is_better
from engine.analysis.statistics import inference
from engine.results.averages import mean
from engine.results.comparison import Spread
from engine.results.ratio import ANSWERS, CHANGED, MIN_PAIRS, UNCLEAR, Ratio


@dataclass(frozen=True, slots=True)
class _FamilyPlace:
    """A ratio's place in its family: its shares of the error and the number of tests, or the level of a cause."""

    shares: three_sided.Hypotheses = three_sided.WHOLE
    tests: int = 1
    flagged: float = 0.0


def ratios(cells: ComparedCells, measured: Sequence[MeasuredRatio]) -> tuple[Ratio, ...]:
    judged_ratios = judged(cells, measured)
    subjects = {name: subject for subject, name in cells.names.items()}

    def place(ratio: Ratio) -> tuple[str, ...]:
        return ratio.step, ratio.metric, subjects[ratio.subject].config, subjects[ratio.subject].kernel

    floors = {place(ratio): inference.noise_floor(ratio) for ratio in judged_ratios if ratio.control == "aa"}
    return tuple(replace(ratio, noise_floor=floors.get(place(ratio))) for ratio in judged_ratios)


def judged(cells: ComparedCells, measured: Sequence[MeasuredRatio]) -> list[Ratio]:
    """The verdicts on ratios that are read together."""
    families: dict[tuple[str, str], list[MeasuredRatio]] = {}
    for test in measured:
        if len(test.quotients) > 1:
            families.setdefault(test.family, []).append(test)
    places: dict[int, _FamilyPlace] = {}
    for (primary, _), tests in families.items():
        if primary:
            p_values = [three_sided.p_values(test.estimate, cells.margin, test.metric.better) for test in tests]
            shares = three_sided.shares(p_values, cells.levels)
            for test, given in zip(tests, shares, strict=True):
                part = cells.levels.part(test.estimate.pairs, sliced=bool(test.by_slices))
                places[id(test)] = _FamilyPlace(three_sided.Hypotheses(*(part * share for share in given)), len(tests))
        else:
            level = inference.benjamini_hochberg_level([inference.p_value(test.estimate) for test in tests])
            places |= {id(test): _FamilyPlace(flagged=level) for test in tests}
    by_test = {id(test): _judged(test, cells, places.get(id(test), _FamilyPlace())) for test in measured}
    for tests in families.values():
        certain = sum(by_test[id(test)].differs for test in tests)
        for test in (test for test in tests if by_test[id(test)].verdict in CHANGED):
            # A withheld one is among the certain, too, and left this sign a larger share than is quoted.
            share = max(certain / len(tests), places[id(test)].shares.sign)
            bounds = inference.paired_interval(test.estimate, 1 - cells.levels.differs(share))
            assert bounds.low is not None and bounds.high is not None  # of two pairs or more
            by_test[id(test)] = replace(by_test[id(test)], joint=(bounds.low, bounds.high))
    return list(by_test.values())


def spreads(cells: ComparedCells) -> tuple[Spread, ...]:
    return tuple(
        Spread(step, name, metric.name, **asdict(scatter))
        for step in cells.steps
        for subject, name in cells.names.items()
        for metric in METRICS
        for values in [cells.values(subject, step, metric.name)]
        if (mean(values) or 0.0) > NEGLIGIBLE.get(metric.name, -1.0)  # nothing scatters by nothing
        if (scatter := inference.scatter(values, cells.margin)) is not None
    )


def _judged(measured: MeasuredRatio, cells: ComparedCells, place: _FamilyPlace) -> Ratio:
    """A ratio with its interval and, for a primary metric, its verdict at the levels of its place in its family."""
    metric, blank = measured.metric, measured.blank
    if not measured.quotients:
        return blank
    evidence = measured.estimate
    interval = inference.paired_interval(evidence)
    blank = replace(
        blank, ratio=interval.ratio, low=interval.low, high=interval.high, pairs=interval.pairs,
        better=is_better(interval.ratio, metric),
    )  # fmt: skip
    if external_servers.unjudged(cells):
        return replace(blank, reasons=(*blank.reasons, external_servers.NO_VERDICT))
    if not measured.family[0]:
        certain = interval.pairs >= MIN_PAIRS and inference.p_value(evidence) <= place.flagged
        withheld = bool(blank.reasons)
        flagged = certain and not withheld and abs(interval.ratio - 1) >= cells.margin
        return replace(blank, verdict="withheld" if withheld and interval.pairs > 1 else "none", flagged=flagged)

    def later(more: int) -> three_sided.Hypotheses:
        return three_sided.levels_of(place.shares, cells.levels.later(more))

    test = (evidence, cells.margin, metric.better)
    judgement = three_sided.judge(*test, three_sided.levels_of(place.shares, cells.levels))
    verdict, reasons = judgement.verdict, blank.reasons
    if verdict in ANSWERS and not measured.steps:
        reasons = (*reasons, *_modes(cells, measured))
    if reasons and verdict != "none":
        verdict = "withheld"
    clear = verdict in UNCLEAR and place.tests > 1 and three_sided.judge(*test).verdict != verdict
    return replace(
        blank,
        verdict=verdict,
        reasons=reasons,
        differs=judgement.differs and verdict != "withheld",
        among=place.tests if clear else None,
        more_pairs=three_sided.pairs_needed(evidence, cells.margin, later) if verdict in UNCLEAR else None,
        visible_effect=inference.smallest_visible_effect(evidence, level=cells.levels.differs(1 / place.tests)),
    )


def _modes(cells: ComparedCells, measured: MeasuredRatio) -> list[str]:
    """Two modes among the cells of a side (of each run separately) that could make the effect.

    They could if the ratios of pairs in one mode differ by as much from those in the other. If both sides change their
    mode together, as when the machine slows down midway, they do not, and the pairing has done its work.
    """
    quotients = measured.by_slices or measured.quotients
    effect = max(abs(geometric_mean(quotients) - 1), cells.margin)
    reasons = []
    for place in (0, 1):
        for run in dict.fromkeys(pair[0].run for pair in measured.pairs):
            figures = [
                (pair[place].steps[measured.blank.step].figure(measured.metric.name) or 0.0, quotient)
                for pair, quotient in zip(measured.pairs, quotients, strict=True)
                if pair[0].run == run
            ]
            scatter = inference.scatter([value for value, _ in figures], cells.margin)
            if scatter is None or not scatter.bimodal:
                continue
            low, high = ([quotient for _, quotient in mode] for mode in inference.modes(figures))
            if abs(geometric_mean(high) / geometric_mean(low) - 1) >= effect:
                name = cells.names[measured.pairs[0][place].cell.subject]
                reasons.append(f"bimodal: the cells of {name} lie {scatter.gap:.0%} apart")
    return reasons

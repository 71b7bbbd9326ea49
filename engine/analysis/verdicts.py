"""From pairs of cells to ratios with verdicts: what is judged, what is withheld and why, what is worth saying.

Verdicts are given in two families, the rates (or times) of all steps and the server CPU per operation of all steps.
Each names a difference that does not exist in at most 5 % of comparisons, and calls something the same that differs by
the margin in at most 5 % (Holm's procedure for either; less than 5 % where pairs may be judged again with others:
`engine.analysis.alpha_spending`). Instructions per operation, the time that planning a DELETE takes, and all quantiles
of response times are families of their own. All other metrics are causes: they have no verdict, and those that differ
by the margin or more are marked (by Benjamini and Hochberg's procedure, 5 %).

An interval that is printed with a verdict is a 95 % interval on its own. Those of the differences that are named also
have joint bounds: of R named among m, at the level of a share R / m of the error, so that of the bounds that are quoted
because something was found at most 5 % are wrong (Benjamini and Yekutieli, Journal of the American Statistical
Association 100, 2005).

A verdict is withheld, with the reason, if one stands against it in `engine.analysis.measured_ratios`, or if
- the cells are bimodal, and the ratios differ from the one mode to the other by so much that it could make the effect;
- servers are external, and the user has not accepted that others may use them: there is no verdict then.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from engine.analysis import external_servers, measured_ratios, statistics
from engine.analysis.cells import METRICS, NEGLIGIBLE, ComparedCells
from engine.analysis.measured_ratios import MeasuredRatio, geometric_mean, is_better
from engine.results.averages import mean
from engine.results.comparison import CHANGED, KNOWN, MIN_PAIRS, Ratio, Spread


@dataclass(frozen=True, slots=True)
class _Place:
    """A ratio's place in its family: the levels for `differs` and `same`, the number of tests, the shares of error."""

    differs: float
    same: float
    tests: int = 1
    shares: tuple[float, ...] = (1.0, 1.0)


def ratios(cells: ComparedCells) -> tuple[Ratio, ...]:
    levels = cells.levels
    measured = measured_ratios.measured(cells)
    families: dict[tuple[str, str], list[MeasuredRatio]] = {}
    for each in measured:
        if len(each.quotients) > 1:
            families.setdefault(each.family, []).append(each)
    places: dict[int, _Place] = {}
    for (primary, _), tests in families.items():
        p_values = [statistics.p_value(test.estimate) for test in tests]
        if primary:
            same = [statistics.same_p_value(test.estimate, cells.margin) for test in tests]
            shares = (statistics.holm_shares(p_values, levels.differs), statistics.holm_shares(same, levels.same))
            for test, *own in zip(tests, *shares, strict=True):
                places[id(test)] = _Place(*levels.both(own), len(tests), tuple(own))
        else:
            marked = statistics.benjamini_hochberg_level(p_values)
            places |= {id(test): _Place(marked, 0.0, len(tests)) for test in tests}
    alone = _Place(*levels.both((1.0, 1.0)))
    judged = {id(each): _judged(each, cells, places.get(id(each), alone)) for each in measured}
    for tests in (tests for (primary, _), tests in families.items() if primary):
        named = [test for test in tests if judged[id(test)].verdict in CHANGED]
        for test in named:
            bounds = statistics.paired_interval(test.estimate, 1 - levels.differs(len(named) / len(tests)))
            judged[id(test)] = replace(judged[id(test)], joint_low=bounds.low, joint_high=bounds.high)
    found = list(judged.values())
    floors = {_of(ratio): statistics.noise_floor(ratio) for ratio in found if ratio.control == "aa"}
    return tuple(replace(ratio, noise_floor=floors.get(_of(ratio))) for ratio in found)


def _of(ratio: Ratio) -> tuple[str, ...]:
    return ratio.step, ratio.metric, ratio.config, ratio.kernel


def spreads(cells: ComparedCells) -> tuple[Spread, ...]:
    return tuple(
        Spread(step, name, metric.name, **asdict(scatter))
        for step in cells.steps
        for subject, name in cells.names.items()
        for metric in METRICS
        for values in [cells.values(subject, step, metric.name)]
        if (mean(values) or 0.0) > NEGLIGIBLE.get(metric.name, -1.0)  # nothing scatters by nothing
        if (scatter := statistics.scatter(values, cells.margin)) is not None
    )


def _judged(measured: MeasuredRatio, cells: ComparedCells, place: _Place) -> Ratio:
    """A ratio with its interval and, for a primary metric, its verdict at the level of its place in its family."""
    metric, blank = measured.metric, measured.blank
    if not measured.quotients:
        return blank
    evidence = measured.estimate
    interval = statistics.paired_interval(evidence)
    blank = replace(
        blank, ratio=interval.ratio, low=interval.low, high=interval.high, pairs=interval.pairs,
        better=is_better(interval.ratio, metric),
    )  # fmt: skip
    if external_servers.unjudged(cells):
        return replace(blank, reasons=(*blank.reasons, external_servers.NO_VERDICT))
    if not measured.family[0]:
        certain = interval.pairs >= MIN_PAIRS and statistics.p_value(evidence) <= place.differs
        withheld = bool(blank.reasons)
        flagged = certain and not withheld and abs(interval.ratio - 1) >= cells.margin
        return replace(blank, verdict="withheld" if withheld and interval.pairs > 1 else "none", flagged=flagged)
    judgement = statistics.judge(
        evidence, cells.margin, metric.better, place.differs, place.same,
        later=lambda more: cells.levels.later(more).both(place.shares),
    )  # fmt: skip
    verdict, reasons = judgement.verdict, blank.reasons
    if verdict in KNOWN:
        reasons = (*reasons, *_modes(cells, measured))
    if reasons and verdict != "none":
        verdict = "withheld"
    open_still = verdict == "inconclusive"
    return replace(
        blank,
        verdict=verdict,
        reasons=reasons,
        missing=_missing(measured, interval, cells.margin, place) if open_still else "",
        more_pairs=judgement.more_pairs if open_still else None,
        visible_effect=statistics.smallest_visible_effect(evidence, level=cells.levels.differs(1 / place.tests)),
    )


def _missing(measured: MeasuredRatio, interval: statistics.Interval, margin: float, place: _Place) -> str:
    """What a seemingly clear interval lacks for a verdict; empty for an unclear one."""
    among = f"not sure among {place.tests}" if place.tests > 1 else "not sure"
    if interval.excludes_one():
        certain = statistics.p_value(measured.estimate) <= place.differs
        return f"differs, maybe under {100 * margin:.3g} %" if certain else f"differs, {among}"
    return f"within {100 * margin:.3g} %, {among}" if interval.within(1 - margin, 1 + margin) else ""


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
            own = [
                (pair[place].steps[measured.blank.step].figure(measured.metric.name) or 0.0, quotient)
                for pair, quotient in zip(measured.pairs, quotients, strict=True)
                if pair[0].run == run
            ]
            found = statistics.scatter([value for value, _ in own], cells.margin)
            if found is None or not found.bimodal:
                continue
            low, high = ([quotient for _, quotient in mode] for mode in statistics.modes(own))
            if abs(geometric_mean(high) / geometric_mean(low) - 1) >= effect:
                name = cells.names[measured.pairs[0][place].cell.subject]
                reasons.append(f"bimodal: the cells of {name} lie {found.gap:.0%} apart")
    return reasons

"""From pairs of cells to ratios with verdicts: what is judged, what is withheld and why, what is worth saying.

Verdicts are given in two families, the rates (or times) of all steps and the server CPU per operation of all steps.
Each names a difference that does not exist in at most 5 % of comparisons, and calls something the same that differs by
the margin in at most 5 % (Holm's procedure for either; less than 5 % where pairs may be judged again with others:
`engine.analysis.alpha_spending`). Rates of background workloads belong to the first family: a reader of any rate that
differs may be wrong that often, whichever workload it is of; the p99 of their transactions are a family of their own,
and so are instructions per operation, the time that planning a DELETE takes, and all quantiles of response times. All
other metrics are causes: they have no verdict, and those that differ by the margin or more are marked (by Benjamini and
Hochberg's procedure, 5 %).

An interval that is printed with a verdict is a 95 % interval on its own. Those of the differences that are named also
have joint bounds: of R named among m they are (1 - R level / m) intervals, so that of the bounds that are quoted
because something was found at most 5 % are wrong (Benjamini and Yekutieli, Journal of the American Statistical
Association 100, 2005).

A pair between whose cells the machine changed is left out of every ratio, also one without slices where others were
sliced; one in which a cell lacks a figure is left out of that figure's. A verdict is withheld, with the reason, when
- no pair is left, or the cells are not comparable otherwise (`engine.analysis.comparability`);
- a cell of either side failed its SLA: the rate was bought with inserts that were not made;
- the client was CPU-bound (rates and response times only: the figures per op are still the server's);
- the cells are bimodal, and the ratios differ from the one mode to the other by so much that it could make the effect;
- the two sides were never run side by side;
- servers are external, and the user has not accepted that others may use them: there is no verdict then;
- slices cannot be trusted: a server worked in the other's, clients waited for each other in too much of them, or they
  differ among themselves by far more than their errors (`engine.analysis.slice_verdicts`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace

from engine.analysis import (
    alpha_spending,
    comparability,
    external_servers,
    kernel_differences,
    pooling,
    slice_estimates,
    slice_verdicts,
    statistics,
)
from engine.analysis.cells import NEGLIGIBLE, ComparedCells, Pair
from engine.analysis.interference import StepRatios
from engine.analysis.run_results import StepResult
from engine.core.model import PROBED, Subject
from engine.results.comparison import (
    CHANGED,
    FAMILIES,
    LATENCIES,
    MIN_PAIRS,
    P99,
    PRIMARY_METRICS,
    RATE,
    Metric,
    Ratio,
    Spread,
)
from engine.results.slice_ratio import ratio_of

BY_CLIENTS = frozenset({*PRIMARY_METRICS, *LATENCIES, P99})  # what clients measure


@dataclass(frozen=True, slots=True)
class _Sides:
    """A step of a subject and of its baseline: the pairs that count, and what holds for all their figures."""

    step: str
    subject: Subject
    base: Subject
    pairs: list[Pair]
    reasons: tuple[str, ...]  # why no figure has a verdict
    left_out: tuple[str, ...]  # pairs, and why


@dataclass(frozen=True, slots=True)
class _Measured:
    """A ratio before it is judged among its family, with its pairs."""

    blank: Ratio
    metric: Metric
    quotients: list[float]  # of pairs; empty if there is nothing to judge: then `blank` is all that is said
    pairs: list[Pair] = field(default_factory=list)
    by_slices: list[float] = field(default_factory=list)  # of pairs, if these were interleaved
    pooled: statistics.Estimate | None = None  # by slices
    unadjusted: statistics.Estimate | None = None  # the same without adjustment, where there was one

    @property
    def evidence(self) -> statistics.Evidence:
        return self.pooled or self.quotients

    @property
    def family(self) -> tuple[str, str]:
        """Ratios judged together: a primary metric of all steps, or all causes; controls separately."""
        figure = _figure(self.metric)
        return RATE if figure in PRIMARY_METRICS else FAMILIES.get(figure, ""), self.blank.control


@dataclass(frozen=True, slots=True)
class _Place:
    """A ratio's place in its family: the levels for `differs` and `same`, and the number of tests."""

    differs: float
    same: float
    tests: int


def ratios(cells: ComparedCells) -> tuple[Ratio, ...]:
    metrics = cells.metrics
    measured = [
        each
        for step in cells.steps
        for subject in cells.others
        for sides in [_sides(cells, step, subject)]
        for metric in metrics
        if (each := _measured(cells, sides, metric)) is not None
    ]
    measured = _over_machines(cells, _with_slices(measured))
    families: dict[tuple[str, str], list[_Measured]] = {}
    for each in measured:
        if len(each.quotients) > 1:
            families.setdefault(each.family, []).append(each)
    places: dict[int, _Place] = {}
    for (primary, _), tests in families.items():
        p_values = [statistics.p_value(test.evidence) for test in tests]
        if primary:
            same = statistics.holm_levels(
                [statistics.same_p_value(test.evidence, cells.margin) for test in tests], cells.level
            )
            own = zip(tests, statistics.holm_levels(p_values, cells.level), same, strict=True)
            places |= {id(test): _Place(differs, same, len(tests)) for test, differs, same in own}
        else:
            marked = statistics.benjamini_hochberg_level(p_values)
            places |= {id(test): _Place(marked, 0.0, len(tests)) for test in tests}
    shrink = alpha_spending.shrink(cells.runs)
    alone = _Place(cells.level, cells.level, 1)
    judged = {id(each): _judged(each, cells, places.get(id(each), alone), shrink) for each in measured}
    for tests in (tests for (primary, _), tests in families.items() if primary):
        named = [test for test in tests if judged[id(test)].verdict in CHANGED]
        for test in named:
            bounds = statistics.paired_interval(test.evidence, 1 - cells.level * len(named) / len(tests))
            judged[id(test)] = replace(judged[id(test)], joint_low=bounds.low, joint_high=bounds.high)
    found = list(judged.values())
    floors = {_of(ratio): statistics.noise_floor(ratio) for ratio in found if ratio.control == "aa"}
    return tuple(replace(ratio, noise_floor=floors.get(_of(ratio))) for ratio in found)


def _of(ratio: Ratio) -> tuple[str, ...]:
    return ratio.step, ratio.metric, ratio.config, ratio.kernel, ratio.workload


def counted_pairs(cells: ComparedCells, step: str, subject: Subject) -> list[Pair]:
    return _sides(cells, step, subject).pairs


def spreads(cells: ComparedCells) -> tuple[Spread, ...]:
    metrics = cells.metrics
    return tuple(
        Spread(step, name, metric.name, **asdict(scatter))
        for step in cells.steps
        for subject, name in cells.names.items()
        for metric in metrics
        if (scatter := statistics.scatter(cells.values(subject, step, metric.name), cells.margin)) is not None
    )


def _sides(cells: ComparedCells, step: str, subject: Subject) -> _Sides:
    base = cells.baseline_of(subject)
    everything = cells.pairs(subject, step)
    kept, left = [], []
    for pair in everything:
        moved = comparability.pair_drift(*pair, step)
        if moved:
            left.append(f"{_named(cells, pair)}: {'; '.join(moved)}")
        else:
            kept.append(pair)
    if kept:
        kept, unlike = slice_verdicts.alike(kept, step)
        left += [f"{_named(cells, pair)}: it was not interleaved as others were" for pair in unlike]
    reasons = _common_reasons(cells, step, subject, kept or everything)
    reasons += [reason for pair in kept or everything for reason in slice_verdicts.reasons(pair, step)]
    if not everything:
        reasons.insert(0, "no pairs: the two have no finished cells in the same repeat of a run")
    if everything and not kept:
        return _Sides(step, subject, base, everything, (*left, *reasons), ())
    return _Sides(step, subject, base, kept, tuple(reasons), tuple(f"left out: {each}" for each in left))


def _named(cells: ComparedCells, pair: Pair) -> str:
    of_run = f" of {pair[0].run}" if len(cells.runs) > 1 else ""
    return f"pair {pair[0].cell.repeat}{of_run}"


def _measured(cells: ComparedCells, sides: _Sides, metric: Metric) -> _Measured | None:
    step, subject = sides.step, sides.subject
    base_values, values = (cells.values(side, step, metric.name) for side in (sides.base, subject))
    if not base_values or not values:
        return None
    reasons = (*sides.reasons, *(_saturation(cells, sides, metric) if _figure(metric) in BY_CLIENTS else ()))
    blank = Ratio(
        step, cells.names[subject], metric.name, None, None, None, 0, "none", build=subject.build,
        config=subject.config, kernel=subject.kernel, control=subject.control, workload=subject.workload,
        reasons=reasons, left_out=sides.left_out,
    )  # fmt: skip
    if max(*base_values, *values) <= NEGLIGIBLE.get(metric.name, 0.0):
        return _Measured(replace(blank, reasons=(f"both at most {NEGLIGIBLE.get(metric.name, 0.0):g}",)), metric, [])
    measured = [(pair, found) for pair in sides.pairs if (found := _values(pair, step, metric)) is not None]
    missing = len(sides.pairs) - len(measured)
    if missing:
        blank = replace(
            blank,
            left_out=(*blank.left_out, f"left out: {missing} of {len(sides.pairs)} pairs lack this figure in a cell"),
            pairs_without_figure=missing,
        )
    if not measured:
        if sides.pairs:
            blank = replace(blank, reasons=(*reasons, "no pair has this figure in both its cells"))
        ratio = _geometric_mean(values) / _geometric_mean(base_values) if min(*base_values, *values) > 0 else None
        better = None if ratio is None else _better(ratio, metric)
        return _Measured(replace(blank, ratio=ratio, verdict="withheld", better=better), metric, [])
    if any(base <= 0 or other <= 0 for _, (base, other) in measured):
        none = replace(blank, pairs=len(measured), reasons=("zero in some cells: no ratio",))
        return _Measured(none, metric, [])
    quotients = [other / base for _, (base, other) in measured]
    return _Measured(blank, metric, quotients, [pair for pair, _ in measured])


def _with_slices(measured: list[_Measured]) -> list[_Measured]:
    """Give rates and CPU per operation of interleaved steps what their slices say; steps share their scatter."""
    found = {id(each): each for each in measured}
    subjects: dict[tuple[str, str], list[tuple[_Measured, StepRatios]]] = {}
    for each in measured:
        if (ratios := slice_verdicts.step_ratios(each.pairs, each.blank.step, each.metric.name)) is not None:
            subjects.setdefault((each.blank.subject, each.metric.name), []).append((each, ratios))
    for own in subjects.values():
        check = slice_estimates.self_check([ratio for _, ratios in own for ratio in ratios.own])
        pooled = slice_estimates.pooled([ratios.ratios for _, ratios in own], check.inflation)
        plain_check = slice_estimates.self_check([ratio for _, ratios in own for ratio in ratios.plain_own])
        plain = slice_estimates.pooled([ratios.plain for _, ratios in own], plain_check.inflation)
        for (each, ratios), step, unadjusted in zip(own, pooled.steps, plain.steps, strict=True):
            reasons: list[str] = []
            if check.withheld and check.ratios >= slice_verdicts.LEAST_CHECKS:
                reasons.append(f"{slice_verdicts.STRAYED} by {check.f:.1f} times their error")
            blank = replace(
                each.blank, reasons=(*each.blank.reasons, *reasons),
                estimator="times of statements" if ratios.timed else "totals of slices",
                adjusted_by=ratios.by, not_adjusted_by=ratios.left_out,
            )  # fmt: skip
            found[id(each)] = replace(
                each, blank=blank, pooled=step.estimate, by_slices=[ratio_of(one.theta) for one in ratios.ratios],
                unadjusted=unadjusted.estimate if ratios.by else None,
            )  # fmt: skip
    return [found[id(each)] for each in measured]


def _over_machines(cells: ComparedCells, measured: list[_Measured]) -> list[_Measured]:
    machine_of = pooling.machines_of(cells)
    if len(set(machine_of.values())) < 2:
        return measured
    found = []
    for each in measured:
        logs: dict[str, list[float]] = {}
        if each.quotients:
            for (base, _), quotient in zip(each.pairs, each.by_slices or each.quotients, strict=True):
                logs.setdefault(machine_of[base.run], []).append(math.log(quotient))
        if len(logs) < 2:
            found.append(each)
            continue
        estimate, effect = pooling.over_machines(logs, cells.margin)
        found.append(replace(each, pooled=estimate, blank=replace(each.blank, machines=effect)))
    return found


def _judged(measured: _Measured, cells: ComparedCells, place: _Place, shrink: Callable[[int], float]) -> Ratio:
    """A ratio with its interval and, for a primary metric, its verdict at the level of its place in its family."""
    evidence, metric, blank = measured.evidence, measured.metric, measured.blank
    if not measured.quotients:
        return blank
    interval = statistics.paired_interval(evidence)
    blank = replace(
        blank, ratio=interval.ratio, low=interval.low, high=interval.high, pairs=interval.pairs,
        better=_better(interval.ratio, metric),
    )  # fmt: skip
    if measured.unadjusted is not None:
        plain = statistics.paired_interval(measured.unadjusted)
        blank = replace(blank, unadjusted=plain.ratio, unadjusted_low=plain.low, unadjusted_high=plain.high)
    if external_servers.unjudged(cells):
        return replace(blank, reasons=(*blank.reasons, external_servers.NO_VERDICT))
    if not measured.family[0]:
        certain = interval.pairs >= MIN_PAIRS and statistics.p_value(evidence) <= place.differs
        withheld = bool(blank.reasons)
        flagged = certain and not withheld and abs(interval.ratio - 1) >= cells.margin
        return replace(blank, verdict="withheld" if withheld and interval.pairs > 1 else "none", flagged=flagged)
    judgement = statistics.judge(evidence, cells.margin, metric.better, place.differs, place.same, shrink)
    verdict, reasons = judgement.verdict, blank.reasons
    if verdict in (*CHANGED, "same"):
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
        visible_effect=statistics.smallest_visible_effect(evidence, level=cells.level / place.tests),
    )


def _missing(measured: _Measured, interval: statistics.Interval, margin: float, place: _Place) -> str:
    """What a seemingly clear interval lacks for a verdict; empty for an unclear one."""
    among = f"not sure among {place.tests}" if place.tests > 1 else "not sure"
    if interval.excludes_one():
        certain = statistics.p_value(measured.evidence) <= place.differs
        return f"differs, maybe under {100 * margin:.3g} %" if certain else f"differs, {among}"
    return f"within {100 * margin:.3g} %, {among}" if interval.within(1 - margin, 1 + margin) else ""


def _common_reasons(cells: ComparedCells, step: str, subject: Subject, pairs: Sequence[Pair]) -> list[str]:
    both = (cells.baseline_of(subject), subject)
    reasons = [reason for side in both for reason in comparability.run_reasons(cells.runs, side)]
    for base, other in pairs:
        reasons += comparability.work_reasons(base.steps[step], other.steps[step], base.cell.repeat)
        if subject.control != PROBED:
            reasons += comparability.probe_reasons(base.steps[step], other.steps[step], base.cell.repeat)
    reasons += kernel_differences.reasons(cells.runs, *both)
    observers = {result.totals.observers for side in both for result in cells.of(side, step)}
    known = any(reason.startswith(comparability.DIFFERENT_PROBES) for reason in reasons)
    if subject.control != PROBED and len(observers) > 1 and not known:
        reasons.append(f"{comparability.DIFFERENT_PROBES}: some of the cells were probed, others not")
    for side in both:
        judged = [result.figures["sla"] for result in cells.of(side, step) if result.figures["sla"] is not None]
        passed = sum(sla.passed for sla in judged)
        if passed < len(judged):
            reasons.append(f"SLA: {cells.names[side]} kept up its insert rate in {passed} of {len(judged)} cells")
    return list(dict.fromkeys(reasons))


def _figure(metric: Metric) -> str:
    return metric.name.rpartition(".")[2]


def _saturation(cells: ComparedCells, sides: _Sides, metric: Metric) -> list[str]:
    reasons, load = [], metric.name.rpartition(".")[0]
    for side in (sides.base, sides.subject):
        found = cells.of(side, sides.step)
        roles = {role for result in found for role in result.figures["saturated"]}
        roles = {role for role in roles if load in (role, "") and (load or not _is_further(found, role))}
        if roles:
            bound = ", ".join(sorted(roles))
            reasons.append(f"client CPU-bound (≥ 90 % of a core) with {cells.names[side]}: {bound}")
    return reasons


def _is_further(results: Sequence[StepResult], role: str) -> bool:
    return any(role in result.totals.background for result in results)


def _modes(cells: ComparedCells, measured: _Measured) -> list[str]:
    """Two modes among the cells of a side (of each run separately) that could make the effect.

    They could if the ratios of pairs in one mode differ by as much from those in the other. If both sides change their
    mode together, as when the machine slows down midway, they do not, and the pairing has done its work.
    """
    quotients = measured.by_slices or measured.quotients
    effect = max(abs(_geometric_mean(quotients) - 1), cells.margin)
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
            if abs(_geometric_mean(high) / _geometric_mean(low) - 1) >= effect:
                name = cells.names[measured.pairs[0][place].cell.subject]
                reasons.append(f"bimodal: the cells of {name} lie {found.gap:.0%} apart")
    return reasons


def _values(pair: Pair, step: str, metric: Metric) -> tuple[float, float] | None:
    base, other = (cell.steps[step].figure(metric.name) for cell in pair)
    return None if base is None or other is None else (base, other)


def _geometric_mean(values: Sequence[float]) -> float:
    return ratio_of(sum(math.log(value) for value in values) / len(values))


def _better(ratio: float, metric: Metric) -> bool | None:
    return None if ratio == 1 else (ratio > 1) == (metric.better == "more")

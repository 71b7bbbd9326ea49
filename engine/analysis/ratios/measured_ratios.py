"""The ratios of pairs of cells before they are judged: which pairs count, and the reasons against a verdict.

A pair between whose cells the machine changed is left out of every ratio of a step, also one without slices where
others were sliced, and one whose servers were vacuumed unlike often; one in which a cell lacks a figure is left out of
that figure's. A verdict is withheld, with the reason, when
- no pair is left, or the cells are not comparable otherwise (`analysis.checks.comparability`);
- a cell of either side failed its SLA: the rate was bought with inserts that were not made;
- the client was CPU-bound (rates and response times only: the figures per op are still the server's);
- the two sides were never run side by side;
- slices cannot be trusted: a server worked in the other's, clients waited for each other in too much of them, or they
  differ among themselves by far more than their errors (`analysis.ratios.slice_verdicts`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from engine.analysis.cells import pooling
from engine.analysis.cells.compared_cells import METRICS, NEGLIGIBLE, ComparedCells, Pair
from engine.analysis.checks import comparability, kernel_differences
from engine.analysis.ratios import slice_verdicts
from engine.analysis.statistics import inference, slice_estimates
from engine.core.model import PROBED, Subject
from engine.results.averages import mean
from engine.results.ratio import FAMILIES, LATENCIES, PRIMARY_METRICS, RATE, Metric, Ratio
from engine.results.slice_ratio import LogRatio, ratio_of

BY_CLIENTS = frozenset({*PRIMARY_METRICS, *LATENCIES})  # what clients measure


@dataclass(frozen=True, slots=True)
class _Sides:
    """A step of a subject and of its baseline: the pairs that count, and the facts about all their figures."""

    step: str
    subject: Subject
    base: Subject
    pairs: list[Pair]
    reasons: tuple[str, ...]  # why no figure has a verdict
    left_out: tuple[str, ...]  # pairs, and why


@dataclass(frozen=True, slots=True)
class MeasuredRatio:
    """A ratio before it is judged among its family, with its pairs."""

    blank: Ratio
    metric: Metric
    quotients: list[float]  # of pairs; empty if there is nothing to judge: then `blank` is printed alone
    pairs: list[Pair] = field(default_factory=list)
    by_slices: list[float] = field(default_factory=list)  # of pairs, if these were interleaved
    pooled: inference.Estimate | None = None  # by slices, or over machines or boots
    steps: tuple[str, ...] = ()  # of a group (`analysis.ratios.group_verdicts`)

    @property
    def estimate(self) -> inference.Estimate:
        """Raises ValueError if there is nothing to judge."""
        return self.pooled or inference.estimate(self.quotients)

    @property
    def family(self) -> tuple[str, str]:
        """Ratios judged together: a figure's of all steps, or all causes' (empty); controls separately."""
        name = self.metric.name
        return RATE if name in PRIMARY_METRICS else FAMILIES.get(name, ""), self.blank.control


def measured(cells: ComparedCells) -> list[MeasuredRatio]:
    """The ratios of all subjects in all steps and metrics."""
    ratios = [
        ratio
        for step in cells.steps
        for subject in cells.others
        for sides in [_sides(cells, step, subject)]
        for metric in METRICS
        if (ratio := _measured(cells, sides, metric)) is not None
    ]
    return over_units(cells, _with_slices(ratios))


def counted_pairs(cells: ComparedCells, step: str, subject: Subject) -> list[Pair]:
    return _sides(cells, step, subject).pairs


def _sides(cells: ComparedCells, step: str, subject: Subject) -> _Sides:
    base = cells.baseline_of(subject)
    everything = cells.pairs(subject, step)
    why = comparability.left_out(everything, step)
    left = [f"{_named(cells, pair)}: {reason}" for pair, reason in zip(everything, why, strict=True) if reason]
    kept = [pair for pair, reason in zip(everything, why, strict=True) if not reason]
    if kept:
        kept, unlike = slice_verdicts.alike(kept, step)
        left += [f"{_named(cells, pair)}: it was not interleaved like the other pairs" for pair in unlike]
    reasons = _common_reasons(cells, step, subject, kept or everything)
    reasons += [reason for pair in kept or everything for reason in slice_verdicts.reasons(pair, step)]
    if not everything:
        reasons.insert(0, "no pairs: the two have no finished cells in the same repeat of a run")
    if everything and not kept:
        return _Sides(step, subject, base, everything, (*left, *reasons), ())
    return _Sides(step, subject, base, kept, tuple(reasons), tuple(f"left out: {reason}" for reason in left))


def _named(cells: ComparedCells, pair: Pair) -> str:
    of_run = f" of {pair[0].run}" if len(cells.runs) > 1 else ""
    return f"pair {pair[0].cell.repeat}{of_run}"


def _measured(cells: ComparedCells, sides: _Sides, metric: Metric) -> MeasuredRatio | None:
    step, subject = sides.step, sides.subject
    base_values, values = (cells.values(side, step, metric.name) for side in (sides.base, subject))
    if not base_values or not values:
        return None
    reasons = (*sides.reasons, *(_saturation(cells, sides) if metric.name in BY_CLIENTS else ()))
    blank = Ratio(
        step, cells.names[subject], metric.name, None, None, None, 0, "none", control=subject.control,
        reasons=reasons, left_out=sides.left_out,
    )  # fmt: skip
    negligible = NEGLIGIBLE.get(metric.name, 0.0)
    means = [mean(base_values) or 0.0, mean(values) or 0.0] if negligible else [*base_values, *values]
    if max(means) <= negligible:
        blank = replace(blank, reasons=(f"both at most {negligible:g}{' on average' if negligible else ''}",))
        return MeasuredRatio(blank, metric, [])
    measured = [(pair, both) for pair in sides.pairs if (both := _values(pair, step, metric)) is not None]
    missing = len(sides.pairs) - len(measured)
    if missing:
        blank = replace(
            blank,
            left_out=(*blank.left_out, f"left out: {missing} of {len(sides.pairs)} pairs lack this figure in a cell"),
        )
    if not measured:
        if sides.pairs:
            blank = replace(blank, reasons=(*reasons, "no pair has this figure in both its cells"))
        ratio = geometric_mean(values) / geometric_mean(base_values) if min(*base_values, *values) > 0 else None
        better = None if ratio is None else is_better(ratio, metric)
        return MeasuredRatio(replace(blank, ratio=ratio, verdict="withheld", better=better), metric, [])
    if any(base <= 0 or other <= 0 for _, (base, other) in measured):
        none = replace(blank, pairs=len(measured), reasons=("zero in some cells: no ratio",))
        return MeasuredRatio(none, metric, [])
    quotients = [other / base for _, (base, other) in measured]
    return MeasuredRatio(blank, metric, quotients, [pair for pair, _ in measured])


def _with_slices(measured: list[MeasuredRatio]) -> list[MeasuredRatio]:
    """Give rates and CPU per operation of interleaved steps what their slices say; one kind shares its scatter."""
    by_test = {id(test): test for test in measured}
    subjects: dict[tuple[str, str], list[tuple[MeasuredRatio, list[LogRatio]]]] = {}
    for test in measured:
        if ratios := slice_verdicts.log_ratios(test.pairs, test.blank.step, test.metric.name):
            subjects.setdefault((test.blank.subject, test.metric.name), []).append((test, ratios))
    for members in subjects.values():
        check = slice_verdicts.self_check(
            [(test.pairs, test.blank.step) for test, _ in members], members[0][0].metric.name
        )
        kinds = [test.pairs[0][0].steps[test.blank.step].group for test, _ in members]
        pooled = slice_estimates.by_kind(kinds, [ratios for _, ratios in members], check.inflation)
        for (test, ratios), step in zip(members, pooled, strict=True):
            reasons: list[str] = []
            if check.withheld and check.ratios >= slice_verdicts.LEAST_CHECKS:
                reasons.append(f"{slice_verdicts.STRAYED} by {check.f:.1f} times their error")
            blank = replace(test.blank, reasons=(*test.blank.reasons, *reasons))
            by_slices = [ratio_of(one.theta) for one in ratios]
            by_test[id(test)] = replace(test, blank=blank, pooled=step.estimate, by_slices=by_slices)
    return [by_test[id(test)] for test in measured]


def over_units(cells: ComparedCells, measured: list[MeasuredRatio]) -> list[MeasuredRatio]:
    units = pooling.units_of(cells)
    if units is None:
        return measured
    unit, unit_of = units
    pooled = []
    for test in measured:
        logs: dict[str, list[float]] = {}
        if test.quotients:
            for (base, _), quotient in zip(test.pairs, test.by_slices or test.quotients, strict=True):
                logs.setdefault(unit_of[base.run], []).append(math.log(quotient))
        if len(logs) < pooling.LEAST[unit]:
            pooled.append(test)
            continue
        estimate, effect = pooling.over_units(logs, cells.margin, unit)
        pooled.append(replace(test, pooled=estimate, blank=replace(test.blank, machines=effect)))
    return pooled


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


def _saturation(cells: ComparedCells, sides: _Sides) -> list[str]:
    reasons = []
    for side in (sides.base, sides.subject):
        results = cells.of(side, sides.step)
        roles = {role for result in results for role in result.figures["saturated"]}
        if roles:
            bound = ", ".join(sorted(roles))
            reasons.append(f"client CPU-bound (≥ 90% of a core) with {cells.names[side]}: {bound}")
    return reasons


def _values(pair: Pair, step: str, metric: Metric) -> tuple[float, float] | None:
    base, other = (cell.steps[step].figure(metric.name) for cell in pair)
    return None if base is None or other is None else (base, other)


def geometric_mean(values: Sequence[float]) -> float:
    return ratio_of(sum(math.log(value) for value in values) / len(values))


def is_better(ratio: float, metric: Metric) -> bool | None:
    return None if ratio == 1 else (ratio > 1) == (metric.better == "more")

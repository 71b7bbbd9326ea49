"""From pairs of cells to ratios with verdicts: what is judged, what is withheld and why, what is worth saying.

A verdict is withheld, with the reason, when
- the cells are not of one kind, or the machine changed within a pair (`engine.origins`);
- a cell of either side failed its SLA: the rate was bought with inserts that were not made;
- the client used up its core (rates only: the figures per op are still the server's);
- the cells fall into two modes whose distance could make the effect (statistics: "two modes");
- the two sides were never run side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from engine import likeness, metrics, origins, slowdowns, statistics
from engine.comparison import METRICS, Comparison, Metric, Pair, Ratio, Spread, geometric_mean, pairs
from engine.model import PROBED_ARM, Subject


def complete(comparison: Comparison) -> Comparison:
    """The comparison with its ratios, verdicts and findings."""
    ratios = [
        ratio
        for step in comparison.steps
        for subject in comparison.names
        if subject != comparison.base
        for ratio in _step_ratios(comparison, step, subject)
    ]
    floors = {
        (ratio.step, ratio.metric, ratio.subject.config, ratio.subject.kernel): statistics.noise_floor(_interval(ratio))
        for ratio in ratios
        if ratio.subject.arm == "aa"
    }
    known = tuple(
        replace(ratio, noise_floor=floors.get((ratio.step, ratio.metric, ratio.subject.config, ratio.subject.kernel)))
        for ratio in ratios
    )
    spread = replace(comparison, ratios=known, spreads=_spreads(comparison))
    return replace(
        spread,
        findings=_findings(spread),
        likeness={
            subject: likeness.checks(comparison, subject) for subject in comparison.names if subject != comparison.base
        },
    )


def _spreads(comparison: Comparison) -> tuple[Spread, ...]:
    """How the cells of each subject lie in each metric."""
    found = []
    for step in comparison.steps:
        for subject, name in comparison.names.items():
            for metric in METRICS:
                values = comparison.values(subject, step, metric.name)
                scatter = statistics.scatter(values, comparison.margin)
                if scatter is not None:
                    found.append(Spread(step, name, metric.name, **asdict(scatter)))
    return tuple(found)


def _step_ratios(comparison: Comparison, step: str, subject: Subject) -> list[Ratio]:
    base = comparison.opposite(subject)
    mates = [pair for pair in pairs(comparison.cells, base, subject) if all(step in cell.steps for cell in pair)]
    common = _common_reasons(comparison, step, subject, mates)
    found = []
    for metric in METRICS:
        sides = [comparison.values(side, step, metric.name) for side in (base, subject)]
        if sides[0] and sides[1]:
            found.append(_ratio(comparison, step, subject, metric, mates, common))
    return found


def _ratio(
    comparison: Comparison, step: str, subject: Subject, metric: Metric, mates: Sequence[Pair], common: Sequence[str]
) -> Ratio:
    blank = Ratio(step, subject, comparison.names[subject], metric.name, None, None, None, 0, "none")
    base_values = comparison.values(comparison.opposite(subject), step, metric.name)
    values = comparison.values(subject, step, metric.name)
    if max(*base_values, *values) <= metric.negligible:
        return replace(blank, reasons=(f"both at most {metric.negligible:g}",))
    reasons = [*common, *(_saturation(comparison, step, subject) if metric.name == "rate_per_s" else ())]
    if not mates:
        reasons.insert(0, "the two were never run side by side: no cells of one run and repeat")
        if min(*base_values, *values) <= 0:
            return replace(blank, verdict="withheld", reasons=tuple(reasons))
        ratio = geometric_mean(values) / geometric_mean(base_values)
        return replace(blank, ratio=ratio, verdict="withheld", reasons=tuple(reasons), better=_better(ratio, metric))
    measured = [_values(pair, step, metric) for pair in mates]
    if any(base <= 0 or other <= 0 for base, other in measured):
        return replace(blank, pairs=len(measured), reasons=("zero in some cells: no ratio",))
    ratios = [other / base for base, other in measured]
    judgement = statistics.judge(ratios, comparison.margin, metric.better)
    interval = judgement.interval
    if judgement.verdict in ("faster", "slower", "same"):
        reasons += _modes(mates, step, metric, ratios, comparison)
    verdict = "withheld" if reasons and judgement.verdict != "none" else judgement.verdict
    return replace(
        blank,
        ratio=interval.ratio,
        low=interval.low,
        high=interval.high,
        pairs=interval.pairs,
        verdict=verdict,
        reasons=tuple(reasons),
        more_pairs=judgement.more_pairs if verdict == "inconclusive" else None,
        better=_better(interval.ratio, metric),
    )


def _common_reasons(comparison: Comparison, step: str, subject: Subject, mates: Sequence[Pair]) -> list[str]:
    """Why no figure of this step bears a verdict."""
    reasons = [
        reason
        for side in (comparison.opposite(subject), subject)
        for reason in origins.run_reasons(comparison.runs, side)
    ]
    for base, other in mates:
        reasons += origins.pair_reasons(base, other)
        reasons += origins.work_reasons(base.steps[step], other.steps[step], base.cell.repeat)
        if subject.arm != PROBED_ARM:
            reasons += origins.observer_reasons(base.steps[step], other.steps[step], base.cell.repeat)
    observers = {
        result.totals.observers
        for side in (comparison.opposite(subject), subject)
        for result in comparison.of(side, step)
    }
    if (
        subject.arm != PROBED_ARM
        and len(observers) > 1
        and not any(reason.startswith("unlike observers") for reason in reasons)
    ):
        reasons.append("unlike observers: some of the runs were probed, others not")
    for side in (comparison.opposite(subject), subject):
        passed = comparison.sla(side, step)
        if passed is not None and passed[0] < passed[1]:
            reasons.append(f"SLA: {comparison.names[side]} kept up its insert rate in {passed[0]} of {passed[1]} cells")
    return list(dict.fromkeys(reasons))


def _saturation(comparison: Comparison, step: str, subject: Subject) -> list[str]:
    reasons = []
    for side in (comparison.opposite(subject), subject):
        roles = {role for result in comparison.of(side, step) for role in metrics.saturated(result.totals)}
        if roles:
            reasons.append(
                f"client saturated with {comparison.names[side]}: {', '.join(sorted(roles))} used up its core"
            )
    return reasons


def _modes(
    mates: Sequence[Pair], step: str, metric: Metric, ratios: Sequence[float], comparison: Comparison
) -> list[str]:
    """Two modes among the cells of a side (of each run by itself) that show in the ratios and could make the effect.

    Where both sides change their mode together, as when the machine slows down midway, the ratios lie close and
    the pairing has done its work.
    """
    effect = max(abs(geometric_mean(ratios) - 1), comparison.margin)
    spread = statistics.scatter(ratios, comparison.margin)
    if spread is None or spread.gap < effect:
        return []
    reasons = []
    for place, side in enumerate((mates[0][0].cell.subject, mates[0][1].cell.subject)):
        for run in dict.fromkeys(pair[0].run for pair in mates):
            values = [_values(pair, step, metric)[place] for pair in mates if pair[0].run == run]
            found = statistics.scatter(values, comparison.margin)
            if found is not None and found.two_modes:
                reasons.append(f"two modes: the cells of {comparison.names[side]} lie {found.gap:.0%} apart")
    return reasons


def _findings(comparison: Comparison) -> tuple[str, ...]:
    """What a reader must know beside the tables, one sentence each."""
    found: dict[str, None] = {}
    rates = {(spread.step, spread.name): spread for spread in comparison.spreads if spread.metric == "rate_per_s"}
    for cell in comparison.cells:
        for sentence in cell.drift:
            found[f"drift at {cell.cell.id}: {sentence}"] = None
    for step in comparison.steps:
        for subject, name in comparison.names.items():
            spread = rates.get((step, name))
            if spread is not None and (spread.two_modes or spread.wide):
                two = f"fall into two modes, {spread.gap:.0%} apart"
                found[f"{step}: the cells of {name} {two if spread.two_modes else f'vary by {spread.cv:.0%} (CV)'}"] = (
                    None
                )
            found.update(dict.fromkeys(_short_deletes(comparison, step, subject)))
    found.update(dict.fromkeys(slowdowns.why(comparison)))
    for ratio in comparison.ratios:
        if ratio.subject.arm == "aa" and ratio.verdict in ("faster", "slower") and ratio.ratio is not None:
            found[
                f"{ratio.step}: the base against itself differs by {ratio.ratio - 1:+.1%} in {ratio.metric}; "
                "do not trust effects of that size there"
            ] = None
    return tuple(found)


def _short_deletes(comparison: Comparison, step: str, subject: Subject) -> list[str]:
    deletes = [role for result in comparison.of(subject, step) for role in result.totals.of_kind("delete")]
    short, made = sum(role.short_deletes for role in deletes), sum(role.statements for role in deletes)
    if not short:
        return []
    name = comparison.names[subject]
    return [f"{step}: {short:,} of {made:,} deletes with {name} removed another number of rows than asked for"]


def _values(pair: Pair, step: str, metric: Metric) -> tuple[float, float]:
    base, other = (
        metrics.step_figures(cell.steps[step].kind, cell.steps[step].totals)[metric.name] or 0.0 for cell in pair
    )
    return base, other


def _better(ratio: float, metric: Metric) -> bool | None:
    return None if ratio == 1 else (ratio > 1) == (metric.better == "more")


def _interval(ratio: Ratio) -> statistics.Interval:
    return statistics.Interval(ratio.ratio or 1.0, ratio.low, ratio.high, ratio.pairs)

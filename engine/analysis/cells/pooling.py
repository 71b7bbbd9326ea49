"""Pairs measured on several machines, or in several boots of one: each is a random effect, and an interval covers them.

Runs of several machines are pooled over machines: what a boot adds is part of a machine's effect. Runs of one machine
are pooled over its boots if there are three or more; a run counts for the boot in which it began. Machines or boots are
the units here.

A unit's mean log ratio is y = mu + m + e: m is the unit's effect on the difference (variance tau^2), e the scatter of
its n pairs (s^2 / n, with s^2 pooled over the units). tau^2 is DerSimonian and Laird's (Controlled Clinical Trials 7,
1986), the weights are 1 / (tau^2 + s^2 / n), and the error of the weighted mean is Hartung and Knapp's (Statistics in
Medicine 20, 2001), held against Student's t with k - 1 degrees of freedom for k units. It is never taken for smaller
than 1 / the sum of weights (Roever, Knapp and Friede, BMC Medical Research Methodology 15, 2015): units that agree by
chance do not narrow the interval.

Whether units differ is tested by the F test of a one-way analysis of variance, and which one disagrees by Student's t
of its mean against that of all others, at a level divided by the number of units (Bonferroni). Loads scipy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from engine.analysis.cells.compared_cells import ComparedCells
from engine.analysis.statistics.inference import ALPHA, Estimate, f_tail, t_tails
from engine.results.ratio import PRIMARY_METRICS, Ratio, Unit, UnitEffect
from engine.results.slice_ratio import ratio_of

LEAST: dict[Unit, int] = {"machine": 2, "boot": 3}  # hardly any interval over two boots would give a verdict


@dataclass(frozen=True, slots=True)
class _Group:
    name: str
    count: int
    mean: float


def over_units(logs: Mapping[str, Sequence[float]], margin: float, unit: Unit) -> tuple[Estimate, UnitEffect]:
    """The estimate over units, and those that differ from the others by the `margin` or more."""
    groups = [_Group(name, len(unit_logs), fmean(unit_logs)) for name, unit_logs in logs.items()]
    pairs, units = sum(group.count for group in groups), len(groups)
    degrees = pairs - units
    squares = sum((value - group.mean) ** 2 for group in groups for value in logs[group.name])
    scatter = squares / degrees if degrees else 0.0
    tau_squared = _between(groups, scatter)
    known = scatter > 0 or tau_squared > 0
    weights = [1 / (tau_squared + scatter / group.count) if known else 1.0 for group in groups]
    mean = math.fsum(w * group.mean for w, group in zip(weights, groups, strict=True)) / sum(weights)
    spread = math.fsum(w * (group.mean - mean) ** 2 for w, group in zip(weights, groups, strict=True))
    error_squared = spread / ((units - 1) * sum(weights))
    if known:
        error_squared = max(error_squared, 1 / sum(weights))
    estimate = Estimate(mean, math.sqrt(error_squared * pairs), pairs, units=units)
    disagrees = _disagreeing(groups, scatter, degrees, margin)
    ratios = {group.name: ratio_of(group.mean) for group in groups}
    return estimate, UnitEffect(ratios, math.sqrt(tau_squared), disagrees, unit)


def _between(groups: Sequence[_Group], scatter: float) -> float:
    """tau^2; if no unit has two pairs, or all pairs are equal, the whole scatter of the means."""
    if scatter <= 0:
        return variance([group.mean for group in groups])
    weights = [group.count / scatter for group in groups]
    centre = sum(w * group.mean for w, group in zip(weights, groups, strict=True)) / sum(weights)
    q = sum(w * (group.mean - centre) ** 2 for w, group in zip(weights, groups, strict=True))
    scale = sum(weights) - sum(w * w for w in weights) / sum(weights)
    return max(0.0, (q - (len(groups) - 1)) / scale)


def _disagreeing(groups: Sequence[_Group], scatter: float, degrees: int, margin: float) -> tuple[str, ...]:
    """The units that differ from the others; none if no unit has two pairs."""
    if not degrees or scatter <= 0:
        return ()
    pairs, units = sum(group.count for group in groups), len(groups)
    centre = sum(group.count * group.mean for group in groups) / pairs
    between = sum(group.count * (group.mean - centre) ** 2 for group in groups) / (units - 1)
    if f_tail(between / scatter, units - 1, degrees) > ALPHA:
        return ()
    # One outlier shifts the others' rest: only the farthest is reported, but both if there are two.
    apart = {group.name: _apart(group, centre, pairs) for group in groups}
    errors = {group.name: math.sqrt(scatter * pairs / (group.count * (pairs - group.count))) for group in groups}
    tails = {name: t_tails(apart[name] / error, degrees) for name, error in errors.items()}
    certain = [
        name for name, tail in tails.items()
        if tail * (units if units > 2 else 1) <= ALPHA and abs(ratio_of(apart[name]) - 1) >= margin
    ]  # fmt: skip
    if units > 2:
        certain = sorted(certain, key=lambda name: tails[name])[:1]
    return tuple(certain)


def _apart(group: _Group, centre: float, pairs: int) -> float:
    return (group.mean - centre) * pairs / (pairs - group.count)


def units_of(cells: ComparedCells) -> tuple[Unit, dict[str, str]] | None:
    """The unit that runs are pooled over, and each run's own; None if they are not, or if any recorded none."""
    machines = {run.name: run.machine for run in cells.runs}
    boots = {run.name: run.boot[:8] for run in cells.runs}
    if not all(machines.values()):
        return None
    if len(set(machines.values())) >= LEAST["machine"]:
        return "machine", machines
    return ("boot", boots) if all(boots.values()) and len(set(boots.values())) >= LEAST["boot"] else None


def findings(cells: ComparedCells, judged: Sequence[Ratio]) -> list[str]:
    """The result of pooling pairs of several units, the unit that disagrees, and runs measured in a sandbox."""
    boxed = [run.name for run in cells.runs if run.sandboxed]
    sentences = (
        [f"measured in the sandbox of a Nix build, without root and probes: {', '.join(boxed)}"] if boxed else []
    )
    pooled = [(ratio, ratio.machines) for ratio in judged if ratio.machines and ratio.metric in PRIMARY_METRICS]
    units = units_of(cells)
    if not pooled or units is None:
        return sentences
    unit, unit_of = units
    names = dict.fromkeys(name for _, effect in pooled for name in effect.ratios)
    runs = {name: sum(other == name for other in unit_of.values()) for name in names}
    fewer = (
        f"{ratio.step}: pooled over {len(effect.ratios)} of these {unit}s: {', '.join(effect.ratios)}"
        for ratio, effect in pooled
        if len(effect.ratios) < len(runs)
    )
    apart = filter(None, (_disagreement(ratio.step, effect) for ratio, effect in pooled))
    return [*sentences, _sentence(unit, runs), *dict.fromkeys(fewer), *apart]


def _sentence(unit: Unit, runs: Mapping[str, int]) -> str:
    degrees = len(runs) - 1
    text = (
        f"runs of {len(runs)} {unit}s are pooled: {', '.join(f'{name} ({count})' for name, count in runs.items())}; "
        f"intervals cover {unit}s, each of which is a random effect (error by Hartung and Knapp, Student's t with "
        f"{degrees} degree{'s' if degrees > 1 else ''} of freedom)"
    )
    more = "; with only two they are wide: a third narrows them more than any further run"
    return text + more if degrees == 1 else text


def _disagreement(step: str, effect: UnitEffect) -> str:
    texts = {name: f"{name} ({ratio - 1:+.1%})" for name, ratio in effect.ratios.items()}
    apart = [texts[name] for name in effect.disagrees]
    rest = [text for name, text in texts.items() if name not in effect.disagrees]
    if not apart:
        return ""
    if not rest:
        return f"{step}: the {effect.unit}s disagree: {' and '.join(apart)}"
    return f"{step}: {effect.unit} {' and '.join(apart)} disagrees with {', '.join(rest)}"

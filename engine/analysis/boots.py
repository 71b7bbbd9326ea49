"""How much a ratio of two servers changes from one boot of a machine to the next, which one run cannot show.

Where physical pages lie, on which CPUs the kernel puts interrupts and threads, and what else a boot decides, makes one
server a little faster than another for as long as it lasts. All pairs of a run share that, so their scatter does not
hold it. Runs of a build against itself (A/A), made in several boots, do: their true log ratio is 0, so that

    y = u + e: the boot's effect u (variance tau^2), and the error e of the run's pairs (v).

tau^2 solves Paule and Mandel's equation: the mean of y^2 / (tau^2 + v) over all boots and all steps of a metric is 1.
A step's own y^2 and what all steps make likely are then combined as `engine.analysis.slice_estimates` does with pairs:

    tau_j^2 + v_j = max(v_j, (d0 (tau^2 + v_j) + B S_j^2) / (d0 + B)), with d0 = 2 (tau^2 + v_j) / tau^2, at most 12,

and S_j^2 the mean of y^2 over its B boots. A comparison adds tau_j^2, with d0 + B - 1 degrees of freedom, to the
variance of its mean log ratio; those of the sum are Satterthwaite's. The degrees are those of tau_j^2 + v_j: too many
for tau_j^2 where v_j is the larger part. That they suffice is shown by simulation (tests/perf/boots_coverage.py).

If a comparison's own pairs are of several boots, their scatter has a part of it: of P pairs, n_b in boot b, what is
missing is tau_j^2 (q P - 1) / (P - 1), with q = sum n_b^2 / P^2. That is all of it in one boot, and nothing if each
pair has its own.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, TypeVar

from engine.analysis.statistics import Estimate, SharedError
from engine.core.model import Config
from engine.results.slice_ratio import prior_degrees

LEAST_BOOTS = 3  # fewer say nothing of others

Component = tuple[str, str]  # step, metric
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Control:
    """What an A/A run says of one step and metric, and in which boot."""

    estimate: Estimate
    boot: str


@dataclass(frozen=True, slots=True)
class EarlierControl:
    """A base that was compared with itself in one boot: under what, and its ratios."""

    run: str
    config: Config
    workload: Mapping[str, Any]
    ratios: Mapping[Component, Control]


@dataclass(frozen=True, slots=True)
class BetweenBoots:
    """The standard deviation of a log ratio between boots, as known from A/A runs in this number of `boots`."""

    sd: float
    degrees: float
    boots: int


@dataclass(frozen=True, slots=True)
class _OfBoot:
    """The mean log ratio of all A/A runs of a boot, and its variance within that."""

    theta: float
    variance: float


def between_boots(steps: Mapping[Key, Sequence[Control]]) -> dict[Key, BetweenBoots]:
    """The component of each step of one metric that has A/A runs in at least `LEAST_BOOTS` boots."""
    known = {key: own for key, controls in steps.items() if len(own := _by_boot(controls)) >= LEAST_BOOTS}
    tau_squared = _common([each for own in known.values() for each in own])
    return {key: _of_step(own, tau_squared) for key, own in known.items()}


def widened(estimate: Estimate, component: BetweenBoots, boots: Sequence[Hashable]) -> Estimate:
    """The estimate with the error that its pairs share; `boots` has the boot of each pair."""
    pairs = len(boots)
    if pairs < 2 or not component.sd:
        return estimate
    concentration = sum(count**2 for count in Counter(boots).values()) / pairs**2
    missing = (concentration * pairs - 1) / (pairs - 1)
    if missing <= 0:
        return estimate
    return replace(estimate, shared=SharedError(missing * component.sd**2, component.degrees))


def _by_boot(controls: Sequence[Control]) -> list[_OfBoot]:
    """One value for each boot: its runs are weighted by their precision. The scatter of pairs is that of all runs."""
    degrees = sum(control.estimate.degrees for control in controls)
    if not degrees:
        return []
    scatter = sum(control.estimate.degrees * control.estimate.sd**2 for control in controls) / degrees
    found: dict[str, list[Estimate]] = {}
    for control in controls:
        found.setdefault(control.boot, []).append(control.estimate)
    return [
        _OfBoot(sum(each.pairs * each.mean for each in own) / pairs, scatter / pairs)
        for own in found.values()
        for pairs in [sum(each.pairs for each in own)]
    ]


def _common(boots: Sequence[_OfBoot]) -> float:
    """tau^2 of all steps. The mean falls and is convex in tau^2, so Newton's steps from 0 never pass the root."""
    known, tau_squared = [each for each in boots if each.theta or each.variance], 0.0
    while known:
        totals = [max(tau_squared + each.variance, 1e-18) for each in known]
        terms = [each.theta**2 / total for each, total in zip(known, totals, strict=True)]
        excess = fmean(terms) - 1
        if excess <= 1e-9:
            break
        tau_squared += excess / fmean(term / total for term, total in zip(terms, totals, strict=True))
    return tau_squared


def _of_step(boots: Sequence[_OfBoot], tau_squared: float) -> BetweenBoots:
    count, v = len(boots), fmean(each.variance for each in boots)
    own = fmean(each.theta**2 for each in boots)
    total = tau_squared + v
    prior = prior_degrees(tau_squared, total)
    found = (prior * total + count * own) / (prior + count)
    return BetweenBoots(math.sqrt(max(0.0, found - v)), prior + count - 1, count)

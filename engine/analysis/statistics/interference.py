"""Ratios of slices without what others did on the machine, as far as that was measured and servers cannot cause it.

The ratio stays that of totals. Two covariates of a slice are known (`engine.slices.meter`):
- stolen time, which the machine did not have: the counted time is shorter by it, which is no model;
- others' tasks that wanted a CPU: a control variate. A block's influence on the log of the ratio is regressed on the
  difference of the covariate, other less base, by least squares over all pairs of the step; the adjusted log ratio is
  that at a difference of 0, and its error is computed from the residuals as it is from the influences without it. It
  estimates the same truth whether or not the dependence is linear, because the expected difference is 0.

A covariate is used only where it helps, as seen in ratios whose truth is 1: of a server's outer to its inner slices.
These are other contrasts than those between servers, so that the choice does not depend on the effect. And only where
servers do not cause it: if its difference between the servers is certain, it is left out, and that is said.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from engine.analysis.statistics.slice_estimates import Floats, Slices, halves, sums
from engine.results import slice_ratio
from engine.results.slice_ratio import MIN_BLOCKS, TURNS, LogRatio, Sums, variance_of_mean

STOLEN, TASKS = "stolen time", "others' tasks"
MOST_ERROR = 0.9  # of ratios whose truth is 1, as a share of that without the covariate
CAUSED = 0.01  # p-value of the difference between servers below which they are taken to cause it
MOST_STOLEN = 0.9  # of a slice's counted time: more is a meter's error
DIFFERS, USELESS = "differed between the servers", "would lower the error too little"
FEW = f"fewer than {MIN_BLOCKS} blocks"


@dataclass(frozen=True, slots=True)
class StepRatios:
    """The log ratios of a step's pairs, and those of each server to itself (`own`, whose truth is 1).

    `timed`: the ratios of some are those of statements that last longer than slices. `by` names the covariates by which
    both are adjusted, `left_out` those that are not used, and why; `plain` are the ratios without them.
    """

    ratios: list[LogRatio]
    own: list[LogRatio]
    plain: list[LogRatio]
    by: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    timed: bool = False


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two sides of a ratio, by block, and the difference of a covariate between them."""

    base: Sums
    other: Sums
    difference: Floats

    @property
    def influence(self) -> Floats:
        return np.array(slice_ratio.influence(self.base, self.other))


def step_ratios(pairs: Sequence[tuple[Slices, Slices]]) -> StepRatios:
    """Level 1 of all pairs of a step (base, other). Raises ValueError for a total that is not positive."""
    plain, plain_own = _ratios(pairs, 0.0, 0)
    unadjusted = StepRatios(plain, plain_own, plain)
    known = [name for name in (STOLEN, TASKS) if all(name in side.covariates for pair in pairs for side in pair)]
    moved = [name for name in known if any(np.ptp(side.covariates[name]) > 0 for pair in pairs for side in pair)]
    if not moved:
        return unadjusted
    if any(ratio.variance is None for ratio in plain):
        return replace(unadjusted, left_out=(FEW,))
    by, left_out, adjusted = [], [], list(pairs)
    if STOLEN in moved:
        shorter = [(shortened(base), shortened(other)) for base, other in pairs]
        if _is_caused(pairs, _stolen_share):
            left_out.append(f"{STOLEN} {DIFFERS}")
        elif own_error(shorter, 0.0) <= MOST_ERROR * own_error(pairs, 0.0):
            adjusted = shorter
            by.append(STOLEN)
        else:
            left_out.append(f"{STOLEN} {USELESS}")
    slope = 0.0
    if TASKS in moved:
        found = slope_of(adjusted)
        if _is_caused(pairs, _tasks):
            left_out.append(f"{TASKS} {DIFFERS}")
        elif own_error(adjusted, found) <= MOST_ERROR * own_error(adjusted, 0.0):
            slope = found
            by.append(TASKS)
        else:
            left_out.append(f"{TASKS} {USELESS}")
    ratios, own = _ratios(adjusted, slope, len(by)) if by else (plain, plain_own)
    return StepRatios(ratios, own, plain, tuple(by), tuple(left_out))


def _ratios(
    pairs: Sequence[tuple[Slices, Slices]], slope: float, parameters: int
) -> tuple[list[LogRatio], list[LogRatio]]:
    blocks = sum(len(base.numerators) for base, _ in pairs)
    wider = blocks / (blocks - parameters) if blocks > parameters else 1.0
    own = [_ratio(contrast, slope, 1.0) for contrast in _own_contrasts(pairs)]
    return [_ratio(between(*pair), slope, wider) for pair in pairs], own


def _ratio(contrast: Contrast, slope: float, wider: float) -> LogRatio:
    plain = slice_ratio.log_ratio(contrast.base, contrast.other)
    if plain.variance is None or slope == 0:
        return plain
    theta = plain.theta - slope * float(contrast.difference.mean())
    return LogRatio(theta, wider * variance_of_mean(residuals(contrast, slope).tolist()), plain.blocks)


def residuals(contrast: Contrast, slope: float) -> Floats:
    """What each block moves the log of the ratio, less what the difference of the covariate explains of it."""
    explained = slope * contrast.difference
    return np.asarray(contrast.influence - (explained - explained.mean()))


def between(base: Slices, other: Slices) -> Contrast:
    return Contrast(sums(base), sums(other), _tasks(other) - _tasks(base))


def _own_contrasts(pairs: Sequence[tuple[Slices, Slices]]) -> Iterator[Contrast]:
    """Each server's outer to its inner slices, where something was done in both."""
    for server in (side for pair in pairs for side in pair):
        contrast = _own(server)
        if all(sum(part) > 0 for part in (*contrast.base, *contrast.other)):
            yield contrast


def _own(server: Slices) -> Contrast:
    count = len(server.numerators) // 2
    inner, outer = halves(server)
    difference = np.zeros(count)
    if (tasks := server.covariates.get(TASKS)) is not None:
        four = tasks[: 2 * count].reshape(count, 2 * TURNS)
        difference = (four[:, 0] + four[:, 3] - four[:, 1] - four[:, 2]) / TURNS
    return Contrast(inner, outer, difference)


def _tasks(server: Slices) -> Floats:
    """The mean of a server's two slices, by block."""
    found = server.covariates.get(TASKS)
    return np.zeros(len(server.numerators)) if found is None else np.asarray(found.mean(axis=1))


def _stolen_share(server: Slices) -> Floats:
    return np.asarray(_stolen(server).sum(axis=1) / np.maximum(server.denominators.sum(axis=1), 1.0))


def _stolen(server: Slices) -> Floats:
    return np.clip(server.covariates[STOLEN], 0.0, MOST_STOLEN * server.denominators)


def shortened(server: Slices) -> Slices:
    return Slices(server.numerators, server.denominators - _stolen(server), covariates=server.covariates)


def slope_of(pairs: Sequence[tuple[Slices, Slices]]) -> float:
    """How much a block's log ratio rises for each task more on the other's side, by least squares within pairs."""
    products = squares = 0.0
    for base, other in pairs:
        contrast = between(base, other)
        difference = contrast.difference - contrast.difference.mean()
        products += float(difference @ contrast.influence)
        squares += float(difference @ difference)
    return products / squares if squares > 0 else 0.0


def own_error(pairs: Sequence[tuple[Slices, Slices]], slope: float) -> float:
    """The root mean square of what blocks move ratios whose truth is 1, with so much of them explained."""
    squares, count = 0.0, 0
    for contrast in _own_contrasts(pairs):
        left = residuals(contrast, slope)
        squares, count = squares + float(left @ left), count + len(left)
    return math.sqrt(squares / count) if count else 0.0


def _is_caused(pairs: Sequence[tuple[Slices, Slices]], covariate: Callable[[Slices], Floats]) -> bool:
    """Whether the covariate differs between the servers by more than chance, over all pairs."""
    total = variance = 0.0
    for base, other in pairs:
        difference = covariate(other) - covariate(base)
        total += float(difference.mean())
        variance += variance_of_mean((difference - difference.mean()).tolist())
    return abs(total) > NormalDist().inv_cdf(1 - CAUSED / 2) * math.sqrt(variance)

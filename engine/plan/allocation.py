"""The division of the rest of an adaptive run: the number of pairs to come, and the length of each step in them.

Time goes to the steps that are still undecided. Those whose length is free share it by Neyman's rule: in proportion to
the standard deviation of their log ratio per root second, as a second costs the same in each (Neyman 1934). More pairs
or longer ones: the number is chosen for which widths are the smallest, on average over the open steps and in
proportion, as each further pair costs its clusters, loads and index builds once more. Without a time limit all planned
pairs are to come, and open steps are as long as planned.

Steps that others depend on, and steps of a given work, are the same in all pairs. Lengths follow from earlier widths
only, never from a ratio: to measure longer where it seems to differ would choose the result. That a known step is
left out does depend on its ratio; interim analyses pay for that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from engine.core.errors import UserError
from engine.core.model import Manifest
from engine.results.slice_ratio import MOST_PRIOR_DEGREES, prior_degrees
from workloads import workload
from workloads.api.base import planned_seconds

LONGEST = 8  # times its planned length is a step at most
LEAST_PAIRS = 4  # in all, if there is time: each of two servers is the first as often, and each step has a scatter
MOST_TRIED = 1000  # pairs to come
BISECTIONS, ROUNDING = 30, 1e-5  # for lengths in whole seconds
AMONG_STEPS = 2.9  # normal quantile of a verdict among ten steps


@dataclass(frozen=True, slots=True)
class OpenStep:
    """A step of free length that is undecided: its `planned` seconds, and the lengths of its pairs so far.

    `noise` is the standard deviation of its log ratio in a pair of one second; None if that is not known yet.
    """

    planned: int
    noise: float | None = None
    lengths_s: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Budget:
    """The time left, and the time of a pair: besides its open steps, and for each second of theirs on one server."""

    left_s: float  # infinite without a limit
    besides_s: float
    per_second: float


@dataclass(frozen=True, slots=True)
class Rest:
    """Pairs to come, what each takes, and the seconds of its open steps.

    `narrowing` is by how much each open step's width will have shrunk by the end, as a factor.
    """

    pairs: int
    pair_s: float
    seconds: Mapping[str, int]
    narrowing: Mapping[str, float]


def planned_lengths(manifest: Manifest) -> dict[str, int]:
    """Steps whose length may differ from pair to pair, with the planned seconds of active time on each server."""
    steps = workload(manifest.workload["name"]).steps(manifest.workload)
    return {step.name: seconds for step in steps if (seconds := planned_seconds(step))}


def check(lengths: Mapping[str, float], planned: Mapping[str, int], table: str = "event") -> None:
    """Raise UserError for lengths, recorded in a `table` of the journal, that were never decided."""
    for name, seconds in lengths.items():
        usual = planned.get(name, 0)
        if seconds and not usual <= seconds <= LONGEST * usual:
            raise UserError(
                f"journal.db: table {table}: plan: {name} of {seconds:g} s: it is of {usual} to {LONGEST * usual} s"
            )


def divide(steps: Mapping[str, OpenStep], fixed: int, budget: Budget, tau: float, pairs: int, most: int) -> Rest:
    """Divide the time left. `fixed` is the number of open steps of a given length, `pairs` that of pairs so far.

    At most `most` pairs are to come; none if not even one of planned lengths fits. `tau` is the standard deviation of
    log ratios between pairs of clusters.
    """
    unlimited = math.isinf(budget.left_s)
    planned = {name: step.planned for name, step in steps.items()}
    best: tuple[bool, float, int, dict[str, int]] | None = None
    for count in range(1, 1 + (0 if unlimited else min(most, MOST_TRIED))):
        room_s = (budget.left_s / count - budget.besides_s) / budget.per_second
        if room_s < sum(planned.values()):
            break
        seconds = _lengths(steps, room_s)
        widths = [_width(step, tau, count, seconds[name]) for name, step in steps.items() if step.noise is not None]
        unlike = math.log(_student(MOST_PRIOR_DEGREES + pairs + count - 1) / math.sqrt(pairs + count))
        score = sum(map(math.log, widths)) + (fixed + len(steps) - len(widths)) * unlike
        # Enough pairs before narrow ones; among equals the fewest.
        candidate = (pairs + count < LEAST_PAIRS, score if pairs + count >= LEAST_PAIRS else -count, count, seconds)
        if best is None or candidate[:2] < best[:2]:
            best = candidate
    count, seconds = best[2:] if best is not None else (most if unlimited else 0, planned)
    pair_s = budget.besides_s + budget.per_second * sum(seconds.values())
    return Rest(count, pair_s, seconds, {name: _narrowing(steps[name], tau, count, seconds[name]) for name in steps})


def shrinks(pairs: int, more: int) -> float:
    """Factor by which more pairs like those so far narrow an interval."""
    return math.sqrt(pairs / (pairs + more)) if pairs else 1.0


def _lengths(steps: Mapping[str, OpenStep], room_s: float) -> dict[str, int]:
    """Neyman's rule within limits: what a step at a limit does not take, or takes in addition, the others share."""

    def at(scale: float) -> dict[str, float]:
        return {
            name: min(LONGEST * step.planned, max(step.planned, scale * step.noise)) if step.noise else step.planned
            for name, step in steps.items()
        }

    low, high = 0.0, max((LONGEST * step.planned / step.noise for step in steps.values() if step.noise), default=0.0)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(at(middle).values()) <= room_s else (low, middle)
    lengths = at(high) if sum(at(high).values()) <= room_s else at(low)
    return {name: int(seconds + ROUNDING) for name, seconds in lengths.items()}


def _width(step: OpenStep, tau: float, count: int, seconds: float) -> float:
    """Half the interval at which a step is judged, up to a factor: fewer pairs cost degrees of freedom, too."""
    error, pairs = _error(step, tau, count, seconds), len(step.lengths_s) + count
    return error * _student(prior_degrees(tau**2, pairs * error**2) + pairs - 1)


def _student(degrees: float) -> float:
    """The quantile of Student's t that belongs to `AMONG_STEPS` of the normal distribution (Cornish and Fisher)."""
    z = AMONG_STEPS
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)


def _error(step: OpenStep, tau: float, count: int, seconds: float) -> float:
    """The standard error of the weighted mean log ratio once this number of pairs has been added."""
    assert step.noise is not None
    certainty = sum(1 / (tau**2 + step.noise**2 / length) for length in step.lengths_s)
    return 1 / math.sqrt(certainty + count / (tau**2 + step.noise**2 / seconds))


def _narrowing(step: OpenStep, tau: float, count: int, seconds: float) -> float:
    if step.noise is None or not step.lengths_s or not count:
        return shrinks(len(step.lengths_s), count)
    return _error(step, tau, count, seconds) / _error(step, tau, 0, seconds)

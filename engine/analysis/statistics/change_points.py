"""Changes of the rate within one step: from when to when it had which level.

The likeliest place of a change of the mean is where the cumulated deviation from it is largest, in units of its
standard error (CUSUM: Page 1955; its place: Hinkley 1970). How large that would be without any change is seen in the
same seconds in random order (a permutation test): a step whose seconds are independent is flagged in at most `LEVEL` of
cases. Further changes are sought in both parts (binary segmentation: Scott and Knott 1974).

Seconds of a real server are not independent, and differ by more than chance, so levels must also be apart by
`LEAST_GAP`, and by their own widths. Two levels are two if Ashman's D is above 2 (Ashman, Bird and Zepf 1994); here it
has to be twice that, as widths look too small if a second is like the one before. False flags are simulated in
tests/perf/coverage.py: of steps whose seconds keep half the deviation of the one before, at most 4 in 100.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from engine.analysis.statistics.metrics import SLIVER_NS
from engine.journal.reader import JournalReader
from engine.journal.rows import StepRow
from engine.journal.totals import progress
from workloads.api.base import role_kind

LEVEL = 0.01  # how often a step without a change may be flagged
ORDERS = 999  # random ones
AT_ONCE = 100  # of them
LEAST = 3  # seconds of a level
LEAST_GAP = 0.1  # between two levels, as a part of the higher
LEAST_D = 4.0

Seconds = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Level:
    """A rate that a step held for a while, in seconds since it began."""

    from_s: float
    until_s: float
    rate_per_s: float


def levels(rates: Sequence[tuple[float, float]]) -> tuple[Level, ...]:
    """The levels of a step's rates, each rate with the end of its second; levels not clearly apart are joined."""
    if not rates:
        return ()
    values = np.array([rate for _, rate in rates])
    edges = [0, *sorted(_changes(values, 0)), len(values)]
    parts = list(itertools.pairwise(edges))
    kept = [parts[0]]
    for first, last in parts[1:]:
        if _are_two(values[slice(*kept[-1])], values[first:last]):
            kept.append((first, last))
        else:
            kept[-1] = (kept[-1][0], last)
    began = [0.0, *(ended for ended, _ in rates)]
    return tuple(Level(began[first], began[last], float(values[first:last].mean())) for first, last in kept)


def rates_of(reader: JournalReader, step: StepRow) -> list[tuple[float, float]]:
    """A step's rate by second, without the sliver at its end, over all connections: (seconds since it began, rate)."""
    primary = step.primary_metric
    kinds = {role.id: role_kind(role.name) for role in reader.roles(step.id)}
    counts = reader.counts(step.id) if primary is not None else []
    rates = []
    for t_ns, tick in groupby(counts, attrgetter("t_ns")):
        of_role = [count for count in tick if primary is not None and kinds.get(count.role_id) == primary.role]
        length_ns = max((count.dt_ns for count in of_role), default=0)
        if length_ns >= SLIVER_NS and primary is not None:
            done = sum(progress(primary.role, count) for count in of_role)
            rates.append(((t_ns - step.started_ns) / 1e9, done * 1e9 / length_ns))
    return rates


def _changes(values: Seconds, offset: int) -> Iterable[int]:
    if len(values) < 2 * LEAST:
        return
    statistic = _statistic(values[None, :])[0]
    place = int(statistic.argmax())
    random = np.random.default_rng(len(values))  # the same for the same seconds
    exceeded = 0
    for first in range(0, ORDERS, AT_ONCE):
        orders = random.permuted(np.tile(values, (min(AT_ONCE, ORDERS - first), 1)), axis=1)
        exceeded += int((_statistic(orders).max(axis=1) >= statistic[place] * (1 - 1e-9)).sum())
        if (exceeded + 1) / (ORDERS + 1) > LEVEL:
            return  # whatever the other orders are
    change = place + LEAST
    yield from _changes(values[:change], offset)
    yield offset + change
    yield from _changes(values[change:], offset + change)


def _statistic(orders: Seconds) -> Seconds:
    """The deviation of each row's sum from its expectation, in standard errors, for each place to split it."""
    count = orders.shape[1]
    places = np.arange(LEAST, count - LEAST + 1)
    summed = np.cumsum(orders - orders.mean(axis=1, keepdims=True), axis=1)[:, places - 1]
    statistic: Seconds = np.abs(summed) / np.sqrt(places * (count - places) / count)
    return statistic


def _are_two(one: Seconds, other: Seconds) -> bool:
    apart, higher = abs(one.mean() - other.mean()), max(one.mean(), other.mean())
    widths = math.sqrt(one.var() + other.var())
    return bool(apart > LEAST_GAP * higher and math.sqrt(2) * apart > LEAST_D * widths)

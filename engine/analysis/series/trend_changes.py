"""Lasting changes of level in a series of points, with a stated rate of false ones.

The strongest step, and the strongest stretch between a step and the step back, are sought at all places, by the t
of the difference of means (circular binary segmentation: Olshen et al. 2004). The strongest without any change is
simulated, so p is that of the maximum, not of a place that was chosen by it. Points drift: machines do not return to
their mean from one night to the next. Estimated from thirty points such a memory is a guess, and a low guess is a false
change, so the simulated points always have `MEMORY`; those that remember less are flagged less often.

`LEVEL` is for all series that are examined together: each has an equal share (Bonferroni), and a part between two
changes its share by length, so looking further costs nothing. tests/perf/coverage.py simulates it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import cache
from statistics import fmean

import numpy as np
import numpy.typing as npt

LEVEL = 0.03  # of the 5% promised; the rest is for tails heavier than normal ones, and for the error of the simulation
MEMORY = 0.5  # of the deviation of the point before (AR(1))
LEAST = 3  # points of a level: one odd night is not a change
SHARES = {"step": 0.8, "stretch": 0.2}  # of the level: a change that stayed is wanted more than one that went
FEWEST = 2 * LEAST  # points of a series in which there can be one
DRAWS = 40_000  # simulated series
AT_ONCE = 2000  # of them
WEAK = 16.0  # a squared t that is negligible for any number of points: nothing need be simulated
LONGEST = 60  # longest simulated series: beyond that, t of the strongest hardly depends on the length

Rows = npt.NDArray[np.float64]
Place = npt.NDArray[np.int64]


def changes(values: Sequence[float], among: int, margin: float) -> list[tuple[int, float]]:
    """Beginnings of new levels, each with its p, corrected for place, part and the number of series, `among`.

    Neighbouring levels that differ by less than `margin`, a fraction, are one.
    """
    row = np.array(values, dtype=np.float64)
    by_place = dict(_within(row, 0, among * len(row)))
    while by_place:
        means = [level for *_, level in levels(values, sorted(by_place))]
        apart = [abs(after - before) / abs(before) if before else 0.0 for before, after in itertools.pairwise(means)]
        least = min(range(len(apart)), key=apart.__getitem__)
        if apart[least] >= margin > 0 or apart[least] > margin:
            break
        del by_place[sorted(by_place)[least]]
    return sorted(by_place.items())


def levels(values: Sequence[float], places: Sequence[int]) -> list[tuple[int, int, float]]:
    """The first point of each level, the one after its last, and its mean."""
    edges = [0, *places, len(values)]
    return [(first, end, fmean(values[first:end])) for first, end in itertools.pairwise(edges)]


def _within(row: Rows, offset: int, points: int) -> Iterator[tuple[int, float]]:
    """The changes in a part that begins at `offset`, of `points` in all series."""
    if len(row) < FEWEST or np.ptp(row) == 0:
        return
    for shape, share in SHARES.items():
        (strength,), (first,), (end,) = _strongest(row[None, :], shape)
        if strength < WEAK:
            continue
        p = p_value(strength, min(len(row), LONGEST), shape) / share * points / len(row)
        if p <= LEVEL:
            edges = [edge for edge in (int(first), int(end)) if edge]
            yield from ((offset + edge, p) for edge in edges)
            for start, stop in itertools.pairwise([0, *edges, len(row)]):
                yield from _within(row[start:stop], offset + start, points)
            return


def p_value(strength: float, count: int, shape: str) -> float:
    """The probability that as many points without a change show one so strong."""
    without = _without(count, shape)
    return float(len(without) - np.searchsorted(without, strength * (1 - 1e-9)) + 1) / (len(without) + 1)


@cache
def _without(count: int, shape: str) -> Rows:
    """The largest strengths, sorted, by chance in as many points without a change."""
    random, gaps = np.random.default_rng(count), []
    for _ in range(DRAWS // AT_ONCE):
        rows = random.standard_normal((AT_ONCE, count))
        rows[:, 0] /= math.sqrt(1 - MEMORY**2)
        for point in range(1, count):
            rows[:, point] += MEMORY * rows[:, point - 1]
        gaps.append(_strongest(rows, shape)[0])
    return np.sort(np.concatenate(gaps))


def _strongest(rows: Rows, shape: str) -> tuple[Rows, Place, Place]:
    """The squared t of each row's strongest step or stretch, and its edges; a step's edge is the second."""
    count, row_numbers = rows.shape[1], np.arange(len(rows))
    centred = rows - rows.mean(axis=1, keepdims=True)
    sums = np.concatenate([np.zeros((len(rows), 1)), np.cumsum(centred, axis=1)], axis=1)
    best, first, end = np.zeros(len(rows)), np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    lengths = np.arange(LEAST, count - LEAST + 1)
    per_square = count / (lengths * (count - lengths))
    for start in range(LEAST, count - 2 * LEAST + 1) if shape == "stretch" else (0,):
        apart = sums[:, start + LEAST : count - LEAST + 1] - sums[:, start : start + 1]
        explained = apart**2 * per_square[: apart.shape[1]]
        place = explained.argmax(axis=1)
        highest = explained[row_numbers, place]
        higher = highest > best
        if higher.any():
            best[higher], first[higher], end[higher] = highest[higher], start, start + LEAST + place[higher]
    with np.errstate(divide="ignore"):
        return best * (count - 2) / np.maximum((centred**2).sum(axis=1) - best, 0.0), first, end

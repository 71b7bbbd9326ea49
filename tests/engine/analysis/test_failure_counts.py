"""The search by cells that fail: over drawn cells, with ends that always fail, or only sometimes."""

from __future__ import annotations

import random

import pytest

from engine.analysis import bisection, failure_counts
from engine.analysis.failure_counts import Count, Counts


def drawn(chance: random.Random, share: float, cells: int) -> Count:
    return Count(sum(chance.random() < share for _ in range(cells)), cells)


def search(chance: random.Random, first: int, count: int, shares: tuple[float, float], pairs: int = 3) -> range:
    """What is found among so many commits, whose cells fail by the first share before `first`, and then by the other.

    The ends are measured twice before, as three cells of each do not suffice to be sure that they differ.
    """

    def measured(index: int) -> Counts:
        good, bad = (drawn(chance, share, pairs) for share in shares)
        return Counts(good, bad, drawn(chance, shares[index >= first], pairs))

    ends = Counts(*(drawn(chance, share, 2 * pairs) for share in shares))
    judged: list[tuple[int, Counts]] = []
    parts = bisection.groups(count, ())
    while True:
        now = bisection.belief(count, failure_counts.weighed(ends, judged))
        if (found := bisection.found_in(now, parts, 0.05)) is not None:
            return found
        place = bisection.next_commit(now, parts)
        judged.append((place, measured(place)))


@pytest.mark.parametrize("shares", [(0.0, 1.0), (0.05, 0.95), (0.0, 0.6), (0.2, 0.9)])
def test_the_commit_is_found_as_often_as_is_said(shares: tuple[float, float]) -> None:
    chance, right = random.Random(5), 0
    for _ in range(200):
        first = chance.randint(1, 30)
        right += first in search(chance, first, 30, shares)
    assert right >= 200 * (0.99 if shares == (0.0, 1.0) else 0.93)


def test_what_all_cells_show_weighs_more_the_more_the_ends_are_known() -> None:
    judged = (4, Counts(Count(0, 3), Count(3, 3), Count(3, 3)))
    weights = [
        failure_counts.weighed(Counts(Count(0, each), Count(each, each)), [judged])[0][1] for each in (3, 6, 300)
    ]
    assert weights == sorted(weights) and 3 < weights[0] < weights[-1] <= bisection.MOST_WEIGHT
    (_, good), (_, even) = failure_counts.weighed(
        Counts(Count(0, 6), Count(6, 6)), [(2, Counts(Count(0, 3), Count(3, 3), Count(seen, 3))) for seen in (0, 2)]
    )
    assert good < -3 and abs(even) < 3


def test_ends_differ_by_fishers_exact_test() -> None:
    assert failure_counts.p_value(Count(0, 3), Count(3, 3)) == pytest.approx(1 / 20)
    assert failure_counts.p_value(Count(0, 6), Count(6, 6)) == pytest.approx(1 / 924)
    assert failure_counts.p_value(Count(3, 3), Count(3, 3)) == failure_counts.p_value(Count(0, 3), Count(0, 3)) == 1


def test_looks_at_ends_that_are_alike_keep_their_level_together() -> None:
    from engine.bisect.ends import LEVELS
    from engine.core.model import LEVEL

    chance, wrong = random.Random(11), 0
    for _ in range(2000):
        good, bad = Count(0, 0), Count(0, 0)
        for level in LEVELS:
            good, bad = good + drawn(chance, 0.5, 3), bad + drawn(chance, 0.5, 3)
            if failure_counts.p_value(good, bad) <= level:
                wrong += 1
                break
    assert wrong <= 2000 * LEVEL

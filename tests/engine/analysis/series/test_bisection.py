"""The search by itself: hundreds of them over made noise, with commits that do not build and others that are mended."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from engine.analysis.series import bisection
from engine.analysis.series.bisection import CommitJudgement, Ends

PLANTED = math.log(0.95)


def search(
    chance: random.Random, levels: Sequence[float], broken: set[int], noise: float, pairs: int = 3, error: float = 0.05
) -> tuple[range, int]:
    """The commit found among log ratios to the first, and the number of judgements.

    `noise` is the standard deviation of one server's log rate.
    """
    count = len(levels) - 1

    def measured(index: int) -> tuple[tuple[float, float], ...]:
        rows = [[level + chance.gauss(0, noise) for level in (0.0, levels[index], levels[-1])] for _ in range(pairs)]
        return tuple((tried - good, bad - good) for good, tried, bad in rows)

    ends = Ends(tuple(bad for _, bad in measured(count)))
    judged: list[CommitJudgement] = []
    after = 0
    while True:
        weighed = bisection.weighed(ends, judged)
        now, parts = bisection.belief(count, weighed, after), bisection.groups(count, broken, after)
        place = bisection.found_in(now, parts, error)
        if place is None:
            index = bisection.next_commit(now, parts)
        else:
            look = bisection.to_look_back(place, count, broken, bisection.weights(weighed))
            if look is None:
                return place, len(judged)
            index = look
        assert index not in broken and 0 < index < count
        judged.append(CommitJudgement(index, measured(index)))
        weight = bisection.weights(bisection.weighed(ends, judged))[index]
        if place is not None and weight < -math.log(bisection.LOOKS_BACK / error):
            after = index


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "least"), [(0.005, 0.99), (0.015, 0.95), (0.03, 0.93)])
def test_the_commit_is_found_as_often_as_is_said(noise: float, least: float) -> None:
    chance, right, took = random.Random(7), 0, 0
    for _ in range(200):
        first = chance.randint(1, 30)
        levels = [0.0 if index < first else PLANTED for index in range(31)]
        place, judgements = search(chance, levels, set(chance.sample(range(1, 30), 2)), noise)
        right, took = right + (first in place), took + judgements
    assert right >= 200 * least
    assert took <= 200 * (11 if noise < 0.02 else 20)


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "least"), [(0.007, 0.95), (0.03, 0.93)])
def test_one_that_a_later_commit_mends_is_passed_over(noise: float, least: float) -> None:
    chance, right, tried = random.Random(7), 0, 0
    while tried < 200:
        first, planted = chance.randint(1, 30), chance.randint(1, 29)
        mended = chance.randint(planted + 1, 30)
        if planted < first <= mended:  # then all from the first of both on are slow
            continue
        levels = [PLANTED * ((index >= first) + (planted <= index < mended)) for index in range(31)]
        tried, right = tried + 1, right + (first in search(chance, levels, set(), noise)[0])
    assert right >= 200 * least


def test_what_does_not_build_is_found_with_the_next_that_does() -> None:
    assert bisection.groups(6, {2, 3, 5}) == [range(1, 2), range(2, 5), range(5, 7)]
    assert bisection.groups(6, {6}, after=4) == [range(5, 6), range(6, 7)]
    levels = [0.0, 0.0, PLANTED, PLANTED, PLANTED, PLANTED, PLANTED]
    assert search(random.Random(1), levels, {2, 3}, 0.002)[0] == range(2, 5)


def test_later_evidence_takes_the_search_back() -> None:
    ends = Ends((PLANTED, PLANTED * 1.02, PLANTED * 0.98))
    misled = CommitJudgement(4, ((PLANTED, PLANTED),) * 3)
    better = [CommitJudgement(4, ((0.0, PLANTED),) * 3)] * 2
    assert max(bisection.belief(8, bisection.weighed(ends, [misled])).first[4:]) < 0.01
    assert sum(bisection.belief(8, bisection.weighed(ends, [misled, *better])).first[4:]) > 0.99


def test_two_changes_of_half_the_size_are_told_from_noise() -> None:
    chance, ends = random.Random(3), Ends((PLANTED, PLANTED * 1.01, PLANTED * 0.99))

    def judged(level: float, count: int) -> list[CommitJudgement]:
        return [
            CommitJudgement(
                4, tuple((level + chance.gauss(0, 0.003), PLANTED + chance.gauss(0, 0.003)) for _ in range(3))
            )
            for _ in range(count)
        ]

    for count, between in ((1, False), (4, True)):
        hits = [bisection.is_between(4, ends, judged(PLANTED / 2, count)) for _ in range(50)]
        assert sum(hits) > 25 if between else not any(hits)
    for level in (0.0, PLANTED, 2 * PLANTED):
        assert not any(bisection.is_between(4, ends, judged(level, 4)) for _ in range(50))

"""Rates that change within a step, and those that only scatter."""

from __future__ import annotations

import random

import pytest

from engine.analysis.statistics.change_points import levels


def seconds(*rates: float, noise: float = 0.03, seed: int = 1) -> list[tuple[float, float]]:
    draws = random.Random(seed)
    return [(place + 1.0, rate * (1 + draws.gauss(0, noise))) for place, rate in enumerate(rates)]


@pytest.mark.parametrize(
    ("rates", "edges"),
    [
        ([31_000.0] * 14 + [10_900.0] * 16, [14]),
        ([100.0] * 20 + [140.0] * 20 + [100.0] * 20, [20, 40]),
        ([100.0] * 5 + [50.0] * 5, [5]),  # the shortest step in which two levels can be told from chance
        ([100.0] * 56 + [150.0] * 4, [56]),
        ([0.0] * 10 + [100.0] * 10, [10]),
    ],
)
def test_levels_are_found_with_their_seconds(rates: list[float], edges: list[int]) -> None:
    stretches = levels(seconds(*rates))
    assert [level.from_s for level in stretches] == [0, *edges] and stretches[-1].until_s == len(rates)
    for level in stretches:
        assert level.rate_per_s == pytest.approx(rates[int(level.from_s)], rel=0.05, abs=0.1)


@pytest.mark.parametrize(
    "rates",
    [
        [],
        seconds(100.0, 50.0),
        seconds(*[100.0] * 4, *[50.0] * 4),  # too few to be told from chance
        seconds(*[100.0] * 30, *[95.0] * 30, noise=0.005),  # surely two, but near
        seconds(*[100.0] * 30, *[80.0] * 30, noise=0.2),  # apart, but no further than they are wide
        seconds(*[100.0] * 60, noise=0.0),
        [(second + 1.0, 100.0 + second) for second in range(20)],  # a slope
        seconds(*[100.0] * 20, 0.0, *[100.0] * 20),  # one second of a stall
    ],
    ids=range(8),
)
def test_what_is_no_change_is_not_called_one(rates: list[tuple[float, float]]) -> None:
    assert len(levels(rates)) == (1 if rates else 0)

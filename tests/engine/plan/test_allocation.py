"""The division of the time left of an adaptive run among its open steps, in numbers to be worked out by hand."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from engine.core.errors import UserError
from engine.journal.manifest import read_manifest
from engine.plan.allocation import LONGEST, Budget, OpenStep, check, divide, planned_lengths, shrinks
from tests.support.journal import make_run

TAU = 0.005


def once(noises: dict[str, float | None], room_s: float, planned: int = 4) -> dict[str, int]:
    """The lengths of these steps in the one pair that is to come, in so many seconds."""
    steps = {name: OpenStep(planned, noise, (planned,) * 3) for name, noise in noises.items()}
    rest = divide(steps, 0, Budget(10.0 + room_s, 10.0, 1.0), TAU, 3, 1)
    assert rest.pairs == 1 and rest.pair_s == pytest.approx(10 + sum(rest.seconds.values()))
    return dict(rest.seconds)


def test_time_goes_by_noise() -> None:
    assert once({"a": 0.01, "b": 0.03}, 20) == {"a": 5, "b": 15}


def test_no_step_is_shorter_than_planned() -> None:
    assert once({"a": 0.01, "b": 0.03, "c": 0.03}, 20) == {"a": 4, "b": 8, "c": 8}


def test_no_step_is_longer_than_its_limit() -> None:
    assert once({"a": 0.01, "b": 1.0}, 50) == {"a": 18, "b": 4 * LONGEST}
    assert once({"a": 0.01, "b": 0.01}, 1000) == {"a": 4 * LONGEST, "b": 4 * LONGEST}


def test_a_step_of_unknown_noise_is_as_long_as_planned() -> None:
    assert once({"a": None, "b": 0.03}, 20) == {"a": 4, "b": 16}


def test_without_room_for_a_pair_as_planned_there_is_none() -> None:
    steps = {"a": OpenStep(4, 0.01, (4.0,)), "b": OpenStep(4, 0.01, (4.0,))}
    assert divide(steps, 0, Budget(25.9, 10.0, 2.0), TAU, 5, 9).pairs == 0
    assert divide(steps, 0, Budget(26.0, 10.0, 2.0), TAU, 5, 9).pairs == 1


def test_steps_of_given_work_get_as_many_pairs_as_fit() -> None:
    assert divide({}, 2, Budget(65.0, 10.0, 2.0), TAU, 4, 9).pairs == 6
    assert divide({}, 2, Budget(65.0, 10.0, 2.0), TAU, 4, 3).pairs == 3, "no more than are planned"


def test_pairs_are_long_where_clusters_are_alike() -> None:
    """A pair costs 60 s besides its step, of 0.05 per root second: 77 or 4 s of it would be best (Kalibera, Jones)."""
    steps = {"a": OpenStep(4, 0.05, (4.0,) * 4)}
    alike, unlike = (divide(steps, 0, Budget(1000.0, 60.0, 1.0), tau, 4, 99) for tau in (0.005, 0.1))
    assert (alike.pairs, alike.seconds["a"]) == (11, 30)
    assert (unlike.pairs, unlike.seconds["a"]) == (1000 // 64, 6)


def test_four_pairs_come_before_narrow_ones() -> None:
    steps = {"a": OpenStep(4, 0.05, (4.0,))}
    division = divide(steps, 0, Budget(200.0, 60.0, 1.0), TAU, 1, 99)
    assert (division.pairs, division.seconds["a"]) == (3, 6)


def test_what_the_rest_will_buy() -> None:
    """Certainties are 3 / (tau^2 + 0.01^2 / 4) so far and as much once more."""
    division = divide({"a": OpenStep(4, 0.01, (4.0,) * 3)}, 0, Budget(42.0, 10.0, 1.0), TAU, 3, 3)
    assert (division.pairs, division.seconds["a"]) == (3, 4)
    assert division.narrowing["a"] == pytest.approx(1 / math.sqrt(2)) == pytest.approx(shrinks(3, 3))
    assert divide({"a": OpenStep(4, 0.01, (4.0,))}, 0, Budget(1.0, 10.0, 1.0), TAU, 3, 3).narrowing["a"] == 1


def test_the_budget_is_kept() -> None:
    chance = random.Random(1)
    for _ in range(300):
        steps = {
            name: OpenStep(chance.randint(1, 20), chance.choice([None, chance.uniform(0.001, 0.2)]), (4.0,) * 3)
            for name in "abcd"[: chance.randint(0, 4)]
        }
        budget = Budget(chance.uniform(-10, 2000), chance.uniform(1, 100), chance.uniform(1, 5))
        rest = divide(steps, chance.randint(not steps, 4), budget, chance.uniform(0.005, 0.05), 3, 50)
        assert rest.pairs * rest.pair_s <= max(0.0, budget.left_s) + 1e-6
        for name, step in steps.items():
            assert step.planned <= rest.seconds[name] <= LONGEST * step.planned


def test_only_steps_without_effects_change_their_length(tmp_path: Path) -> None:
    manifest = read_manifest(make_run(tmp_path / "r", repeats=1, blocks=40))
    assert planned_lengths(manifest) == {"qr100": 60}


@pytest.mark.parametrize("lengths", [{"qr100": 59}, {"qr100": 60 * LONGEST + 1}, {"l.i1": 60}])
def test_lengths_that_nobody_decided_are_refused(lengths: dict[str, int]) -> None:
    check({"qr100": 0, "l.i1": 0}, {"qr100": 60})
    check({"qr100": 480}, {"qr100": 60})
    with pytest.raises(UserError, match=r"journal.db: table event: plan: \S+ of \d+ s"):
        check(lengths, {"qr100": 60})

"""The component between boots: what A/A runs of several boots tell of it, and what it adds to an error."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.analysis.boots import BetweenBoots, Control, between_boots, widened
from engine.analysis.statistics import (
    Estimate,
    p_value,
    paired_interval,
    pairs_needed,
    same_p_value,
    smallest_visible_effect,
)

CLEAR = Estimate(-0.03, 0.006, 6, prior_degrees=9)  # -3 %, and certain within its boot
ONE_BOOT = ["today"] * 6
ONE_PERCENT = BetweenBoots(0.01, 10.0, 5)


def controls(thetas: Sequence[float], error: float, pairs: int = 6, degrees: float = 9.0) -> list[Control]:
    """An A/A run in each boot, with this standard error."""
    return [
        Control(Estimate(theta, error * math.sqrt(pairs), pairs, degrees), f"boot {place}")
        for place, theta in enumerate(thetas)
    ]


def drawn(between: float, error: float, boots: int, source: random.Random) -> list[Control]:
    return controls([source.gauss(0, math.hypot(between, error)) for _ in range(boots)], error)


@pytest.mark.parametrize("between", [0.006, 0.01, 0.02])
def test_the_component_is_found_where_errors_within_boots_are_as_large(between: float) -> None:
    source = random.Random(5)
    found = between_boots({step: drawn(between, 0.008, 40, source) for step in range(10)})
    assert {component.boots for component in found.values()} == {40}
    assert math.sqrt(fmean(component.sd**2 for component in found.values())) == pytest.approx(between, rel=0.15)


def test_without_a_component_none_is_found() -> None:
    source = random.Random(5)
    found = between_boots({step: drawn(0.0, 0.008, 40, source) for step in range(10)})
    assert fmean(component.sd for component in found.values()) < 0.003


def test_a_step_that_boots_change_more_has_more_of_it() -> None:
    source = random.Random(5)
    steps = {sd: drawn(sd, 0.003, 8, source) for sd in (0.002, 0.0021, 0.0022, 0.03)}
    found = between_boots(steps)
    assert found[0.03].sd > 0.015 > found[0.002].sd


def test_of_equal_boots_the_component_is_what_their_errors_leave() -> None:
    """y^2 = 4 in all boots of both steps, v = 1: tau^2 = 3; the mean of y^2 is 4, too, so that nothing is moderated."""
    found = between_boots({step: controls([0.02, -0.02, 0.02], 0.01) for step in "ab"})
    assert found["a"].sd == pytest.approx(0.01 * math.sqrt(3), rel=1e-4)
    assert found["a"].degrees == pytest.approx(2 * 4 / 3 + 2, rel=1e-4)


def test_a_step_and_all_steps_are_weighed_by_their_degrees_of_freedom() -> None:
    """S^2 is 1 and 7 with v = 1, so that the mean of S^2 / (tau^2 + 1) is 1 at tau^2 = 3: d0 is 8 / 3, and with four
    boots s^2 = (8 / 3 x 4 + 4 S^2) / (8 / 3 + 4) = 2.2 and 5.8.
    """
    found = between_boots({"low": controls([0.01, -0.01] * 2, 0.01), "high": controls([math.sqrt(7) * 0.01] * 4, 0.01)})
    assert found["low"].sd == pytest.approx(0.01 * math.sqrt(1.2), rel=1e-4)
    assert found["high"].sd == pytest.approx(0.01 * math.sqrt(4.8), rel=1e-4)


def test_runs_of_one_boot_are_one_value() -> None:
    two = controls([0.02, 0.02], 0.01)
    same = [Control(each.estimate, "one") for each in two]
    assert between_boots({"step": same}) == {}
    other = controls([0.0, 0.0, 0.02, -0.02], 0.01)
    found = between_boots({"step": [*same, *other]})
    (component,) = found.values()
    assert component.boots == 5


@pytest.mark.parametrize("boots", [0, 1, 2])
def test_fewer_than_three_boots_say_nothing(boots: int) -> None:
    assert between_boots({"step": controls([0.05] * boots, 0.001)}) == {}


def test_controls_that_never_scatter_are_no_division_by_zero() -> None:
    (exact,) = between_boots({"step": controls([0.0] * 3, 0.0)}).values()
    (moved,) = between_boots({"step": controls([0.01, -0.01, 0.01], 0.0)}).values()
    assert exact.sd == 0 and moved.sd == pytest.approx(0.01, rel=1e-3)
    assert between_boots({"step": [Control(Estimate(0.01, 0.0, 1), str(boot)) for boot in range(3)]}) == {}


def test_the_errors_of_one_boot_add_up_and_so_do_their_degrees_by_satterthwaite() -> None:
    """0.006^2 / 6 = 6e-6 with 14 degrees, and 1e-4 with 10."""
    found = widened(CLEAR, ONE_PERCENT, ONE_BOOT)
    assert found.error**2 == pytest.approx(1.06e-4)
    assert found.degrees == pytest.approx(1.06**2 / (0.06**2 / 14 + 1 / 10))
    interval = paired_interval(found)
    assert interval.ratio == pytest.approx(math.exp(-0.03)) and interval.high is not None and interval.high < 1


def test_pairs_of_several_boots_show_a_part_of_it_themselves() -> None:
    """Of 3 and 3 pairs q = 1 / 2, and (6 / 2 - 1) / 5 of the variance is missing; of 4 and 2, q = 5 / 9: 7 / 15."""
    for boots, part in (("aaabbb", 0.4), ("aaaabb", 7 / 15)):
        found = widened(CLEAR, ONE_PERCENT, boots)
        assert found.error**2 - CLEAR.error**2 == pytest.approx(part * 1e-4)
    assert widened(CLEAR, ONE_PERCENT, "abcdef") == CLEAR


def test_two_boots_err_as_their_scatter_and_what_is_missing_say() -> None:
    """The mean of the estimated variances of a mean over two boots is its variance."""
    source, means, variances = random.Random(3), [], []
    for _ in range(4000):
        effects = source.gauss(0, 0.01), source.gauss(0, 0.01)
        logs = [effects[place // 3] + source.gauss(0, 0.01) for place in range(6)]
        mean = fmean(logs)
        sd = math.sqrt(sum((each - mean) ** 2 for each in logs) / 5)
        means.append(mean**2)
        variances.append(widened(Estimate(mean, sd, 6), ONE_PERCENT, "aaabbb").error ** 2)
    assert fmean(variances) == pytest.approx(fmean(means), rel=0.06)


@given(
    thetas=st.lists(st.floats(-0.1, 0.1), min_size=3, max_size=8),
    error=st.floats(0.0005, 0.05),
    sd=st.floats(0.001, 0.1),
    pairs=st.integers(3, 12),
    mean=st.floats(-0.1, 0.1),
)
def test_what_boots_add_never_makes_anything_surer(
    thetas: list[float], error: float, sd: float, pairs: int, mean: float
) -> None:
    (component,) = between_boots({"step": controls(thetas, error)}).values()
    plain = Estimate(mean, sd, pairs)
    wide = widened(plain, component, ["boot"] * pairs)
    assert wide.error >= plain.error
    assert wide.error**2 == pytest.approx(plain.error**2 + component.sd**2)
    assert min(plain.degrees, component.degrees) <= wide.degrees * (1 + 1e-9)
    assert wide.degrees <= (plain.degrees + component.degrees) * (1 + 1e-9)


def test_a_difference_that_boots_may_make_is_not_certain() -> None:
    wide = widened(CLEAR, BetweenBoots(0.02, 10.0, 5), ONE_BOOT)
    assert p_value(CLEAR) < 1e-6 < 0.05 < p_value(wide)
    still = Estimate(0.001, 0.006, 6, prior_degrees=9)
    assert same_p_value(still, 0.02) < 1e-4 < 0.025 < same_p_value(widened(still, ONE_PERCENT, ONE_BOOT), 0.02)


def test_more_pairs_of_the_same_boot_do_not_help_against_it() -> None:
    near = Estimate(-0.025, 0.03, 6)
    assert pairs_needed(near, 0.01) is not None
    assert pairs_needed(widened(near, BetweenBoots(0.03, 10.0, 5), ONE_BOOT), 0.01) is None
    effects = [smallest_visible_effect(widened(near, ONE_PERCENT, ONE_BOOT), pairs) for pairs in (6, 60, 600, 6000)]
    assert all(effect is not None and effect > 0.03 for effect in effects), "t(0.975, 10) + t(0.8, 10) = 3.1"
    assert (smallest_visible_effect(near, 6000) or 0.0) < 0.002

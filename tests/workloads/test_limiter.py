"""The rate limiters, against a word-for-word model of the rule and against what a rate means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.limiter import SECOND_NS, CatchUpLimiter, ReferenceLimiter, limiter

rates = st.integers(1, 5000)
sizes = st.integers(1, 100)
delays = st.lists(st.integers(0, 3 * SECOND_NS), max_size=80)


@given(rates, sizes, delays)
def test_reference_limiter_is_the_rule_of_the_reference(rate: int, rows: int, late_ns: list[int]) -> None:
    rounds_per_s = max(1, -(-rate // rows))
    checked = now = model_now = 5 * SECOND_NS
    rule = ReferenceLimiter(rate, rows, now)
    for number, late in enumerate(late_ns):
        now += late
        model_now += late
        if number % rounds_per_s == 0:
            if model_now - checked < 950_000_000:
                model_now = checked + SECOND_NS
            checked = model_now
        now, intended = rule.after(number, now)
        assert now == model_now
        assert intended <= now


@given(rates, sizes)
def test_reference_limiter_sends_one_statement_in_the_first_second_then_bursts(rate: int, rows: int) -> None:
    rule = ReferenceLimiter(rate, rows, 0)
    now = 0
    for number in range(200):
        assert now == -(-number // rule.rounds_per_s) * SECOND_NS
        now, intended = rule.after(number, now)
        assert intended == now


def test_reference_limiter_never_makes_up_a_stall() -> None:
    rule = ReferenceLimiter(100, 50, 0)
    now = rule.after(0, 0)[0]
    now = rule.after(1, now)[0]
    go, intended = rule.after(2, now + 10 * SECOND_NS)  # two rounds a second, ten seconds late
    assert go == now + 10 * SECOND_NS
    assert intended == now + SECOND_NS
    assert rule.after(3, go) == (go, intended)
    assert rule.after(4, go) == (go + SECOND_NS, go + SECOND_NS)


@given(rates, sizes, delays)
def test_catch_up_limiter_keeps_to_the_schedule_whatever_came_between(rate: int, rows: int, late_ns: list[int]) -> None:
    rule = CatchUpLimiter(rate, rows, 0)
    now = 0
    for number, late in enumerate(late_ns):
        due = (number + 1) * rows * SECOND_NS // rate
        now += late
        go, intended = rule.after(number, now)
        assert intended == due
        assert go == max(due, now)
        now = go


def test_rate_zero_is_unlimited_and_names_are_known() -> None:
    assert limiter("reference", 0, 50, 0) is None
    assert isinstance(limiter("catch-up", 100, 50, 0), CatchUpLimiter)
    with pytest.raises(KeyError):
        limiter("none", 1, 1, 0)

"""The rate limiter, against a word-for-word model of the rule and against what a rate means."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from workloads.client.limiter import SECOND_NS, Limiter

rates = st.integers(1, 5000)
sizes = st.integers(1, 100)
delays = st.lists(st.integers(0, 3 * SECOND_NS), max_size=80)


@given(rates, sizes, delays)
def test_reference_limiter_is_the_rule_of_the_reference(rate: int, rows: int, late_ns: list[int]) -> None:
    rounds_per_s = max(1, -(-rate // rows))
    checked = now = model_now = 5 * SECOND_NS
    rule = Limiter(rate, rows, now)
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
def test_reference_limiter_sends_one_statement_then_bursts(rate: int, rows: int) -> None:
    rule = Limiter(rate, rows, 0)
    now = 0
    for number in range(200):
        assert now == -(-number // rule.rounds_per_s) * SECOND_NS
        now, intended = rule.after(number, now)
        assert intended == now


def test_reference_limiter_never_makes_up_a_stall() -> None:
    rule = Limiter(100, 50, 0)
    now = rule.after(0, 0)[0]
    now = rule.after(1, now)[0]
    go, intended = rule.after(2, now + 10 * SECOND_NS)  # two rounds a second, ten seconds late
    assert go == now + 10 * SECOND_NS
    assert intended == now + SECOND_NS
    assert rule.after(3, go) == (go, intended)
    assert rule.after(4, go) == (go + SECOND_NS, go + SECOND_NS)


@given(rates, sizes, st.lists(st.integers(0, SECOND_NS), max_size=200))
def test_rounds_of_a_second_are_spread_in_slices(rate: int, rows: int, late_ns: list[int]) -> None:
    even, bursts = (Limiter(rate, rows, 0, even=even) for even in (True, False))
    per_s, now, in_bursts = even.rounds_per_s, 0, 0
    for number in range(3 * per_s + 1):
        now, intended = even.after(number, now)
        in_bursts, _ = bursts.after(number, in_bursts)
        seconds, place = divmod(number + 1, per_s)
        assert now == intended == seconds * SECOND_NS + place * (SECOND_NS // per_s)
        assert now == in_bursts if place == 0 else now < in_bursts
    for place, late in enumerate(late_ns, 3 * per_s + 1):
        go, intended = even.after(place, now + late)
        assert go >= now + late and intended <= go
        now = go


def test_in_slices_as_in_whole_cells_a_stall_is_never_made_up() -> None:
    rule = Limiter(500, 50, 0, even=True)
    now = 0
    for number in range(15):
        now, _ = rule.after(number, now)
    ends, now = [], now + 3 * SECOND_NS
    for number in range(15, 45):
        now, _ = rule.after(number, now)
        ends.append(now)
    late = ends[0]
    # The rest of the second in which it began is sent at once, the rest at the rate.
    assert sum(end == late for end in ends) == 5 and ends[-1] - ends[5] == 24 * SECOND_NS // 10


def test_scattered_statements_lose_no_more_than_bursts() -> None:
    """Twenty rounds a second of 20 ms each; one that ended after its second took the rest of its time from the rate."""
    source, took_ns = random.Random(1), {}
    lengths_ns = [int(source.lognormvariate(-4.7, 1.25) * SECOND_NS) for _ in range(10_000)]
    for even in (True, False):
        rule, now = Limiter(1000, 50, 0, even=even), 0
        for number, length_ns in enumerate(lengths_ns):
            now = rule.after(number, now)[0] + length_ns
        took_ns[even] = now
    assert took_ns[True] <= took_ns[False] + SECOND_NS

"""What probes would cost, when they are attached, what may be compared; and planning by pg_stat_statements."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes import budget

S = 1_000_000_000


def test_the_formula_is_that_of_the_measurements() -> None:
    assert budget.cost_percent(1000, 2000, 1.0) == pytest.approx(100 * (3 * 1000 + 1.8 * 1000) / 1e6)
    assert budget.cost_percent(0, 0, 0.0) == 0


@pytest.mark.parametrize(("per_s", "admitted"), [(1000, True), (10_000, True), (40_000, False)])
def test_a_costly_probe_starts_only_when_its_estimate_is_small(per_s: int, admitted: bool) -> None:
    found = budget.estimate("planner", per_s, busy_cpus=1.9)
    assert found.admitted is admitted
    assert (found.text == "") is admitted
    if not admitted:
        assert found.text == (
            "probes: planner would cost about 10 % of this run (80000/s); not started. "
            "Raise --probe-budget to start it."
        )


@pytest.mark.parametrize("probe", ["procsched", "planstats", "runq", "sched", "stacks"])
def test_cheap_probes_are_always_admitted(probe: str) -> None:
    assert budget.estimate(probe, 1e6, busy_cpus=0.1).admitted


def test_slow_entries_cost_more() -> None:
    cheap = budget.estimate("phases", 2000, 1.0)
    slow = budget.estimate("phases", 2000, 1.0, slow_hits=1)
    # As measured: one slow entry among the five of phases doubles its cost, from 10 to 21 us per statement.
    assert cheap.percent == pytest.approx(2.04) and slow.percent == pytest.approx(4.04)
    assert budget.estimate("planner", 10_000, 1.0).admitted
    dear = budget.estimate("planner", 10_000, 1.0, slow_hits=1)
    assert not dear.admitted and "10000/s of them single-stepped" in dear.text
    assert budget.estimate("planner", 10_000, 1.0, slow_hits=1, limit_percent=15).admitted


@given(st.floats(0, 1e5), st.floats(0, 1e5), st.floats(0.1, 64))
def test_more_statements_never_cost_less(one: float, more: float, cpus: float) -> None:
    for probe in ("planner", "phases", "endpoint"):
        assert budget.estimate(probe, one, cpus).percent <= budget.estimate(probe, one + more, cpus).percent


@given(st.integers(0, 10**13), st.integers(0, 10**12))
def test_windows_open_for_ten_seconds_of_every_minute_and_the_first_with_the_step(t_ns: int, began_ns: int) -> None:
    minute = range(began_ns + t_ns, began_ns + t_ns + 60 * S, S)
    assert sum(budget.in_window(second, began_ns) for second in minute) == 10
    assert budget.in_window(began_ns, began_ns) and not budget.in_window(began_ns - 1, began_ns)
    assert not budget.in_window(began_ns + 10 * S, began_ns)


def test_around_a_stall_is_until_five_seconds_after_it_was_last_seen() -> None:
    assert not budget.around_stall(7 * S, None)
    assert budget.around_stall(7 * S, 7 * S) and budget.around_stall(12 * S - 1, 7 * S)
    assert not budget.around_stall(12 * S, 7 * S)

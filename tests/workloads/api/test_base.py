"""Steps of another length than planned, of the real workloads."""

from __future__ import annotations

from typing import Any

import pytest

from workloads import workload
from workloads.api.base import Step, lasting, planned_seconds
from workloads.api.options import checked


def steps(name: str, **entries: Any) -> dict[str, Step]:
    benchmark = workload(name)
    record = benchmark.plan(checked(benchmark.options, entries)).record
    return {step.name: step for step in benchmark.steps(record)}


def test_only_query_steps_of_the_insert_benchmark_lengthen() -> None:
    by_name = steps("insert", rows=20_000, query_seconds=4)
    free = {name: planned_seconds(step) for name, step in by_name.items() if planned_seconds(step)}
    assert free == dict.fromkeys(("qr100", "qp100", "qr500", "qp500", "qr1000", "qp1000"), 4)


def test_a_longer_step_has_more_rows_at_the_same_rate() -> None:
    planned = steps("insert", rows=20_000, query_seconds=4, clients=2)["qr500"]
    longer, anew = lasting(planned, 9), steps("insert", rows=20_000, query_seconds=9, clients=2)["qr500"]
    assert longer == anew and longer.work == 2 * 9 * 500


def test_steps_whose_changes_stay_keep_their_length() -> None:
    assert not any(map(planned_seconds, steps("pgbench-tpcb", seconds=5).values()))


@pytest.mark.parametrize("seconds", [0.5, 0, None])
def test_a_length_that_is_no_whole_number_of_seconds_stays(seconds: float | None) -> None:
    step = Step("point", "point", {"name": "point", "seconds": seconds}, sliced="time")
    assert planned_seconds(step) == 0 and planned_seconds(lasting_of(step)) == 3


def lasting_of(step: Step) -> Step:
    """The same step, planned for three seconds."""
    return lasting(Step(step.name, step.kind, {**step.record, "seconds": 6}, sliced="time"), 3)

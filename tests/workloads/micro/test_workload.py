"""One-shot timings as a plan: tasks, their needs, refusals."""

from __future__ import annotations

import pytest

from workloads import workload
from workloads.api.names import UnknownName
from workloads.micro.options import Options

MICRO = workload("micro")
FOUND = {name: {"path": f"/bin/{name}", "version": f"{name} 1.19.0", "digest": "0" * 64} for name in
         ("hyperfine", "pgbench", "pg_dump", "psql")}  # fmt: skip


def test_all_tasks_are_steps_judged_by_their_time() -> None:
    plan = MICRO.plan(Options())
    steps = MICRO.steps(plan.record)
    assert [step.name for step in steps] == [
        "initdb.libc", "initdb.icu", "initdb.builtin", "start", "recovery", "init", "index", "vacuum", "dump", "plan"
    ]  # fmt: skip
    assert all(step.primary_metric and step.primary_metric.by == "time" for step in steps)
    assert plan.programs == ("hyperfine", "pgbench", "pg_dump", "psql")
    assert {step.name for step in steps if step.apart} == {
        "initdb.libc", "initdb.icu", "initdb.builtin", "start", "recovery"
    }  # fmt: skip
    assert not any(step.named for step in steps)


def test_tasks_are_chosen_by_their_names() -> None:
    plan = MICRO.plan(Options(steps=("plan", "initdb", "recovery"), recovery_wal=4))
    assert [(step.name, step.named) for step in MICRO.steps(plan.record)] == [
        ("initdb.libc", False), ("initdb.icu", False), ("initdb.builtin", False), ("recovery", True), ("plan", True)
    ]  # fmt: skip
    assert plan.programs == ("hyperfine",)
    assert MICRO.plan(Options(steps=("plan",))).programs == ()
    with pytest.raises(UnknownName, match=r"unknown task 'restart' \(known: initdb, start"):
        MICRO.plan(Options(steps=("restart",)))


def test_amounts_of_work_must_agree_and_tasks_need_not() -> None:
    small, large = (MICRO.plan(Options(table_rows=rows)).record | {"programs": FOUND} for rows in (1000, 2000))
    assert MICRO.identity(small) != MICRO.identity(large)
    some = MICRO.plan(Options(steps=("index",), table_rows=1000)).record | {"programs": FOUND}
    assert MICRO.identity(some) == MICRO.identity(small)
    assert MICRO.non_default(large) == ("table rows 2000",)
    assert MICRO.expected_bytes(large, 1 << 30) > MICRO.expected_bytes(some, 1 << 30) > 0


def test_programs_that_are_missing_or_too_old_are_refused() -> None:
    record = MICRO.plan(Options(steps=("start",))).record
    with pytest.raises(ValueError, match="names no hyperfine"):
        MICRO.check(record)
    old = {"hyperfine": FOUND["hyperfine"] | {"version": "hyperfine 1.12.0"}}
    with pytest.raises(ValueError, match=r"1\.13 or later is needed: set hyperfine in config.toml"):
        MICRO.check(record | {"programs": old})
    MICRO.check(record | {"programs": FOUND})
    with pytest.raises(ValueError, match="no step restart"):
        MICRO.steps(record | {"steps": [{"name": "restart"}]})


@pytest.mark.parametrize("names", [(), ("index", "start"), "plan"])
def test_programs_cannot_be_driven_in_slices(names: str | tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="one-shot timings cannot be interleaved, except index and vacuum"):
        MICRO.sliced_options({"steps": names})


def test_statements_can_and_are_then_repeated() -> None:
    assert MICRO.sliced_options({"steps": ("vacuum",), "runs": None})["runs"] == 4
    assert MICRO.sliced_options({"steps": "index,vacuum", "runs": 2})["runs"] == 2
    sliced = [step.name for step in MICRO.steps(MICRO.plan(Options()).record) if step.sliced]
    assert sliced == ["index", "vacuum"]

"""The plan of an application: what follows from its files before anything runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from workloads.own import template
from workloads.own.options import Options, recorded
from workloads.own.workload import WORKLOAD

APP = Path(__file__).parent / "app"


def options(**further: object) -> Options:
    return Options(schema=str(APP / "schema.sql"), rows_from=str(APP / "rows.sql"),
                   statements=str(APP / "statements.sql"), **further)  # type: ignore[arg-type] # fmt: skip


def test_each_statement_is_a_sliced_step_after_the_restore() -> None:
    record = WORKLOAD.plan(options(clients=2, seconds=3)).record
    first, *others = WORKLOAD.steps(record)
    assert first.name == "data" and first.makes_files and not first.sliced and not first.primary_metric
    assert len(others) == 15 and {step.sliced for step in others} == {"time"} and others[0].name == "customer"
    assert [role.client for role in others[0].roles] == [1, 2] and others[0].expected_s == 3
    assert recorded(record).clients == 2 and record["data"]["digest"]
    assert "select" in WORKLOAD.written(record)["statements.sql"].lower()


def test_a_mix_and_plans_are_one_step_of_all_statements() -> None:
    for name in ("mix", "plans"):
        record = WORKLOAD.plan(options(**{{"plans": "plans_only"}.get(name, name): True})).record
        assert [step.name for step in WORKLOAD.steps(record)] == ["data", name]
    with pytest.raises(ValueError, match="--mix and --plans-only"):
        WORKLOAD.plan(options(mix=True, plans_only=True))


def test_comparable_runs_have_the_same_data_and_statements(tmp_path: Path) -> None:
    known = WORKLOAD.plan(options()).record
    (changed := tmp_path / "s.sql").write_text("-- name: a\nSELECT pg_sleep(1)")
    other = WORKLOAD.plan(Options(schema=str(APP / "schema.sql"), statements=str(changed))).record
    assert {key for key, value in WORKLOAD.identity(known).items() if WORKLOAD.identity(other)[key] != value} == {
        "data", "statements"
    }  # fmt: skip
    assert WORKLOAD.steps(other)[1].sliced == ""  # a sleep goes on while its server is paused


def test_each_pgbench_script_of_a_folder_is_a_step(tmp_path: Path) -> None:
    for name in ("read", "write"):
        (tmp_path / f"{name}.sql").write_text(f"\ufeff\\set id random(1, 10)\nSELECT :id, '{name}';\n")
    given = {"schema": str(APP / "schema.sql"), "statements": str(tmp_path)}
    plan = WORKLOAD.plan(Options(**given))  # type: ignore[arg-type]
    _, read, write = WORKLOAD.steps(plan.record)
    assert "\ufeff" not in json.dumps(plan.record, ensure_ascii=False)
    assert plan.programs == ("psql", "pgbench") and (read.name, write.name) == ("read", "write")
    assert read.primary_metric and read.primary_metric.unit == "tx/s" and not read.gated and read.sliced == "time"
    assert WORKLOAD.written(plan.record).keys() == {"read.sql", "write.sql"}
    assert [step.name for step in WORKLOAD.steps(WORKLOAD.plan(Options(mix=True, **given)).record)] == ["data", "mix"]  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="give a file of statements"):
        WORKLOAD.plan(Options(plans_only=True, **given))  # type: ignore[arg-type]
    (tmp_path / "read.sql").write_text("\\shell rm -r /\n")
    with pytest.raises(ValueError, match="run commands of the shell"):
        WORKLOAD.plan(Options(**given))  # type: ignore[arg-type]


def test_a_template_is_a_place_or_a_connection_string() -> None:
    assert template.planned("db1:5433/shop").template == "dbname=shop host=db1 port=5433"
    assert template.planned("db1/shop").template == "dbname=shop host=db1"
    assert template.planned("postgresql://me@db1:5433/shop").template == "user=me dbname=shop host=db1 port=5433"

"""The plan of the TPC-C-like workload, and which of its texts are ours."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from workloads import workload
from workloads.api.base import Place, Step
from workloads.api.options import checked
from workloads.tpcc.options import Options
from workloads.tpcc.spec import TpccSpec
from workloads.tpcc.workload import WEIGHTS, scripts

WORKLOAD = workload("tpcc-like")
PROGRAM = {"pgbench": {"path": "/nowhere/pgbench", "version": "pgbench (PostgreSQL) 18.6", "digest": "0" * 64}}


def planned(**entries: Any) -> tuple[dict[str, Any], dict[str, Step]]:
    record = WORKLOAD.plan(checked(Options, entries)).record | {"programs": PROGRAM}
    return record, {step.name: step for step in WORKLOAD.steps(record)}


def place(**measured: float) -> Place:
    return Place(dsn="dbname=ib", page_fd=3, seed=7, repeat=1, folder="/tmp", data_folder="", found=measured)


def test_it_says_that_it_is_not_tpcc_and_ends_with_a_check() -> None:
    record, steps = planned(warehouses=3, clients=2)
    assert record["title"] == "3 warehouses (not TPC-C)" and "not TPC-C" in WORKLOAD.description
    assert list(steps) == ["init", "capacity", "check"] and steps["capacity"].sliced == "time"
    assert list(planned(load=0.7)[1]) == ["init", "capacity", "load70", "check"]
    assert list(WEIGHTS.values()) == [45, 43, 4, 4, 4] == [script.weight for script in scripts()]


def test_a_load_is_a_share_of_the_capacity_that_was_found() -> None:
    record, steps = planned(load=0.7, seconds=5)
    launch = WORKLOAD.launch(record, steps["load70"], place(capacity_per_s=500.0))
    spec = msgspec.json.decode(launch.stdin, type=TpccSpec)
    assert spec.options.rate == pytest.approx(350) and spec.rows_seed == 7
    metric = steps["load70"].primary_metric
    assert metric is not None and metric.by == "time" and not steps["load70"].sliced
    capacity = msgspec.json.decode(WORKLOAD.launch(record, steps["capacity"], place()).stdin, type=TpccSpec)
    assert capacity.options.rate is None and capacity.step["seconds"] == 5
    with pytest.raises(ValueError, match="load70 needs the base's capacity"):
        WORKLOAD.launch(record, steps["load70"], place())


def test_scripts_of_another_make_are_shown_before_they_run() -> None:
    record, _ = planned()
    assert WORKLOAD.written(record) == {}
    record["scripts"][0]["text"] = "DROP TABLE orders;"
    assert WORKLOAD.written(record) == {"new_order.sql": "DROP TABLE orders;"}
    record["scripts"][0]["name"] = "../new_order.sql"
    for use in (lambda: WORKLOAD.check(record), lambda: WORKLOAD.launch(record, planned()[1]["init"], place())):
        with pytest.raises(ValueError, match="a script's name has letters"):
            use()
    for wrong in ({"load": 0}, {"load": 1.1}, {"warehouses": 0}):
        with pytest.raises(ValueError, match="must be"):
            planned(**wrong)

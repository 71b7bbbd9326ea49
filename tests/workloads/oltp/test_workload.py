"""The plan of steps, options that do not go together, and the record."""

from __future__ import annotations

from typing import Any

import msgspec

from workloads import workload
from workloads.api.base import Place, Role, Step
from workloads.api.options import checked
from workloads.oltp.options import Options
from workloads.oltp.spec import OltpSpec
from workloads.presets import preset

WORKLOAD = workload("oltp")


def planned(**entries: Any) -> tuple[dict[str, Any], dict[str, Step]]:
    record = WORKLOAD.plan(checked(Options, entries)).record
    return record, {step.name: step for step in WORKLOAD.steps(record)}


def test_writes_come_first_and_a_vacuum_after_them() -> None:
    record, steps = planned(clients=3, tables=2, rows=5000, seconds=7, pause_seconds=60)
    names = list(steps)
    assert names[:3] == ["load", "vacuum", "update-inlist"] and len(names) == 33 + 3
    assert names[names.index("read-write.100") + 1 : names.index("scan")] == ["vacuum.writes", "scan.warm"]
    assert steps["load"].roles == (Role(1, "insert"), Role(2, "insert")) and not steps["load"].sliced
    assert len(steps["delete"].roles) == 3 and steps["delete"].sliced == "time"
    assert {step.kind for step in steps.values()} == {
        "load", "pause", "point", "range", "aggregate", "scan", "write",
    }  # fmt: skip
    units = {name: step.primary_metric.unit for name, step in steps.items() if step.primary_metric is not None}
    assert len(units) == 33 and units["read-only.10"] == "tx/s" and units["scan"] == "queries/s"
    pause = WORKLOAD.maintenance(record, steps["vacuum.writes"], 16)
    assert pause.groups == (("VACUUM (ANALYZE) sbtest1", "VACUUM (ANALYZE) sbtest2"), ("CHECKPOINT",))
    assert pause.least_s == 60 and WORKLOAD.maintenance(record, steps["scan"], 16).groups == ()
    assert WORKLOAD.relations(record, Role(1, "query")) == {"sbtest1", "sbtest2"}
    assert list(planned(tests=["point-query"])[1]) == ["load", "vacuum", "point-query"]
    assert list(planned(tests=["point"], steps=["hot-points", "load"])[1]) == ["load", "vacuum", "hot-points"]


def test_a_launch_gets_the_step_of_its_plan() -> None:
    record, steps = planned(tests=["scan"], rows=5000)
    place = Place(dsn="dbname=ib", page_fd=3, seed=5, repeat=1, folder="/tmp", data_folder="")
    launch = WORKLOAD.launch(record, steps["scan"], place)
    spec = msgspec.json.decode(launch.stdin, type=OltpSpec)
    assert spec.step == {"name": "scan", "kind": "scan", "seconds": 30} and spec.options.rows == 5000


def test_results_of_other_data_do_not_compare() -> None:
    one, other = (WORKLOAD.identity(planned(rows=rows)[0]) for rows in (1000, 2000))
    assert one["rows"] != other["rows"]
    assert WORKLOAD.identity(planned(seconds=3)[0]) == WORKLOAD.identity(planned(tests=["scan"])[0])
    assert WORKLOAD.non_default(planned(rows=1000, placement="paired")[0]) == ("placement paired",)


def test_every_test_has_its_published_figures() -> None:
    (table,) = preset("oltp-2025-11").published
    steps = [name for name, step in planned()[1].items() if step.primary_metric is not None]
    assert [line.step for line in table.lines] == steps
    assert table.subjects == ("12.22", "13.22", "14.19", "15.14", "16.10", "17.6", "18.0")
    values = {line.step: line.values for line in table.lines}
    assert values["hot-points"] == (1.0, 1.06, 1.05, 1.05, 1.09, 2.04, 2.05)
    assert values["scan.warm"][1:3] == (0.92, 1.29) and values["read-only.10"][-1] == 0.99

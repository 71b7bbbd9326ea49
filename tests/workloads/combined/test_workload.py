"""Several loads at once: their names taken apart, their plans put together, the slots that each has in the page."""

from __future__ import annotations

import json
from typing import Any

import pytest

from workloads import joining, workload
from workloads.base import Place, Record, Role
from workloads.combined.names import Part, parts_of, variants_of
from workloads.counter_page import Page, Word
from workloads.insert.options import Options as InsertOptions
from workloads.pgbench.options import Options as PgbenchOptions

KNOWN = ("insert", "pgbench", "pgbench-select", "pgbench-tpcb")
PROGRAMS = {"programs": {"pgbench": {"path": "/pgbench", "version": "pgbench (PostgreSQL) 18.6", "digest": "d"}}}


def made(name: str, *further: dict[str, Any]) -> Record:
    """The record of a plan of several loads, with options of the further ones."""
    main, *others = name.split("+")
    options = InsertOptions(rows=2000, clients=2) if main == "insert" else PgbenchOptions(clients=(1, 3))
    plans = [
        workload(other).background_plan(given)  # type: ignore[attr-defined]
        for other, given in zip(others, further or [{}] * len(others), strict=True)
    ]
    record: Record = workload(name).joined(workload(main).plan(options), plans).record  # type: ignore[attr-defined]
    return {**record, **PROGRAMS}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("insert", [("insert", "")]),
        ("insert+pgbench-select+pgbench:a.sql", [("insert", ""), ("pgbench-select", ""), ("pgbench", "a.sql")]),
        ("pgbench:a+b.sql@2,c.sql+pgbench-tpcb", [("pgbench", "a+b.sql@2,c.sql"), ("pgbench-tpcb", "")]),
        ("insert+nothing", [("insert", ""), ("nothing", "")]),
    ],
)
def test_a_name_is_taken_apart_where_a_workload_begins(text: str, parts: list[tuple[str, str]]) -> None:
    assert parts_of(text, KNOWN) == tuple(Part(*part) for part in parts)


def test_commas_of_scripts_do_not_part_a_list() -> None:
    pieces = ["insert", "insert+pgbench:/a/x.sql@3", "y.sql", "insert+pgbench-select", "other"]
    found = variants_of(pieces, KNOWN)
    assert found == ("insert", "insert+pgbench:/a/x.sql@3,y.sql", "insert+pgbench-select", "other")
    assert [part.label for part in parts_of(found[1], KNOWN)] == ["insert", "pgbench:x.sql@3,y.sql"]


def test_slots_of_a_shared_page_are_each_launchers_own() -> None:
    whole = Page.create(5)
    main, other = Page(whole.fd, 2), Page(whole.fd, 3, 2)
    for page, value in ((main, 10), (other, 20)):
        for slot in range(page.roles):
            page.set_word(slot, Word.STATEMENTS, value + slot)
            page.set_error(slot, str(value + slot))
    assert [whole.word(slot, Word.STATEMENTS) for slot in range(5)] == [10, 11, 20, 21, 22]
    assert [whole.error(slot) for slot in range(5)] == ["10", "11", "20", "21", "22"]


def test_other_loads_run_beside_steps_that_are_judged_by_a_rate_while_they_last() -> None:
    name = "insert+pgbench-select+pgbench-tpcb"
    record = made(name, {"clients": "3", "rate": "50"}, {})
    both, steps = workload(name), workload(name).steps(record)
    names = [step.name for step in steps]
    assert names[:4] == ["init.pgbench-select", "init.pgbench-tpcb", "l.i0", "l.x"]
    assert names == [step["name"] for step in record["steps"]] and not any(step.sliced for step in steps)
    beside = {step.name: [each.role for each in step.background] for step in steps}
    assert {name for name in beside if not beside[name]} == {*names[:4], "pause"}
    step = steps[names.index("qr100")]
    alone = workload("insert").steps(record["parts"][0])[names.index("qr100") - 2]
    further = [Role(1, "pgbench-select"), Role(2, "pgbench-select"), Role(3, "pgbench-select"), Role(1, "pgbench-tpcb")]
    assert step.roles == (*alone.roles, *further)
    assert step.primary_metric == alone.primary_metric and step.connections > alone.connections + len(further)
    assert (step.watched("insert"), step.watched("pgbench-select")) == (("page", 1), ("active", 1))
    assert step.watched("pgbench-tpcb") == ("session", 1)
    assert both.relations(record, Role(1, "insert")) == {"pi1"}
    own = both.relations(record, Role(1, "pgbench-tpcb"))
    assert {"pgbench_history", "pgbench_tpcb.pgbench_history"} <= own and "pi1" not in own
    assert both.identity(record)["pgbench-select clients"] == 3
    assert "in the background: pgbench-select scale 10 simple, 3 clients" in record["title"]


def test_each_load_is_launched_on_its_own_slots_and_schema() -> None:
    record = made("insert+pgbench-select", {"clients": 2})
    both = workload("insert+pgbench-select")
    steps = {step.name: step for step in both.steps(record)}
    place = Place("dbname=ib", 7, 1, 1, "/tmp", "/tmp")
    (prepared, alone, spec) = (
        json.loads(both.launch(record, steps[name], place).stdin) for name in ("init.pgbench-select", "l.i0", "l.i1")
    )
    assert (prepared["schema"], prepared["first"], prepared["until"]) == ("pgbench_select", 0, 0)
    assert "parts" not in alone
    count = len(steps["l.i1"].roles) - 2
    assert (spec["roles"], spec["firsts"]) == (count + 2, [0, count])
    main, other = (json.loads(part["stdin"]) for part in spec["parts"])
    assert [part["name"] for part in spec["parts"]] == ["insert", "pgbench-select"]
    assert (other["first"], other["until"], other["schema"]) == (count, count, "pgbench_select")
    assert main["step"]["name"] == "l.i1" and other["step"]["clients"] == 2
    assert (
        other["seed"]
        != json.loads(json.loads(both.launch(record, steps["l.i2"], place).stdin)["parts"][1]["stdin"])["seed"]
    )


def test_a_role_is_of_one_load_only(tmp_path: Any) -> None:
    script = tmp_path / "own.sql"
    script.write_text("SELECT 1;\n")
    record = made("pgbench-tpcb+pgbench", {"script": str(script)})
    both = workload("pgbench-tpcb+pgbench")
    steps = {step.name: step for step in both.steps(record)}
    assert [step.name for step in steps.values()][:2] == ["init.pgbench-beside", "init"]
    assert [role.name for role in steps["tpcb.c3"].roles] == ["pgbench"] * 3 + ["pgbench-beside"]
    assert dict(both.written(record).scripts) == {"own.sql": "SELECT 1;\n"}
    # Nothing is done for a load beside another between the steps: only the main one's tables are vacuumed.
    assert both.maintenance(record, steps["tpcb.c3"], 18).before
    assert not both.maintenance(record, steps["init.pgbench-beside"], 18).before


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("insert+pgbench-select+pgbench-select", "pgbench-select is named twice"),
        ("pgbench-tpcb+insert", "insert cannot be a background workload; name it first"),
    ],
)
def test_what_cannot_be_together_is_refused(name: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        workload(name)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"seconds": "5"}, "seconds is not for a background workload: the main one gives steps and lengths"),
        ({"clients": "1,2"}, "a background workload has one number of clients"),
        ({"connect": "true"}, "connect is not for a background workload"),
        ({"clients": "x"}, "clients must be a list of whole numbers"),
    ],
)
def test_options_that_make_no_sense_beside_another_are_refused(options: dict[str, Any], told: str) -> None:
    assert "pgbench-select" in joining() and "insert" not in joining()
    with pytest.raises(ValueError, match=told):
        workload("pgbench-select").background_plan(options)  # type: ignore[attr-defined]

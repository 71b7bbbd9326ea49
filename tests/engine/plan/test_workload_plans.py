"""Workloads that are compared, and the options of the loads beside the first, from what is asked for to the plans."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.core.errors import UserError
from engine.plan import planfile
from engine.plan.command_line import arguments
from engine.plan.design import decide
from engine.plan.request import Request, request_of
from engine.plan.schedule import interleave, subjects
from engine.plan.workload_plans import loads
from tui.launch.plan_edits import with_workload

SELECT = "insert+pgbench-select"


def asked(**entries: Any) -> Request:
    return planfile.request({"builds": ["16.3"], **entries})


def test_one_workload_is_a_name_and_several_are_arms() -> None:
    assert asked(workload="insert").variants == asked(variants=["insert"]).variants == ()
    together = asked(workload=SELECT)
    assert (together.workload, together.variants) == ("insert", (SELECT,))
    assert asked(variants=[SELECT]) == together
    both = asked(variants=["insert", SELECT], with_options=["clients=2"], clients=3)
    assert both.subjects == 2 and both.options == {"clients": 3}
    for request in (together, both):
        assert planfile.request(request.entries()) == request
    words = arguments(both)
    assert ("--variants", f"insert,{SELECT}") == words[words.index("--variants") :][:2] and "--with" in words
    assert with_workload(both, "pgbench-tpcb").variants == with_workload(both, "pgbench-tpcb").with_options == ()


def test_scripts_of_the_first_are_its_option_and_those_of_others_stay_in_their_names(tmp_path: Path) -> None:
    one, two = (tmp_path / name for name in ("one.sql", "two.sql"))
    for file in (one, two):
        file.write_text("SELECT 1;\n")
    request = asked(variants=f"pgbench:{one},{two},pgbench:{one},{two}+pgbench-select".split(","))
    assert request.options == {"script": [str(one), str(two)]} and request.variants == (
        "pgbench",
        "pgbench+pgbench-select",
    )
    request = asked(variants=["insert", f"insert+pgbench:{one}", f"insert+pgbench:{two}"])
    found = loads(request, request.options)
    assert [load.name for load in found] == ["insert", "insert+pgbench:one.sql", "insert+pgbench:two.sql"]
    assert [load.plan.record["name"] for load in found] == ["insert", "insert+pgbench", "insert+pgbench"]
    assert found[2].plan.record["parts"][1]["scripts"][0]["name"] == "two.sql"
    cells = interleave(subjects(["16.3"], ["auto"], "16.3", False, variants=[load.name for load in found]), 2)
    assert cells[1].id == "002-16.3-insert+pgbench_one.sql-auto-r1"
    assert [cell.subject.workload for cell in cells] == [load.name for load in (*found, *reversed(found))]


def test_options_of_the_others_are_given_to_all_or_to_one() -> None:
    request = asked(
        workload="insert+pgbench-select+pgbench-tpcb",
        with_options=["clients=2", "pgbench-tpcb.clients=3", "pgbench_scale=1", "--jobs=2", "define=a=1", "define=b=2"],
    )
    (load,) = loads(request, {"clients": 4, "rows": 2000})
    main, select, tpcb = load.plan.record["parts"]
    assert [main["clients"], select["clients"], tpcb["clients"]] == [4, 2, 3]
    assert select["options"]["jobs"] == tpcb["options"]["pgbench_scale"] + 1 == 2
    assert select["options"]["define"] == ["a=1", "b=2"]


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ({"variants": ["insert", "insert"]}, "insert is given twice"),
        (
            {"variants": ["insert+pgbench-select+pgbench-tpcb", "insert+pgbench-tpcb+pgbench-select"]},
            "and insert+pgbench-tpcb+pgbench-select are the same",
        ),
        ({"variants": ["insert", "pgbench-select"]}, "insert and pgbench-select begin with different workloads"),
        ({"variants": ["insert", "insert+nothing"]}, "unknown workload 'nothing'"),
        ({"variants": ["insert", SELECT], "workload": "pgbench-tpcb"}, "exclude each other"),
        ({"variants": ["insert", SELECT], "workload": SELECT}, "exclude each other"),
        ({"workload": "insert+pgbench-select:x"}, "takes no value after its name"),
        ({"variants": ["insert+pgbench:/a/x.sql", "insert+pgbench:/b/x.sql"]}, "would be called insert+pgbench:x.sql"),
        ({"workload": SELECT, "pgbench_scale": 3}, "give --with pgbench_scale=VALUE"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_asked_for(entries: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError) as error:
        asked(**entries)
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("workload", "options", "told"),
    [
        ("insert", ["clients=2"], "insert has no background workload"),
        (SELECT, ["clients"], "give NAME=VALUE"),
        (SELECT, ["tpcb.clients=2"], "no background workload is called tpcb, but pgbench-select"),
        (SELECT, ["rows=2"], "rows"),
        (SELECT, ["pgbench_scale=0"], "pgbench_scale must be a whole number"),
        (SELECT, ["seconds=3"], "pgbench-select: seconds is not for a background workload"),
    ],
)
def test_options_that_cannot_be_are_refused(workload: str, options: Sequence[str], told: str) -> None:
    with pytest.raises((ValueError, KeyError), match=told):
        loads(request_of({"builds": ["16.3"], "workload": workload, "with_options": list(options)}), {})


@pytest.mark.parametrize(("entries", "pairs"), [({}, 4), ({"repeats": 2}, 2), ({"plans_only": False}, 8)])
def test_plans_alone_take_fewer_pairs_of_clusters(tmp_path: Path, entries: dict[str, Any], pairs: int) -> None:
    for name in ("schema", "statements"):
        (tmp_path / name).write_text("-- name: a\nSELECT 1;")
    files = {name: str(tmp_path / name) for name in ("schema", "statements")}
    wanted = {"builds": ["16.3", "17.0"], "workload": "own", "interleave": "slices", "plans_only": True, **files}
    request, _, _ = decide(planfile.request({**wanted, **entries}), tmp_path)
    assert request.planned_repeats == pairs

"""Statements on two builds: plans that changed, results that differ, what differs for the planner."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from engine.analysis.causes import statement_plans
from engine.analysis.cells.alpha_spending import alone
from engine.analysis.cells.compared_cells import ComparedCells
from engine.analysis.cells.run_results import CellResult, StepResult
from engine.core.errors import UserError
from engine.core.model import LEVEL, Cell, Subject
from engine.results.comparison import Answer
from engine.results.ratio import Ratio, Verdict
from engine.results.section import Figure, text
from tests.support.totals import made_totals
from workloads.api.report import Report

BASE, NEW = Subject("16", "c"), Subject("17", "c")
HASHED = {
    "kind": "Hash Join",
    "children": [{"kind": "Seq Scan", "relation": "a"}, {"kind": "Seq Scan", "relation": "b"}],
}
NESTED = {"kind": "Nested Loop", "children": [{"kind": "Seq Scan", "relation": "a"},
                                              {"kind": "Index Scan", "relation": "b", "index": "i"}]}  # fmt: skip


def cells(base: list[dict[str, Any]], new: list[dict[str, Any]]) -> ComparedCells:
    """A cell for each of these reports of a step `s`."""
    compared = [
        CellResult("run", Cell(f"{subject.build}-{repeat}", repeat, subject, repeat), "finished", steps={
            "s": StepResult(1, "s", "statement", made_totals("s", "query", 10.0), {}, (),
                            report=msgspec.convert(report, Report))})
        for subject, reports in ((BASE, base), (NEW, new))
        for repeat, report in enumerate(reports, 1)
    ]  # fmt: skip
    return ComparedCells((), BASE, {BASE: "16", NEW: "17"}, ("s",), tuple(compared), 0.02, alone(LEVEL))


def planned(shape: str, tree: dict[str, Any], **further: Any) -> dict[str, Any]:
    return {"plans": [{"statement": "s", "shape": shape, "tree": tree, **further}]}


def ratio(metric: str, value: float, verdict: Verdict) -> Ratio:
    return Ratio("s", "17", metric, value, None, None, 3, verdict)


def test_a_changed_plan_shows_its_effect_and_its_cells() -> None:
    compared = cells([planned("h", HASHED)] * 3, [planned("n", NESTED)] * 2 + [planned("h", HASHED)])
    words = "Hash Join became Nested Loop on b; in 2 of 3 cells"
    slower = ratio("rate_per_s", 0.25, "slower")
    more = ratio("server_cpu_us_per_op", 3.0, "slower")
    for ratios, effect in (
        ((more, slower), "4.0x slower; "),
        ((more, replace(slower, verdict="undecided")), "3.0x the server CPU; "),
        ((), ""),
    ):
        (change,) = statement_plans.plan_changes(compared, ratios)
        assert change.findings == (f"plan changed: s: {effect}{words}",)
    assert statement_plans.plan_changes(cells([planned("h", HASHED)], [planned("h", HASHED)]), ()) == ()


def test_a_plan_that_the_baseline_had_at_times_is_said_to_be_one() -> None:
    base = [planned("h", HASHED)] * 2 + [planned("n", NESTED)]
    (change,) = statement_plans.plan_changes(cells(base, [planned("n", NESTED)] * 3), ())
    assert change.findings[0] == "plan changed: s: Hash Join became Nested Loop on b; 16 had it in 1 of 3, too"


def test_another_kind_of_plan_is_reported_with_equal_plans() -> None:
    compared = cells([planned("h", HASHED, chosen="custom")], [planned("n", NESTED, chosen="generic")])
    (change,) = statement_plans.plan_changes(compared, ())
    assert change.findings[0].endswith("; its plan was custom, is generic")
    unknown = cells([planned("h", HASHED)], [planned("n", NESTED, chosen="generic")])
    assert "its plan was" not in statement_plans.plan_changes(unknown, ())[0].findings[0]
    (same,) = statement_plans.side_by_side(cells([planned("h", HASHED)], [planned("h", HASHED)]), "s")
    assert same.findings == ("s: the same plan",) and len(same.rows) == 3
    with pytest.raises(UserError, match="unknown statement with a plan 'x'"):
        statement_plans.side_by_side(compared, "x")


def returned(**further: Any) -> dict[str, Any]:
    return {"results": [{"statement": "s", "executions": 5, "rows": 10, "values": "v", **further}]}


@pytest.mark.parametrize(
    ("base", "new", "expected"),
    [
        (returned(), returned(), ()),
        (returned(), returned(rows=9), ("s returns other rows: 10 with 16, 9 with 17",)),
        (returned(digest="a"), returned(digest="b"), ("s returns other values with 17 and 16, in 10 rows each",)),
        (returned(), returned(error="42P01 no"), ("s fails: 16: no error; 17: 42P01 no",)),
        (returned(error="no"), returned(error="no"), ("s fails everywhere: no",)),
        (returned(first_rows=2), returned(executions=3, rows=6, first_rows=2), ()),
        (
            returned(first_rows=2),
            returned(executions=3, rows=6, first_rows=1),
            ("s returns other rows: 2 with 16, 1 with 17",),
        ),
        (
            returned(first_rows=2, first_digest="a"),
            returned(executions=3, first_rows=2, first_digest="b"),
            ("s returns other values with 17 and 16, in 2 rows each",),
        ),
        (returned(), returned(executions=3, rows=6), ()),
        (returned(), returned(values="w"), ("s was run with other values on 17: the query of its rule differs",)),
    ],
)
def test_results_that_differ_are_said_before_the_answer(
    base: dict[str, Any], new: dict[str, Any], expected: tuple[str, ...]
) -> None:
    lines = statement_plans.result_differences(cells([base], [new]))
    assert lines == expected
    (answer,) = statement_plans.after_results(lines, (Answer("17", ("17 is slower",)),))
    assert answer.lines == (*(["Not the same results, or none: s."] if expected else []), "17 is slower")


def test_planner_settings_and_statistics_targets_that_differ() -> None:
    old = {"planner": {"jit": "off", "only_old": "1", "options of t.x": "{n_distinct=5}"}}
    new = {"planner": {"jit": "on", "only_new": "1", "statistics target of t.y": "7"}}
    assert statement_plans.planner_differences(cells([old], [new])) == (
        "the planner's settings differ from 16 to 17: jit off became on, "
        "options of t.x {n_distinct=5} became as default, statistics target of t.y as default became 7",
    )  # fmt: skip


def test_planning_times_by_statement_with_an_interval_over_pairs() -> None:
    compared = cells([{"planning": {"a": 1.0, "b": 2.0}}] * 3, [{"planning": {"a": 2.0, "b": 2.0}}] * 3)
    (section,) = statement_plans.planning(compared)
    first, second = section.rows
    *times_ms, ratio = first.values
    assert (first.name, times_ms) == ("a", [1.0, 2.0])
    assert isinstance(ratio, Figure) and (ratio.value, ratio.low, ratio.high) == pytest.approx((2.0, 2.0, 2.0))
    assert ratio.sign == "worse" and second.name == "b" and text(second.values[-1]) == "1.00"


def test_times_of_planning_that_are_none_are_left_out() -> None:
    good = {"planning": {"a": 1.0, "b": 2.0, "c": 1e-308}}
    bad = {"planning": {"a": 2.0, "b": -1.0, "c": 1e308}}
    (section,) = statement_plans.planning(cells([good] * 3, [bad] * 3))
    assert [row.name for row in section.rows] == ["a"]

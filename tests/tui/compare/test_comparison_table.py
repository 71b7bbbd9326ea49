"""A comparison as lines of text, without a terminal: widths, signs, dots, sorting, and nothing lost."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.analysis.answer.compare import compare
from engine.journal.totals import StepTotals
from engine.observe.stalls import Stall
from engine.report.render import to_json
from engine.report.tables import performance
from engine.results.comparison import ComparedSubject as Subject
from engine.results.comparison import Comparison, Spread, comparison_of
from engine.results.ratio import Ratio
from tests.support.journal import make_run
from tests.support.totals import SECOND_NS
from tui.compare import cells_text, comparison_table, explanation
from tui.compare.comparison_table import SORTS, USUAL, RowKey, ratio_text, rows
from tui.compare.dot_plot import DotRow, dots, strips
from tui.glyphs import SETS
from tui.marks import width
from workloads.api.base import PrimaryMetric

BRAILLE, ASCII = SETS["braille"], SETS["ascii"]
EVERYTHING = tuple(comparison_table.SHORT)


def stalled(cell: Any, step: str, started_ns: int) -> list[Stall]:
    """One stall of 14 s in l.i1 of 17.0."""
    if step != "l.i1" or cell.subject.build != "17.0":
        return []
    causes = ({"kind": "checkpoint", "text": "checkpoint sync", "score": 0.9},)
    return [Stall("insert", 1, started_ns, started_ns + 14 * SECOND_NS, "rate", 0.01, 14.0, 0, 280_000, 20e3, causes)]


@pytest.fixture(autouse=True, scope="module")
def made_once() -> None:
    """Before the first property, which would be blamed for the time that it takes."""
    record()


@cache
def record() -> dict[str, Any]:
    """The JSON of a made run of four builds and the base's double."""
    with TemporaryDirectory() as folder:
        run = make_run(
            Path(folder) / "r", builds=("16.3", "17.0", "17beta1-builtin", "18.1"), repeats=4, aa=True,
            effects={("17.0", "l.i0"): 0.9, ("18.1", "l.x"): 1.2, ("17beta1-builtin", "l.i1"): 0.97}, stalls=stalled,
        )  # fmt: skip
        comparison: dict[str, Any] = json.loads(to_json(compare([run])))
        return comparison


def read(record: Any) -> Comparison:
    return comparison_of(record)


def four_builds() -> Comparison:
    return read(record())


def texts(lines: Any) -> list[str]:
    return ["".join(text for text, _ in line) for line in lines]


@given(st.floats(0.001, 900))
def test_a_ratio_never_outgrows_its_column(ratio: float) -> None:
    assert len(ratio_text(ratio)) == 5


def test_sorting_by_effect_puts_the_widest_first() -> None:
    comparison = four_builds()
    by_effect = rows(comparison, ("rate_per_s",), "effect", "")
    assert [row.step for row in by_effect][:2] == ["l.x", "l.i0"]
    worst = rows(comparison, USUAL, "verdict", "")
    assert worst[0] == RowKey("l.i0", "rate_per_s")
    assert set(worst[1:3]) == {RowKey("l.i1", "rate_per_s"), RowKey("l.i1", "stalls")}
    assert {len(rows(comparison, USUAL, sort, "")) for sort in SORTS} == {len(worst)}


@settings(deadline=None)
@given(st.lists(st.sampled_from(["l.i0", "slower", "cpu", "q", "WAL", "sla", "nothing"]), max_size=3))
def test_what_is_looked_for_narrows_and_never_adds(words: list[str]) -> None:
    comparison = four_builds()
    everything = rows(comparison, EVERYTHING, "steps", "")
    narrowed = rows(comparison, EVERYTHING, "steps", " ".join(words))
    assert [row for row in everything if row in narrowed] == narrowed
    assert (not narrowed) or "nothing" not in words


@settings(deadline=None)
@given(st.lists(st.floats(1, 1e6), max_size=8), st.integers(1, 120))
def test_every_cell_is_a_dot(values: list[float], columns: int) -> None:
    low, high = min(values, default=0.0), max(values, default=0.0)
    drawn = dots(values, low, high, columns, BRAILLE)
    assert len(drawn) == columns
    assert sum(1 if letter == "●" else int(letter) for letter in drawn if letter != " ") == len(values)
    if len(set(values)) > 1 and columns > 1:
        assert drawn[0] != " "
        assert drawn[-1] != " "


def test_dots_of_all_subjects_stand_on_one_scale() -> None:
    given_rows = [DotRow("a", (10.0, 20.0)), DotRow("a name that is too long", (30.0,), "CV 15%"), DotRow("none", ())]
    lines = texts(strips(given_rows, 80, ASCII))
    assert max(map(len, lines)) <= 80
    assert lines[0].index("o") < lines[0].rindex("o") < lines[1].index("o", 17)
    assert lines[1].endswith("CV 15%")
    assert lines[1].startswith(" a name that is ~ ")


def test_stalls_have_seconds_in_the_column_of_the_base() -> None:
    forms = [comparison_table.counted(four_builds(), RowKey("l.i1", "stalls"), "17.0", n)[0] for n in (20, 12, 11, 6)]
    assert forms == ["! 56.0 s in 4/4", "! 56.0 s 4/4", "!56 s 4/4", "! 4/4"]


def test_two_modes_are_told_beside_the_dots() -> None:
    comparison = four_builds()
    spread = Spread("l.i0", "17.0", "rate_per_s", 0.2, 9.0, True, True)
    comparison = replace(comparison, remarks=replace(comparison.remarks, spreads=(spread,)))
    (subject,) = (subject for subject in comparison.others if subject.name == "17.0")
    notes = {row.name: row.note for row in explanation.dot_rows(comparison, RowKey("l.i0", "rate_per_s"), subject, 5)}
    assert notes["17.0"] == "two modes, 900% apart"
    assert notes["16.3"] == ""


def test_few_lines_keep_the_base_and_the_chosen_subject() -> None:
    comparison = four_builds()
    for subject in comparison.others:
        names = [row.name for row in explanation.dot_rows(comparison, RowKey("l.i0", "rate_per_s"), subject, 3)]
        assert len(names) == 3
        assert names[0] == "16.3"
        assert subject.name in names


def subject_of(comparison: Comparison, name: str) -> Subject:
    return next(subject for subject in comparison.others if subject.name == name)


def test_a_stall_and_its_likeliest_cause_come_before_the_figures() -> None:
    comparison = four_builds()
    lines = texts(
        explanation.why(comparison, RowKey("l.i1", "rate_per_s"), subject_of(comparison, "17.0"), ASCII, 60, 4)
    )
    assert lines[0] == "! 14.0s insert  checkpoint sync"
    assert len(lines) == 4


def test_named_causes_come_first_with_what_is_left_unexplained() -> None:
    rows: list[dict[str, Any]] = [
        {"name": "17.0", "values": ["90.0 to 163.0", ""]},
        {"name": "lock waits (tuple)", "values": [60.0, {"value": 0.82, "low": 0.75, "high": 0.89}], "depth": 1},
        {"name": "unexplained", "values": ["", 0.18], "depth": 1, "mark": "dim"},
        {"name": "run queue", "values": [8.0, {"value": "undecided", "low": -0.4, "high": 0.6}], "depth": 2},
    ]
    columns = [{"name": "cause"}, {"name": "us", "unit": "change"}, {"name": "share", "unit": "percent"}]
    place = {"step": "l.i1", "subject": "17.0"}
    section = {"key": "causes", "title": "Causes", "columns": columns, "rows": [row | place for row in rows]}
    comparison = read({**record(), "sections": [section]})
    row, subject = RowKey("l.i1", "rate_per_s"), subject_of(comparison, "17.0")
    lines = texts(explanation.why(comparison, row, subject, ASCII, 60, 5))
    assert [line.split() for line in lines[:3]] == [
        ["82%", "lock", "waits", "(tuple)", "75%", "to", "89%"],
        ["18%", "unexplained"],
        ["undecided", "run", "queue", "-40%", "to", "60%"],
    ]
    assert lines[3].startswith("! 14.0s insert")


def test_a_plan_that_changed_comes_before_all_other_causes() -> None:
    finding = "plan changed: l.i1: 3.2x slower; Hash Join became Nested Loop on order_lines"
    plan = {"key": "plans", "title": "Plans of l.i1", "columns": [{"name": ""}] * 3, "findings": [finding],
            "rows": [{"name": "", "values": ["a", "b"], "step": "l.i1", "subject": "17.0"}]}  # fmt: skip
    comparison = read({**record(), "sections": [plan]})
    subject = subject_of(comparison, "17.0")
    lines = texts(explanation.why(comparison, RowKey("l.i1", "rate_per_s"), subject, ASCII, 90, 5))
    assert lines[0].strip() == finding
    other = texts(explanation.why(comparison, RowKey("l.i0", "rate_per_s"), subject, ASCII, 90, 5))
    assert "plan changed" not in other[0]


def test_phases_of_statements_are_told_of_both_sides() -> None:
    raw = record()
    shares = {"16.3": {"parse": 0.1, "plan": 0.2, "other": 0.7}, "17.0": {"parse": 0.1, "plan": 0.31, "other": 0.59}}
    cells = [{**cell, "phases": shares.get(cell["subject"])} for cell in raw["cells"]]
    comparison = read({**raw, "cells": cells})
    lines = texts(
        explanation.why(comparison, RowKey("l.i0", "rate_per_s"), subject_of(comparison, "17.0"), ASCII, 60, 9)
    )
    assert lines[0] == "parse 10%->10% plan 20%->31%"


def test_checks_that_failed_come_first_and_whole() -> None:
    raw = record()
    check = {"subject": "17.0", "what": "machine", "ok": False,
             "text": "pair 2: the CPU's clock changed: 3400 MHz, then 2000 MHz"}  # fmt: skip
    comparison = read({**raw, "comparability": [check, *raw["comparability"]]})
    lines = texts(explanation.comparable(comparison, subject_of(comparison, "17.0"), ASCII, 38, 8))
    assert (
        " ".join(" ".join(lines[:2]).split()) == "? machine: pair 2: the CPU's clock changed: 3400 MHz, then 2000 MHz"
    )
    assert lines[-1].startswith("ok ")
    assert texts(explanation.comparable(comparison, subject_of(comparison, "17.0"), ASCII, 38, 3))[-1].endswith(
        "more: enter"
    )


@settings(deadline=None)
@given(st.integers(80, 200))
def test_the_detail_of_a_cell_fits_and_holds_stalls_with_causes(columns: int) -> None:
    comparison = four_builds()
    subject = subject_of(comparison, "17.0")
    cells = cells_text.cells(comparison, "l.i1", subject)
    assert [(cell.repeat, cell.subject) for cell in cells[:4]] == [(1, "16.3"), (1, "17.0"), (2, "16.3"), (2, "17.0")]
    lines = [cells_text.heading(comparison, RowKey("l.i1", "rate_per_s"), columns)]
    lines += cells_text.table(comparison, subject, cells, 1, columns, BRAILLE)
    about = cells_text.about(comparison, cells[1], columns)
    about += cells_text.judged(comparison, RowKey("l.i1", "rate_per_s"), subject, columns, BRAILLE)
    assert max(width(line) for line in [*lines, *cells_text.window(about, 0, 99, columns, BRAILLE)]) <= columns
    said = " ".join(" ".join(texts(about)).split())
    assert "! 14.0 s insert at 1% of 20k rows/s, 280,000 rows not done" in said
    as_pgbench = replace(cells[1], stalls=(replace(cells[1].stalls[0], role="pgbench"),))
    about = cells_text.about(replace(comparison, units={"l.i1": "tx/s"}), as_pgbench, 200)
    assert "pgbench at 1% of 20k tx/s, 280,000 tx not done" in " ".join(" ".join(texts(about)).split())
    assert "1. checkpoint sync (90%)" in said
    assert "PostgreSQL 17.0, local" in said


def test_lines_beyond_the_window_are_counted() -> None:
    lines = [((str(number), ""),) for number in range(10)]
    assert texts(cells_text.window(lines, 2, 4, 80, ASCII)) == ["2", "3", "4", " 5 more: pgdn"]
    assert texts(cells_text.window(lines, 6, 4, 80, ASCII)) == ["6", "7", "8", "9"]


def test_a_control_is_compared_with_its_own_build() -> None:
    comparison = replace(four_builds(), base="17.0")
    double = next(subject for subject in comparison.subjects if subject.control == "aa")
    assert comparison.baseline_of(double.name) == "16.3"
    assert comparison.others[-1] == double


def test_ratios_without_a_value_are_no_numbers() -> None:
    comparison = four_builds()
    blank = Ratio("l.i0", "17.0", "rate_per_s", None, None, None, 0, "none", reasons=("both at most 0.01",))
    comparison = replace(comparison, ratios=(*comparison.ratios, blank))
    (said,) = texts(
        [explanation.verdict(comparison, RowKey("l.i0", "rate_per_s"), subject_of(comparison, "17.0"), ASCII)]
    )
    assert said.endswith("both at most 0.01")
    assert all(math.isfinite(ratio.ratio) for ratio in comparison.ratios if ratio.ratio is not None)


def test_a_rate_is_in_the_unit_of_its_step(tmp_path: Path) -> None:
    def asked(_: Any, step: str, totals: StepTotals) -> StepTotals:
        return replace(totals, primary_metric=PrimaryMetric("query", "questions/s")) if step == "qr100" else totals

    result = compare([make_run(tmp_path / "r", change=asked)])
    assert json.loads(to_json(result))["units"] == {
        "l.i0": "rows/s", "l.x": "rows/s", "l.i1": "rows/s", "qr100": "questions/s",
    }  # fmt: skip
    (throughput,), (cells,) = (table(result) for table in (performance.THROUGHPUT, performance.EVERY_CELL))
    assert throughput.title == "Throughput in rows/s or questions/s (mean of cells, ratio to base)"
    assert cells.title == "Every cell (rows/s or questions/s)"
    row = RowKey("qr100", "rate_per_s")
    assert comparison_table.name_of(result, row) == "questions/s"
    heading = "".join(part for part, _ in cells_text.heading(result, row, 80))
    assert heading.startswith(" rep cell of       questions/s / base")
    before = "".join(part for part, _ in cells_text.heading(result, RowKey("l.i0", "rate_per_s"), 80))
    assert heading.index("/ base") == before.index("/ base")

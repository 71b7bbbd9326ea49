"""Tables of transactions: which times of statements they show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from engine.analysis.answer.compare import compare
from engine.core.model import Cell
from engine.journal.totals import StepTotals
from engine.report import render
from tests.support.journal import make_run
from workloads.client.counter_page import Page
from workloads.pgbench.log_counts import LogCounts, Stops, report

STATEMENTS = [
    {"script": 1, "statement": "UPDATE t SET", "mean_ms": 2.0, "stop_ms": 0.03},
    {"script": 1, "statement": "UPDATE t SET", "mean_ms": 4.0, "stop_ms": 0.03},
    {"script": 1, "statement": "SELECT 1", "mean_ms": 1.25, "stop_ms": 0.03},
    {"script": 2, "statement": "UPDATE t SET", "mean_ms": 8.0},
]


def lines(tmp_path: Path, statements: list[dict[str, Any]]) -> list[str]:
    def change(_cell: Cell, _step: str, totals: StepTotals) -> StepTotals:
        return replace(totals, report={"statements": statements})

    run = make_run(tmp_path / "run", builds=("16.3",), repeats=1, change=change)
    console = Console(width=80, record=True, force_terminal=False)
    render.print_comparison(compare([run]), console)
    return [" ".join(line.split()) for line in console.export_text().splitlines()]


def test_statements_that_begin_alike_are_distinguished(tmp_path: Path) -> None:
    table = lines(tmp_path, STATEMENTS)
    place = next(place for place, line in enumerate(table) if line.startswith("Time of each statement"))
    rows = [line for line in table[place + 1 :] if line.startswith(("UPDATE", "SELECT"))][:4]
    assert [row.rpartition("t SET ")[2] for row in (rows[0], rows[1], rows[3])] == ["2.000", "4.000", "8.000"]
    assert rows[2].startswith("SELECT 1 - (")
    mark = rows[2].partition("- ")[2]
    assert any(line.startswith(f"{mark} pgbench is stopped before and after") for line in table)


def test_a_stop_is_shared_among_its_scripts_transactions() -> None:
    page = Page.create(4)
    try:
        counting = LogCounts(page, 1, 0, False, 0.0)
        statements = [{"script": number, "statement": "SELECT 1", "mean_ms": 1.0} for number in (1, 2)]
        scripts = [{"script": "a.sql", "transactions": 400}, {"script": "b.sql", "transactions": 40}]
        summary = {"processed": 440, "scripts": scripts, "statements": statements}
        several = report(summary, counting, 1_000_000_000)
        one = report({"processed": 1000, "statements": statements[:1]}, counting, 1_000_000_000)
    finally:
        page.close()
    assert [row["stop_ms"] for row in several["statements"]] == [10.0, 100.0] and several["stopped_ms"] == 1000.0
    assert one["statements"][0]["stop_ms"] == 4.0 and "unended" not in one
    assert report({}, counting, 0, unended=True)["unended"] is True


def test_stops_of_slices_are_subtracted_with_their_error(tmp_path: Path) -> None:
    page = Page.create(4)
    try:
        counting = LogCounts(page, 1, 0, False, 0.0)
        statements = [{"script": 1, "statement": sql, "mean_ms": ms} for sql, ms in (("SELECT 1", 16.0), ("END", 4.0))]
        stops = Stops(20_000_000_000, (100_000_000,) * 100)  # half of the time
        rows = report({"processed": 4000, "statements": statements}, counting, 0, stops)["statements"]
    finally:
        page.close()
    assert [row["mean_ms"] for row in rows] == [8.0, 2.0] and [row["clock_ms"] for row in rows] == [16.0, 4.0]
    # Of 400 draws 320 and 80 are expected, with a standard deviation of 8: 0.8 s of 64 and of 16 s.
    assert [row["error_ms"] for row in rows] == pytest.approx([8.0 * 0.8 / 64, 2.0 * 0.8 / 16])
    table = lines(tmp_path, [*rows, {"script": 1, "statement": "TOO UNSURE", "mean_ms": 1.0, "error_ms": 0.2}])
    assert any(line.startswith("SELECT 1 8.000 ±2% (") for line in table)
    assert any(line.startswith("TOO UNSURE - (") for line in table)

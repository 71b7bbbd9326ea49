"""Steps that are judged by a time: less is better, and every word, table and record says so."""

from __future__ import annotations

import json
import os
import platform
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.analysis.answer.compare import compare
from engine.analysis.answer.noise import smallest_effects
from engine.core.format import duration
from engine.core.model import Cell
from engine.journal.reader import JournalReader
from engine.journal.totals import StepTotals
from engine.report.render import to_csv, to_json, to_markdown
from engine.results.comparison import Comparison
from engine.view.run_summary import read_cells, read_run
from tests.support.journal import ENVIRONMENT, make_run
from tests.support.totals import made_role
from tui.compare import cells_text, comparison_table, explanation
from tui.glyphs import SETS
from tui.history import text as history
from workloads.api.base import PrimaryMetric

USUAL_S = 0.25


def timed(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
    """`l.i0` becomes a task of a quarter of a second, 12% more with 17.0, `l.i1` one that takes 10% less with it."""
    if step not in ("l.i0", "l.i1"):
        return totals
    factor = {"l.i0": 1.12, "l.i1": 0.9}[step] if cell.subject.build == "17.0" else 1.0
    took_ns = round(USUAL_S * 1e9 * factor * (1 + cell.repeat / 1000))
    used_s = took_ns / 2e9
    report = {
        "timing": {"user_s": used_s, "system_s": used_s / 4, "memory_bytes": 9 << 20, "floor_s": 0.012,
                   "server_cpu_s": 0.1 * factor},
        "work": {"WAL bytes to replay": 1000 + cell.repeat},
    }  # fmt: skip
    primary = PrimaryMetric("task", "s", live=False, by="time")
    task = made_role(1, 0, service_ns=took_ns, max_ns=took_ns)
    return replace(
        totals, roles={"task": task}, primary_metric=primary, report=report, apart=step == "l.i0", wal_bytes=5000
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("times") / "r", change=timed)


@pytest.fixture(scope="module")
def comparison(run: Path) -> Comparison:
    return compare([run])


def test_more_time_is_slower_and_less_is_faster(comparison: Comparison) -> None:
    slower, faster, rate = (
        comparison.ratio("17.0", step, metric)
        for step, metric in (("l.i0", "time_s"), ("l.i1", "time_s"), ("qr100", "rate_per_s"))
    )
    assert slower is not None and faster is not None and rate is not None
    assert (slower.verdict, slower.better, slower.ratio) == ("slower", False, pytest.approx(1.12, abs=1e-6))
    assert (faster.verdict, faster.better, faster.ratio) == ("faster", True, pytest.approx(0.9, abs=1e-6))
    assert rate.verdict == "same"
    assert comparison.ratio("17.0", "l.i0", "rate_per_s") is None
    assert comparison.primary_metric("l.i0") == "time_s" and comparison.units["l.i0"] == "s"
    slow, fast, within = comparison.answer_for("17.0")
    assert slow == "17.0 is slower than 16.3 in 1 of 4 steps: l.i0 +12.0% [+12.0, +12.0] in time"
    assert fast.startswith("faster in 1: l.i1 -10.0% [") and within == "within 2% in 2: l.x, qr100"


def test_the_programs_and_their_servers_are_told_apart(comparison: Comparison) -> None:
    apart, beside = (comparison.of("16.3", step)[0] for step in ("l.i0", "l.i1"))
    assert apart.time_s == pytest.approx(0.25025) and apart.floor_s == 0.012 and apart.memory_bytes == 9 << 20
    assert (apart.server_cpu_us_per_op, apart.client_cpu_us_per_op, apart.wal_bytes_per_op) == (1e5, None, None)
    assert beside.server_cpu_us_per_op != 1e5 and beside.wal_bytes_per_op == 5000
    assert beside.client_cpu_us_per_op == pytest.approx(1.25e6 * (beside.time_s or 0) / 2)
    cost = comparison.ratio("17.0", "l.i0", "server_cpu_us_per_op")
    assert cost is not None and cost.verdict == "slower"
    user = comparison.ratio("17.0", "l.i0", "user_s")
    assert user is not None and user.verdict == "none" and user.flagged and not user.better


def test_tables_csv_and_json_say_times(comparison: Comparison) -> None:
    text = to_markdown(comparison)
    times = text[text.index("### Time (mean") :]
    assert "less is better" in times.splitlines()[0]
    row = next(line for line in times.splitlines() if line.startswith("| l.i0"))
    assert re.match(r"\| l\.i0 \| [\d.]+ ms \| 281 ms \| ▼1\.120 \| 1\.120-1\.120 \| slower", row)
    assert "reports a rate or time as different" in text and "| 9 MB | 12 ms |" in text
    throughput = text[text.index("### Throughput") : text.index("### Time (mean")]
    assert "l.i0" not in throughput and "| s |" not in throughput
    cells = [cell for cell in json.loads(to_json(comparison))["cells"] if cell["step"] == "l.i0"]
    assert all(cell["rate_per_s"] is None and cell["time_s"] > 0.2 for cell in cells)
    assert "l.i0,17.0,17.0,auto,host,,time_s,3,0.28" in to_csv(comparison)


def test_the_screens_say_times(run: Path, comparison: Comparison) -> None:
    glyphs, (subject,) = SETS["ascii"], comparison.others
    (row,) = comparison_table.rows(comparison, ("rate_per_s", "time_s"), "steps", "l.i0")
    assert (row.metric, comparison_table.name_of(comparison, row)) == ("time_s", "time")
    said = "".join(text for text, _ in explanation.verdict(comparison, row, subject, glyphs))
    assert "l.i0 time, 17.0: " in said and "1.120" in said and "slower" in said
    cells = cells_text.cells(comparison, "l.i0", subject)
    shown = ["".join(text for text, _ in line) for line in cells_text.table(comparison, subject, cells, 0, 100, glyphs)]
    assert "250 ms" in shown[0] and "280 ms  1.120" in shown[1]
    assert "time" in "".join(text for text, _ in cells_text.heading(comparison, row, 100))
    rows = {cell.step: history.rate(cell) for cell in read_cells(read_run(run)) if cell.build == "16.3"}
    assert rows["l.i0"].endswith(" ms") and rows["qr100"].isdecimal()
    with JournalReader(run) as reader:
        judged = reader.rates(reader.attempts()[0].id)
    assert judged["l.i0"] < 1 < judged["qr100"]


def test_unequal_work_withholds_the_verdict(tmp_path: Path) -> None:
    def more(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        totals_of_step = timed(cell, step, totals)
        amount = 2000 if cell.subject.build == "17.0" else 1000
        return (
            replace(totals_of_step, report={**totals_of_step.report, "work": {"WAL bytes to replay": amount}})
            if step == "l.i0"
            else totals_of_step
        )

    ratio = compare([make_run(tmp_path / "r", change=more)]).ratio("17.0", "l.i0", "time_s")
    assert ratio is not None and ratio.verdict == "withheld"
    assert "unequal work in pair 1: WAL bytes to replay 1,000 vs 2,000" in ratio.reasons


def test_a_report_that_makes_no_sense_damages_its_cell_only(tmp_path: Path) -> None:
    def damaged(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        totals_of_step = timed(cell, step, totals)
        wrong: dict[str, Any] = {"timing": {"user_s": "much"}}
        return replace(totals_of_step, report=wrong) if cell.ordinal == 0 and step == "l.i0" else totals_of_step

    (left_out,) = compare([make_run(tmp_path / "r", change=damaged)]).remarks.left_out
    assert left_out.state == "damaged" and "report" in left_out.reason and "timing.user_s" in left_out.reason


def test_the_smallest_visible_effect_is_given_for_times_too(tmp_path: Path) -> None:
    here = {"host": {"name": platform.node()}, "cpu": {**ENVIRONMENT["cpu"], "threads": os.cpu_count()}}

    def stray(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        figures = timed(cell, step, totals)
        strayed = {
            name: replace(role, service_ns=role.service_ns + cell.ordinal**2) for name, role in figures.roles.items()
        }
        return replace(figures, roles=strayed)

    make_run(tmp_path / "r", change=stray, aa=True, environment=ENVIRONMENT | here)
    estimate = smallest_effects(tmp_path, 4, ["l.i0"], workload="insert")
    assert estimate is not None and 0 < estimate.steps["l.i0"] < 0.2


def test_times_have_their_unit() -> None:
    texts = [duration(value) for value in (None, 4.412, 117.2, 0.117, 0.0999951, 0.0000042, 0.001, 0.9996, 0.0)]
    assert texts == ["-", "4.41 s", "117 s", "117 ms", "100 ms", "4.20 us", "1 ms", "1.00 s", "0 us"]

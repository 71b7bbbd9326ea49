"""The journal as a database for SQL: its views, and the manual's queries of them."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from engine.core.model import Cell
from engine.journal.totals import StepTotals
from engine.observe.stalls import Stall
from tests.support.journal import make_run
from tests.support.totals import SECOND_NS, made_slices

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "sql.md"
SCHED = {"oncpu_us": 7, "off": {"disk": 3}, "runq_us": [[0, 2], [3, 8]], "text": "not a number"}


def stalled(cell: Cell, step: str, started_ns: int) -> list[Stall]:
    span = (started_ns + SECOND_NS, started_ns + 3 * SECOND_NS)
    return [Stall("insert", 1, *span, "rate", 0.1, 2.0, max_in_flight_ns=SECOND_NS, missed_rows=9, median_per_s=5.0)]


def probed(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
    return replace(totals, probes={"query": {"sched": SCHED}})


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(
        tmp_path / "run", repeats=1, stalls=stalled, change=probed,
        slices=lambda cell, step: made_slices(cell, step, {"16.3": 8000.0, "17.0": 7600.0}, blocks=3),
    )  # fmt: skip


def rows(run: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(f"file:{run / 'journal.db'}?mode=ro", uri=True)) as journal:
        return journal.execute(query).fetchall()


def test_every_view_is_on_the_page_and_answers(run: Path) -> None:
    views = {str(name) for (name,) in rows(run, "SELECT name FROM sqlite_schema WHERE type = 'view'")}
    listed = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \|", PAGE.read_text(), re.MULTILINE))))
    assert listed == views - {"finished_steps"}
    empty = {view for view in views if not rows(run, f"SELECT * FROM {view}")}
    assert empty == {"waits", "counters", "transactions_ms"}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT build, state, reason FROM cells", [("16.3", "finished", None), ("17.0", "finished", None)]),
        ("SELECT count(*), min(cell) FROM steps", [(8, "001-16.3-auto-r1")]),
        ("SELECT max(t_s), sum(rows) FROM seconds WHERE step = 'qr100' AND role = 'insert'", [(12.0, 2 * 12 * 500)]),
        ("SELECT DISTINCT role, t_s, duration_s, missed_rows FROM stalls", [("insert", 1.0, 2.0, 9.0)]),
        ("SELECT DISTINCT at_most, count FROM probe_histograms", [(0, 2), (7, 8)]),
        ("SELECT DISTINCT figure, part, value FROM probe_counts", [("oncpu_us", None, 7.0), ("off", "disk", 3.0)]),
        ("SELECT DISTINCT source, counter, value FROM samples", [("host", "switches", 5.0)]),
        ("SELECT block, place, ops, cpu_s, stopped_processes FROM slices LIMIT 1", [(1, 0, 384, 0.0384, 1)]),
        ("SELECT view, counter, value FROM differences LIMIT 1", [("wal", "wal_records", 12.0)]),
        ("SELECT name, value FROM settings", [("shared_buffers", "1GB")] * 2),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_views_have_names_and_units(run: Path, query: str, expected: list[tuple[object, ...]]) -> None:
    assert rows(run, query) == expected


@pytest.mark.parametrize(("blocks", "state"), [(0, "finished"), (4, "alone")], ids=["cells", "slices"])
def test_views_leave_out_the_cells_that_a_comparison_leaves_out(tmp_path: Path, blocks: int, state: str) -> None:
    folder = make_run(tmp_path / "run", repeats=2, failed={1: "killed"}, blocks=blocks)
    finished = [("16.3", 2, "finished"), ("17.0", 2, "finished")]
    cells = rows(folder, "SELECT build, repeat, state FROM cells ORDER BY repeat, build")
    assert cells == [("16.3", 1, state), ("17.0", 1, "failed"), *finished]
    measured = rows(folder, "SELECT DISTINCT build, repeat FROM steps JOIN cells USING (cell) ORDER BY repeat, build")
    assert measured == [key[:2] for key in cells if key[2] == "finished"]


def test_the_queries_and_the_program_of_the_page_run(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = PAGE.read_text()
    queries = [query for block in re.findall(r"```sql\n(.*?)```", page, re.DOTALL) for query in block.split(";\n")]
    assert [len(rows(run, query)) for query in queries if query.strip()] == [8, 8, 4]
    monkeypatch.chdir(run.parent)
    exec(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0], {})
    assert "('run', '001-16.3-auto-r1', 'qr100', " in capsys.readouterr().out

"""The table of what an operation reads: pages, what came from the device, and the time that it took."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from engine.analysis.compare import compare
from engine.core.model import Cell
from engine.journal.totals import StepTotals
from engine.report.tables.performance import READ
from engine.report.tables.section import Notes
from tests.support.journal import make_run


def reading(pages: float, ms: float | None) -> Callable[[Cell, str, StepTotals], StepTotals]:
    """Queries of 17.0 read this many pages each, those of 16.3 half of them; the time is in ms of each page."""

    def change(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        if step != "qr100":
            return replace(totals, pages_read=0, read_ms=0.0)
        read = round(totals.roles["query"].statements * pages / (2 if cell.subject.build == "16.3" else 1))
        own = read // 4 if cell.subject.build == "17.0" else None  # as of a version that does not tell its reads
        return replace(totals, reads=own, pages_read=read, read_ms=None if ms is None else read * ms)

    return change


def rows(folder: Path, pages: float, ms: float | None) -> list[tuple[str, ...]]:
    comparison = compare([make_run(folder / "run", change=reading(pages, ms), noise=0.0)])
    return [cells for section in READ(comparison, Notes()) for cells, _ in section.rows]


def test_reads_have_their_number_time_and_ratio_in_the_steps_that_read(tmp_path: Path) -> None:
    step, base, other, ratios = rows(tmp_path, 4, 0.25)
    assert step == ("qr100",), "other steps read nothing"
    assert base[0].strip() == "16.3" and base[1:3] == ("-", "2.00") and base[4:6] == ("500.0", "8,000")
    assert other[0].strip() == "17.0" and other[1:3] == ("1.00", "4.00") and other[4:6] == ("1,000", "8,000")
    assert ratios[1] == "" and "2.000" in ratios[2] and "2.000" in ratios[4] and "1.000" in ratios[5]


def test_reads_without_a_time_have_none(tmp_path: Path) -> None:
    *_, other, _ = rows(tmp_path, 4, None)
    assert other[2] == "4.00" and other[4] == "-"


def test_hardly_any_reads_have_no_table(tmp_path: Path) -> None:
    assert rows(tmp_path, 0.004, 0.25) == []

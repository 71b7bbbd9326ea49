"""The table of what programs took that were timed, beside the time that a step is judged by."""

from __future__ import annotations

from engine.core.format import duration, size
from engine.report.section import Notes, Row, Section, Table
from engine.results.comparison import Comparison

FIGURES = (("user_s", "user"), ("system_s", "system"), ("memory_bytes", "peak\nmemory"), ("floor_s", "floor"))


def sections(comparison: Comparison, notes: Notes) -> list[Section]:
    """The table, where any program was timed."""
    section = PROGRAMS.filled(comparison, notes)
    return [section] if section.rows else []


def _rows(comparison: Comparison, _: Notes, step: str, subject: str) -> list[Row]:
    found = [(name, comparison.median(subject, step, name)) for name, _ in FIGURES]
    if all(value is None for _, value in found):
        return []
    times = [each for cell in comparison.of(subject, step) for each in cell.times_s]
    extremes = (min(times), max(times)) if len(times) > 1 else (None, None)
    return [((*(_text(name, value) for name, value in found), str(len(times) or "-"), *map(duration, extremes)), "")]


def _text(name: str, value: float | None) -> str:
    if name != "memory_bytes":
        return duration(value)
    return "-" if value is None else size(value)


PROGRAMS = Table(
    "What the programs took that were timed (median of cells; floor: what they take to do nothing)",
    (*(title for _, title in FIGURES), "runs", "fastest", "slowest"),
    _rows,
)

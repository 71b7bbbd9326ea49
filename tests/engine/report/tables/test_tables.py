"""Long sections are cut below a heading, and nowhere else."""

from __future__ import annotations

from engine.report.tables import MOST_ROWS, shortened
from engine.results.section import Section, columns, row


def test_only_rows_below_a_heading_are_cut() -> None:
    """A ratio that follows many roles stays."""
    roles = [row(f"role {place}", place, step="l.i1", subject="18") for place in range(20)]
    ratio = row("all of them / base", 1.0, step="l.i1", subject="18", depth=1)
    functions = [row(f"function {place}", place, step="qr100", subject="18", depth=1) for place in range(MOST_ROWS + 3)]
    heading = row("18", 1.0, step="qr100", subject="18")
    kept = shortened(Section("some", "Some", columns("name", "count"), (*roles, ratio, heading, *functions))).rows
    assert kept[: len(roles) + 1] == (*roles, ratio)
    assert [line.name for line in kept[-2:]] == [f"function {MOST_ROWS - 1}", "and 3 more (--json)"]

"""The table of what makes the difference in time per operation."""

from __future__ import annotations

from engine.report.section import Notes, Row, Section, number
from engine.results.comparison import Comparison
from engine.results.time_parts import Attribution, Part


def sections(comparison: Comparison, _: Notes) -> list[Section]:
    """The table, where any rate or time is not the same and there is more than one pair."""
    title = "What makes the difference in time per operation (of one connection; share of the difference)"
    section = Section(title, ("step, build and cause", "us", "share", "95 %"))
    for step in comparison.steps:
        found = (comparison.attribution(name, step) for name in comparison.names)
        section.add_step(step, [row for each in found if each is not None and each.pairs > 1 for row in _rows(each)])
    return [section] if section.rows else []


def _rows(found: Attribution) -> list[Row]:
    """The causes, what is left, and below that what may be part of it."""
    rows: list[Row] = [((f"  {found.subject}", f"{number(found.base_us)} to {number(found.us)}", "", ""), "")]
    if found.reason:
        return [*rows, ((f"    {found.reason}", "", "not known", ""), "dim")]
    causes: list[Row] = [
        ((f"    {part.title}", _more(part), part.share_text, part.bounds_text), "") for part in found.named
    ]
    if found.further:
        causes.append(((f"    {found.further_text}", "", f"{found.further_share:.0%}", ""), ""))
    unclear: list[Row] = [
        ((f"      {part.title}", _more(part), "not known", part.bounds_text), "dim")
        for part in found.of(found.not_known)
    ]
    return [*rows, *causes, (("    unexplained", "", found.unexplained_text, ""), "dim"), *unclear]


def _more(part: Part) -> str:
    return f"{part.us - part.base_us:+,.1f}"

"""Steps of one kind together: a line for each group."""

from __future__ import annotations

from collections.abc import Iterable

from engine.report.tables.section import STYLES, Notes, Row, Section, bounds, ratio_text
from engine.results.comparison import Comparison
from engine.results.ratio import StepGroup

TITLE = "Groups of steps (mean of their ratios within each pair)"
COLUMNS = ("group", "steps", "ratio", "95%", "verdict")


def step_groups(comparison: Comparison, notes: Notes) -> Iterable[Section]:
    section = Section(TITLE, COLUMNS)
    several = len({group.ratio.subject for group in comparison.groups}) > 1
    for kind in dict.fromkeys(group.ratio.step for group in comparison.groups):
        own = [group for group in comparison.groups if group.ratio.step == kind]
        if several:
            section.add_step(kind, [_row(group, f"  {group.ratio.subject}", notes) for group in own])
        else:
            section.add_step("", [_row(group, kind, notes) for group in own])
    yield section


def _row(group: StepGroup, name: str, notes: Notes) -> Row:
    ratio = group.ratio
    verdict = ratio.verdict_text + notes.mark(ratio.remarks)
    return (name, str(len(group.steps)), ratio_text(ratio), bounds(ratio), verdict), STYLES.get(ratio.sign, "")

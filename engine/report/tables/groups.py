"""Many steps at a glance: a line for each group of steps of one kind."""

from __future__ import annotations

from collections.abc import Iterable

from engine.report.tables.section import Notes, Row, Section
from engine.results.comparison import Comparison
from engine.results.step_groups import StepGroup, groups

TITLE = "Groups of steps (mean ratio to base, and the lowest and highest of a step)"
COLUMNS = ("group", "steps", "ratio", "95 %", "lowest", "highest", "verdicts")


def step_groups(comparison: Comparison, _: Notes) -> Iterable[Section]:
    section = Section(TITLE, COLUMNS)
    found = groups(comparison)
    several = len({group.subject for group in found}) > 1
    for kind in dict.fromkeys(group.kind for group in found):
        rows = [_row(group, f"  {group.subject}" if several else kind) for group in found if group.kind == kind]
        if several:
            section.add_step(kind, rows)
        else:
            section.rows += rows
    if section.rows:
        section.notes.append("a group's interval is as wide as if all its steps erred together")
    yield section


def _row(group: StepGroup, name: str) -> Row:
    bounds = "" if group.low is None or group.high is None else f"{group.low:.3f}-{group.high:.3f}"
    ends = (f"{ratio.ratio:.3f}" for ratio in (group.least, group.most))
    return (name, str(len(group.ratios)), f"{group.mean:.3f}", bounds, *ends, group.words), ""

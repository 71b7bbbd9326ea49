"""Many steps at a glance: a line for each group of steps of one kind."""

from __future__ import annotations

from collections.abc import Iterable

from engine.report.tables.section import Notes, Section
from engine.results.comparison import Comparison, Ratio
from engine.results.step_groups import groups

TITLE = "Groups of steps (mean ratio to base, the lowest and the highest step)"
COLUMNS = ("group and build", "steps", "ratio", "95 %", "lowest", "highest", "verdicts")


def step_groups(comparison: Comparison, _: Notes) -> Iterable[Section]:
    section = Section(TITLE, COLUMNS)
    found = groups(comparison)
    several = len({group.subject for group in found}) > 1
    for group in found:
        bounds = "" if group.low is None or group.high is None else f"{group.low:.3f}-{group.high:.3f}"
        name = f"{group.kind}  {group.subject}" if several else group.kind
        ends = map(_end, (group.least, group.most))
        section.add(name, str(len(group.ratios)), f"{group.mean:.3f}", bounds, *ends, group.words)
    if section.rows:
        section.notes.append("a group's interval is as wide as if all its steps erred together")
    yield section


def _end(ratio: Ratio) -> str:
    return f"{ratio.ratio:.3f}\n{ratio.step}"

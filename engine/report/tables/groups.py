"""Steps of one kind together: a line for each group."""

from __future__ import annotations

from collections.abc import Iterable

from engine.results.comparison import Comparison
from engine.results.section import WORDS, Column, Figure, Section, columns, of_ratio, row

TITLE = "Groups of steps (mean of their ratios within each pair)"


def step_groups(comparison: Comparison) -> Iterable[Section]:
    several = len({group.ratio.subject for group in comparison.groups}) > 1
    rows = []
    for kind in dict.fromkeys(group.ratio.step for group in comparison.groups):
        for group in (group for group in comparison.groups if group.ratio.step == kind):
            ratio, verdict = group.ratio, Figure(group.ratio.verdict_text, remarks=group.ratio.remarks)
            name, step = (ratio.subject, kind) if several else (kind, "")
            rows.append(row(name, len(group.steps), of_ratio(ratio), verdict, step=step, subject=ratio.subject,
                            mark=ratio.sign))  # fmt: skip
    headings = columns(
        "group", Column("steps", "count"), Column("ratio", "ratio", bounds="95%"), Column("verdict", WORDS)
    )
    yield Section("groups", TITLE, headings, tuple(rows))

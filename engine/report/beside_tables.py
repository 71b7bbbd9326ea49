"""The table of loads that ran beside others: their rates and how long their transactions took."""

from __future__ import annotations

from engine.report.section import STYLES, Notes, Rows, Section, Table, bounds, number, ratio_text
from engine.results.comparison import Comparison


def sections(comparison: Comparison, notes: Notes) -> list[Section]:
    """The table, where there was more than one load."""
    return [section for section in (BESIDE.filled(comparison, notes),) if section.rows]


def _beside(comparison: Comparison, notes: Notes, step: str, subject: str) -> Rows:
    """A further load's figures in a step, each with its ratio and verdict."""
    for name in dict.fromkeys(name for cell in comparison.of(subject, step) for name in cell.background):
        for metric in (metric for metric in comparison.metrics if metric.name.rpartition(".")[0] == name):
            value = number(comparison.median(subject, step, metric.name))
            found = comparison.ratio(subject, step, metric.name)
            if found is None:
                yield (metric.title, value, "", "", ""), ""
            else:
                judged = (
                    ratio_text(found),
                    bounds(found),
                    found.verdict_text + notes.mark(found.remarks),
                )
                yield (metric.title, value, *judged), STYLES.get(found.sign, "")


BESIDE = Table("Loads beside these (median of cells, ratio to base)", ("", "", "ratio", "95 %", "verdict"), _beside,
               below="")  # fmt: skip

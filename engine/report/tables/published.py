"""Published figures: ours as the reference client prints them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from engine.analysis.cells import published_line
from engine.analysis.cells.run_results import load, published_by_cell
from engine.results.averages import middle
from engine.results.comparison import Comparison
from engine.results.section import NAME, Column, Section, columns, row


def figures(comparison: Comparison) -> Iterable[Section]:
    runs = [load(Path(folder)) for folder in comparison.measured.folders.values()]
    names = {(cell.run, cell.cell): cell.subject for cell in comparison.cells}
    lines = [(names.get((cell.run, cell.cell.id)), step, line) for cell, step, line in published_by_cell(runs)]
    measured = {step for _, step, line in lines if line["ips"] or line["qps"]}  # a pause has no figures
    text = published_line.published_text
    for step in (step for step in comparison.steps if step in measured):
        for start in range(0, len(comparison.names), 4):
            shown, rows = comparison.names[start : start + 4], []
            for figure, (unit, digits) in (published_line.PUBLISHED | published_line.UNPUBLISHED).items():
                values = [
                    middle(
                        [v for of, at, line in lines if (of, at) == (name, step) and (v := line[figure]) is not None]
                    )
                    for name in shown
                ]
                if any(value is not None for value in values):
                    rows.append(
                        row(figure, unit, *("NA" if value is None else text(value, digits) for value in values))
                    )
            title = f"{step}: the published figures (median of cells)"
            yield Section("figures", title, columns("", Column("unit", NAME), *shown), tuple(rows))

"""Sections of a comparison's figures by steps and subjects, and how the rates of steps are named in their headings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from engine.core.format import duration
from engine.journal.totals import role_place
from engine.results.cell_step import CellStep
from engine.results.comparison import Comparison
from engine.results.ratio import RATE, TIME
from engine.results.section import Column, Row, Section, Value, columns, number, of_ratio, row

BELOW = "/ base"  # names a line of ratios below one of figures
STEP_AND_BUILD, STEP_BUILD_AND_ROLE = "step and build", "step, build and role"
UNITS = "{units}"  # in titles and headings: what the rates of the steps count
Line = tuple[Sequence[Value], str]  # of a subject in a step: values and mark


@dataclass(frozen=True, slots=True)
class Table:
    """A section by steps: the lines of a step and subject from a function, all but the first called `below`."""

    key: str
    title: str
    columns: tuple[str | Column, ...]
    lines: Callable[[Comparison, str, str], Iterable[Line]]
    below: str = BELOW

    def __call__(self, comparison: Comparison) -> Iterable[Section]:
        rows = (
            Row(name if place == 0 else self.below, tuple(values), step, name, mark, int(place > 0))
            for step in comparison.steps
            for name in comparison.names
            for place, (values, mark) in enumerate(self.lines(comparison, step, name))
        )
        below = [
            replace(column, name=with_units(column.name, comparison, " or\n")) for column in columns(*self.columns)
        ]
        yield Section(self.key, with_units(self.title, comparison), (Column(STEP_AND_BUILD), *below), tuple(rows))


@dataclass(frozen=True, slots=True)
class RoleTable:
    """A section by steps and roles: a line for each subject, of its values in its cells, unless they are None."""

    key: str
    title: str
    columns: tuple[str | Column, ...]
    roles: Callable[[CellStep], Iterable[str]]
    values: Callable[[list[CellStep], str], Sequence[Value] | None]

    def __call__(self, comparison: Comparison) -> Iterable[Section]:
        rows = (
            row(f"{name} {role}", *values, step=step, subject=name)
            for step in comparison.steps
            for role in sorted(
                {role for cell in comparison.cells if cell.step == step for role in self.roles(cell)}, key=role_place
            )
            for name in comparison.names
            if (values := self.values(comparison.of(name, step), role)) is not None
        )
        yield Section(self.key, self.title, columns(STEP_BUILD_AND_ROLE, *self.columns), tuple(rows))


def per_operation(metrics: Sequence[str], comparison: Comparison, step: str, subject: str) -> Iterable[Line]:
    """Figures of metrics per operation, and below them their ratios to the base."""
    values = [comparison.figure(subject, step, name) for name in metrics]
    if any(value is not None for value in values):
        yield values, ""
        ratios = [comparison.ratio(subject, step, name) for name in metrics]
        if any(ratio is not None for ratio in ratios):
            yield [*map(of_ratio, ratios)], "dim"


def with_units(text: str, comparison: Comparison, between: str = " or ") -> str:
    """The text with its UNITS spelled out."""
    of_rates = (unit for step, unit in comparison.units.items() if comparison.primary_metric(step) == RATE)
    return text.replace(UNITS, between.join(tuple(dict.fromkeys(of_rates)) or ("ops/s",)))


def value_text(metric: str, value: float | None) -> str:
    return duration(value) if metric == TIME else number(value)

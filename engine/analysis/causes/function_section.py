"""Functions of two servers in a step whose own CPU time per operation differs, as a section."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from engine.results.flame import FunctionChange
from engine.results.section import Column, Figure, Row, Section, columns, row


@dataclass(frozen=True, slots=True)
class FunctionCosts:
    """The functions of a subject and its base in a step, by samples of which one ran.

    `samples` and `base_samples` are those within the step, at `hz` a second of a busy CPU; `base_us` and `us` the CPU
    time per operation that they make. `tested` functions had enough samples. `changes` are certain, the largest first;
    `reason` says why there can be none; if cells were sampled at different rates, all else is 0.
    """

    step: str
    subject: str
    pairs: int
    hz: int
    base_samples: int
    samples: int
    base_us: float
    us: float
    tested: int
    changes: tuple[FunctionChange, ...] = ()
    reason: str = ""


def section(every: Sequence[FunctionCosts], steps: Sequence[str]) -> Section:
    """Functions by step and build, below all that was sampled; a sentence if none differs or can be compared."""
    compared = [costs for costs in every if costs.pairs]
    unlike: dict[str, list[str]] = {}
    for costs in every:
        if not costs.pairs:
            unlike.setdefault(costs.reason, []).append(f"{costs.step} {costs.subject}")
    differing = sorted((costs for costs in every if costs.changes), key=lambda costs: steps.index(costs.step))
    rows = [row for costs in differing for row in _rows(costs)]
    if compared and not rows:
        count, reason = sum(costs.tested for costs in compared), next((c.reason for c in compared if c.reason), "")
        untested = reason and not count
        rows.append(row(f"none significant: {reason}" if untested else f"none significant of {count:,} tested"))
    rows += [row(f"{', '.join(of)}: {reason}") for reason, of in unlike.items()]
    headings = columns("step, build and function", "base", "us", Column("more", "change", bounds="95%"))
    title = "Functions whose own CPU time per operation differs (us; the intervals hold together)"
    return Section("functions", title, headings, tuple(rows))


def _rows(costs: FunctionCosts) -> Iterable[Row]:
    line = partial(row, step=costs.step, subject=costs.subject)
    more = Figure(costs.us - costs.base_us, unit="change")
    yield line(costs.subject, costs.base_us, costs.us, more, mark="dim")
    for change in costs.changes:
        yield line(change.name, change.base_us, change.us, change.figure, depth=1)

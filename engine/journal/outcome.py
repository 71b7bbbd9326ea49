"""Progress of a run's plan: cells that run together, attempts that count, finished cells.

The plan has the maximum number of repeats. A run with interim analyses or a time limit decides on the way how many it
makes, and with interim analyses how long its steps are: events of kind `plan`, the latest of which holds.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from engine.core.model import Cell, Manifest
from engine.core.record import converted
from engine.journal.reader import chosen_attempts, chosen_together
from engine.journal.rows import Attempt, EventRow

MOST_WIDTH = 1e9
State = Literal["open", "known", "withheld"]
Width = Annotated[float, Meta(ge=0, le=MOST_WIDTH)]
Seconds = Annotated[int, Meta(ge=0, le=10**9)]


@dataclass(frozen=True, slots=True)
class StepPlan:
    """A step in the rest of an adaptive run.

    `state` is open until its rate has a verdict, or one that is withheld for good. `width` is half the 95% interval of
    its ratio, as a fraction, and `by_end` what that will be when time ends the run; None if unknown. `seconds` is its
    active time on each server in the pairs to come: 0 if it is left out, None as planned.
    """

    state: State = "open"
    width: Width | None = None
    by_end: Width | None = None
    seconds: Seconds | None = None


@dataclass(frozen=True, slots=True)
class Allocation:
    """The division of the time left after a number of `pairs`: the time of a further one, and its steps."""

    pairs: Annotated[int, Meta(ge=0)]
    pair_s: Annotated[float, Meta(ge=0, le=1e9)]
    steps: dict[str, StepPlan]

    @property
    def open(self) -> tuple[str, ...]:
        return tuple(name for name, step in self.steps.items() if step.state == "open")

    @property
    def seconds(self) -> dict[str, int]:
        return {name: step.seconds for name, step in self.steps.items() if step.seconds is not None}


def groups(manifest: Manifest) -> list[tuple[Cell, ...]]:
    """Cells that run together: single ones, or a whole repeat if interleaved."""
    if manifest.design.interleave == "cells":
        return [(cell,) for cell in manifest.cells]
    repeats = dict.fromkeys(cell.repeat for cell in manifest.cells)
    return [tuple(cell for cell in manifest.cells if cell.repeat == repeat) for repeat in repeats]


def chosen(manifest: Manifest, attempts: Sequence[Attempt]) -> dict[str, Attempt]:
    """The attempt that counts, by cell; attempts at interleaved cells count only together."""
    if manifest.design.interleave == "cells":
        return chosen_attempts(attempts)
    return chosen_together(attempts, [[cell.id for cell in group] for group in groups(manifest)])


def finished(manifest: Manifest, attempts: Sequence[Attempt]) -> set[str]:
    """Ids of finished cells; interleaved cells finish only together."""
    counting = chosen(manifest, attempts)
    states = {cell: attempt.state for cell, attempt in counting.items()}
    together = [[cell.id for cell in group] for group in groups(manifest)]
    return set(itertools.chain(*(ids for ids in together if {states.get(id) for id in ids} == {"finished"})))


def repeats(manifest: Manifest, decisions: Sequence[EventRow]) -> int:
    """The number of repeats to run, according to the `plan` events so far."""
    decided, most = decisions[-1].data.get("repeats") if decisions else None, manifest.design.repeats
    return min(decided, most) if isinstance(decided, int) and decided > 0 else most


def wanted(manifest: Manifest, decisions: Sequence[EventRow], begun: Container[str] = ()) -> tuple[Cell, ...]:
    """The cells to run according to these events, and those already begun."""
    most = repeats(manifest, decisions)
    return tuple(cell for cell in manifest.cells if cell.repeat <= most or cell.id in begun)


def allocation(manifest: Manifest, decisions: Sequence[EventRow]) -> Allocation | None:
    """The latest; None before the first. Raises UserError if its record is damaged."""
    divisions = [event.data for event in decisions if "steps" in event.data] if manifest.design.adaptive else []
    return converted(divisions[-1], Allocation, "journal.db: table event: plan") if divisions else None

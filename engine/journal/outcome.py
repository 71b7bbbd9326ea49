"""Progress of a run's plan: cells that run together, attempts that count, finished cells.

The plan has the maximum number of repeats. A run with interim analyses or a time limit decides on the way how many it
makes: events of kind `plan`, the latest of which holds.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Sequence

from engine.core.model import Cell, Manifest
from engine.journal.reader import chosen_attempts, chosen_together
from engine.journal.rows import Attempt, EventRow


def groups(manifest: Manifest) -> list[tuple[Cell, ...]]:
    """Cells that run together: single ones, or a whole repeat if interleaved."""
    if manifest.interleave == "cells":
        return [(cell,) for cell in manifest.cells]
    repeats = dict.fromkeys(cell.repeat for cell in manifest.cells)
    return [tuple(cell for cell in manifest.cells if cell.repeat == repeat) for repeat in repeats]


def chosen(manifest: Manifest, attempts: Sequence[Attempt]) -> dict[str, Attempt]:
    """The attempt that counts, by cell; attempts at interleaved cells count only together."""
    if manifest.interleave == "cells":
        return chosen_attempts(attempts)
    return chosen_together(attempts, [[cell.id for cell in group] for group in groups(manifest)])


def finished(manifest: Manifest, attempts: Sequence[Attempt]) -> set[str]:
    """Ids of finished cells; interleaved cells finish only together."""
    counting = chosen(manifest, attempts)
    states = {cell: attempt.state for cell, attempt in counting.items()}
    together = [[cell.id for cell in group] for group in groups(manifest)]
    return set(itertools.chain(*(ids for ids in together if {states.get(id) for id in ids} == {"finished"})))


def repeats(manifest: Manifest, decisions: Sequence[EventRow]) -> int:
    """How many repeats to run, according to the `plan` events so far."""
    decided = decisions[-1].data.get("repeats") if decisions else None
    return min(decided, manifest.repeats) if isinstance(decided, int) and decided > 0 else manifest.repeats


def wanted(manifest: Manifest, decisions: Sequence[EventRow], begun: Container[str] = ()) -> tuple[Cell, ...]:
    """The cells to run according to these events, and those already begun."""
    most = repeats(manifest, decisions)
    return tuple(cell for cell in manifest.cells if cell.repeat <= most or cell.id in begun)

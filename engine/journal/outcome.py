"""What has become of a run's plan: which cells run together, which attempts at them count, which cells are finished.

The plan has the most cells that there may be. A run that ends when all is known, or by the clock, decides on its way
how many repeats it makes of them: events of kind `plan`, of which the newest holds.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Sequence

from engine.core.model import Cell, Manifest
from engine.journal.reader import chosen_attempts, chosen_together
from engine.journal.rows import Attempt, EventRow


def groups(manifest: Manifest) -> list[tuple[Cell, ...]]:
    """The cells that run together: single ones, or all of a repeat if they are interleaved."""
    if manifest.interleave == "cells":
        return [(cell,) for cell in manifest.cells]
    repeats = dict.fromkeys(cell.repeat for cell in manifest.cells)
    return [tuple(cell for cell in manifest.cells if cell.repeat == repeat) for repeat in repeats]


def chosen(manifest: Manifest, attempts: Sequence[Attempt]) -> dict[str, Attempt]:
    """The attempt that counts, by cell; those of interleaved cells count only together."""
    if manifest.interleave == "cells":
        return chosen_attempts(attempts)
    return chosen_together(attempts, [[cell.id for cell in group] for group in groups(manifest)])


def finished(manifest: Manifest, attempts: Sequence[Attempt]) -> set[str]:
    """The ids of the finished cells; interleaved ones are finished only together."""
    counting = chosen(manifest, attempts)
    states = {cell: attempt.state for cell, attempt in counting.items()}
    together = [[cell.id for cell in group] for group in groups(manifest)]
    return set(itertools.chain(*(ids for ids in together if {states.get(id) for id in ids} == {"finished"})))


def repeats(manifest: Manifest, decisions: Sequence[EventRow]) -> int:
    """How many repeats are to be run, by the events of kind `plan` so far."""
    decided = decisions[-1].data.get("repeats") if decisions else None
    return min(decided, manifest.repeats) if isinstance(decided, int) and decided > 0 else manifest.repeats


def wanted(manifest: Manifest, decisions: Sequence[EventRow], begun: Container[str] = ()) -> tuple[Cell, ...]:
    """The cells that are to be run, by these events; and those that have been begun."""
    most = repeats(manifest, decisions)
    return tuple(cell for cell in manifest.cells if cell.repeat <= most or cell.id in begun)

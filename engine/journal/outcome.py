"""What has become of a run's plan: which cells run together, which attempts at them count, which cells are finished."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from engine.core.model import Cell, Manifest
from engine.journal.reader import Attempt, chosen_attempts, chosen_together


def groups(manifest: Manifest) -> list[tuple[Cell, ...]]:
    """Cells that run together: each by itself, or those of a repeat side by side."""
    if manifest.interleave == "cells":
        return [(cell,) for cell in manifest.cells]
    repeats = dict.fromkeys(cell.repeat for cell in manifest.cells)
    return [tuple(cell for cell in manifest.cells if cell.repeat == repeat) for repeat in repeats]


def chosen(manifest: Manifest, attempts: Sequence[Attempt]) -> dict[str, Attempt]:
    """The attempt that counts, by cell; those of cells abreast count only together."""
    if manifest.interleave == "cells":
        return chosen_attempts(attempts)
    return chosen_together(attempts, [[cell.id for cell in group] for group in groups(manifest)])


def finished(manifest: Manifest, attempts: Sequence[Attempt]) -> set[str]:
    """The ids of the cells that are finished; one that was abreast of others is so only together with them."""
    counting = chosen(manifest, attempts)
    states = {cell: attempt.state for cell, attempt in counting.items()}
    together = [[cell.id for cell in group] for group in groups(manifest)]
    return set(itertools.chain(*(ids for ids in together if {states.get(id) for id in ids} == {"finished"})))

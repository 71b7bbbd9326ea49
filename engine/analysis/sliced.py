"""What the slices of cells abreast say of a step: ratios within each pair, and whether the slices can be trusted.

`engine.analysis.slices` has the formulas; this takes the journal's rows to them and back to pairs of cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from engine.analysis.cells import Pair
from engine.analysis.slices import Slices, log_ratio, own_ratio
from engine.core.comparison import CPU, RATE
from engine.core.slices import LogRatio
from engine.journal.reader import SliceRow

PARTS = {RATE: ("ops", "counted_ns"), CPU: ("cpu_ns", "cpu_ops")}  # metric: numerator, denominator
MOST_LEAK = 0.05  # CPU time used in others' slices, as a part of what is used in a server's own
MOST_RAGGED = 0.2  # of a server's slices, in which some of its clients had no work left and others had
TURNS = 2  # of a server in a block


def log_ratios(pairs: Sequence[Pair], step: str, metric: str) -> list[LogRatio]:
    """The log ratio of each pair, by its slices; none at all where a pair has none, or did nothing in them."""
    found = []
    for pair in pairs:
        sides = _sides(pair, step, metric)
        if sides is None:
            return []
        found.append(log_ratio(*sides))
    return found


def own_ratios(pairs: Sequence[Pair], step: str, metric: str) -> list[LogRatio]:
    """Ratios whose truth is 1: of each server of each pair to itself."""
    found = []
    for pair in pairs:
        for side in _sides(pair, step, metric) or ():
            with suppress(ValueError):  # nothing was done in one of the halves
                found.append(own_ratio(side))
    return found


def reasons(pair: Pair, step: str) -> list[str]:
    """Why the slices of a pair bear no verdict; nothing to say of a step that was not sliced."""
    counts = [len(cell.steps[step].slices) for cell in pair]
    if not any(counts):
        return []
    if not all(counts):
        return [f"pair {pair[0].cell.repeat}: only one of its servers was driven in slices"]
    rows = [cell.steps[step].slices for cell in pair]
    leak = max(_part(sum(row.leak_ns for row in own), sum(row.cpu_ns for row in own)) for own in rows)
    # Clients' parts are known by their mean: where their ends lie evenly, the last came half of what was ragged later.
    ragged = max(
        _part(sum(row.ragged_ns for row in own), sum(row.counted_ns + row.ragged_ns / 2 for row in own)) for own in rows
    )
    found = []
    if leak > MOST_LEAK:
        found.append(f"a server used {leak:.0%} of its CPU time in the other's slices ({_tolerated(MOST_LEAK)})")
    if ragged > MOST_RAGGED:
        found.append(f"in {ragged:.0%} of a server's slices some clients waited for others ({_tolerated(MOST_RAGGED)})")
    return [f"pair {pair[0].cell.repeat}: {reason}" for reason in found]


def _part(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _tolerated(most: float) -> str:
    return f"at most {most:.0%} is tolerated"


def _sides(pair: Pair, step: str, metric: str) -> tuple[Slices, Slices] | None:
    """Both sides' slices of the blocks that are whole, with something done on either side; None without any."""
    if metric not in PARTS:
        return None
    by_block = [_by_block(cell.steps[step].slices) for cell in pair]
    whole = [
        block for block, rows in by_block[0].items() if len(rows) == TURNS and len(by_block[1].get(block, ())) == TURNS
    ]
    sides = [
        Slices(
            *(np.array([[getattr(row, part) for row in blocks[block]] for block in whole]) for part in PARTS[metric])
        )
        for blocks in by_block
    ]
    if not whole or not all(part.sum() > 0 for side in sides for part in (side.numerators, side.denominators)):
        return None
    return sides[0], sides[1]


def _by_block(rows: Sequence[SliceRow]) -> dict[int, list[SliceRow]]:
    found: dict[int, list[SliceRow]] = {}
    for row in rows:
        found.setdefault(row.block, []).append(row)
    return found

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
    leaks = []
    for cell in pair:
        rows = cell.steps[step].slices
        own_ns = sum(row.cpu_ns for row in rows)
        leaks.append(sum(row.leak_ns for row in rows) / own_ns if own_ns else 0.0)
    if max(leaks) <= MOST_LEAK:
        return []
    text = f"pair {pair[0].cell.repeat}: a server used {max(leaks):.0%} of its CPU time in the other's slices"
    return [f"{text} (at most {MOST_LEAK:.0%} is tolerated)"]


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

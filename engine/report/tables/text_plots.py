"""Values as lines of text: a strip of dots between two bounds, and a scatter plot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

STRIP_COLUMNS = 34
COLUMNS, ROWS = 48, 7  # of a scatter plot
FREE = "·"


def strip(values: Sequence[float], low: float, high: float, columns: int = STRIP_COLUMNS) -> str:
    """One line of text with an `o` at each value's place between low and high."""
    counts = [0] * columns
    for value in values:
        counts[round((value - low) / (high - low) * (columns - 1)) if high > low else columns // 2] += 1
    return "".join("·" if count == 0 else "o" if count == 1 else str(min(count, 9)) for count in counts)


def scatter(points: Iterable[tuple[float, float]], last_s: float, low: float, high: float) -> list[str]:
    """Lines of text, the highest first, with an `o` for each point; a digit where several coincide."""
    counts = [[0] * COLUMNS for _ in range(ROWS)]
    for x, y in points:
        row = _place(y - low, high - low, ROWS) if high > low else ROWS // 2
        counts[ROWS - 1 - row][_place(x, last_s, COLUMNS)] += 1
    return ["".join(FREE if n == 0 else "o" if n == 1 else str(min(n, 9)) for n in row) for row in counts]


def _place(value: float, most: float, places: int) -> int:
    return max(0, min(places - 1, round(value / most * (places - 1)))) if most > 0 else 0

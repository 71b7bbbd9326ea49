"""One row for a whole step: where it stalled, where it stands, what was never recorded."""

from collections.abc import Iterable

from engine.view.envelope import columns_of
from tui.marks import Line, joined


def ribbon(
    cells: int,
    axis: tuple[float, float],
    at: float,
    stalls: Iterable[tuple[float, float]],
    cursor: tuple[float, float] | None = None,
    rest: str = " ",
) -> Line:
    """The axis in so many cells: `.` recorded, `!` stalled, `rest` to come; what the cursor stands on is reversed."""
    start, end = axis
    done = columns_of(start, end, start, at, cells)
    row = [(".", "dim") if x in done else (rest, "dim") for x in range(cells)]
    for from_, until in stalls:
        for x in columns_of(start, end, from_, until, cells):
            row[x] = ("!", "worse")
    if cursor is not None:
        for x in columns_of(start, end, *cursor, cells):
            row[x] = (row[x][0] if row[x][0] == "!" else "|", "cursor")
    return joined(row)

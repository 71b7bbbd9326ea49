"""One row for a whole step: its stalls, the current position, unrecorded time."""

from collections.abc import Iterable

from engine.view.envelope import columns_of
from tui.marks import SIDES, Line, joined


def ribbon(
    cells: int,
    axis: tuple[float, float],
    at: float,
    stalls: Iterable[tuple[float, float, str]],
    cursor: tuple[float, float] | None = None,
    rest: str = " ",
    signs: str = "",
) -> Line:
    """The axis in `cells`: `.` recorded, `!` or its side's sign stalled, `rest` to come; the cursor's are reversed."""
    start, end = axis
    done = columns_of(start, end, start, at, cells)
    row = [(".", "dim") if x in done else (rest, "dim") for x in range(cells)]
    for begin, until, mark in stalls:
        for x in columns_of(start, end, begin, until, cells):
            row[x] = (signs[SIDES.index(mark)], "stall") if mark in SIDES else ("!", mark)
    if cursor is not None:
        for x in columns_of(start, end, *cursor, cells):
            row[x] = (row[x][0] if row[x][1] != "dim" else "|", "cursor")
    return joined(row)

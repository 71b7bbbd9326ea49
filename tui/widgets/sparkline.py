"""A figure's last minute in one row: the greatest of each cell, and the least where it is a dip."""

from bisect import bisect_right
from collections.abc import Sequence

from engine.view.envelope import Span, envelope
from tui.glyphs import Glyphs
from tui.widgets.raster import columns_per_cell, filled
from tui.widgets.taken import Points


def sparkline(points: Points, at: float, length: float, cells: int, glyphs: Glyphs) -> str:
    """So much of the points up to a time, from 0 to the greatest of it."""
    first, last = bisect_right(points.until, at - length), bisect_right(points.until, at)
    part: Sequence[tuple[float, float, float]] = list(
        zip(points.until[first:last], points.length[first:last], points.value[first:last], strict=True)
    )
    columns: list[Span | None] = envelope(part, at - length, at, cells * columns_per_cell(glyphs))
    greatest = max((span[1] for span in columns if span is not None), default=0.0)
    (row,) = filled(columns, greatest, 1, glyphs)
    return row.ljust(cells)

"""A figure's last minute in one row: the greatest of each cell, and the least where it is a dip."""

from bisect import bisect_right

from engine.view.envelope import Envelope
from tui.glyphs import Glyphs
from tui.widgets.raster import columns_per_cell, filled
from tui.widgets.taken import Points


def sparkline(points: Points, at: float, length: float, cells: int, glyphs: Glyphs) -> str:
    """So much of the points up to a time, from 0 to the greatest of it."""
    first, last = bisect_right(points.until, at - length), bisect_right(points.until, at)
    part = slice(first, last)
    made = Envelope(at - length, at, cells * columns_per_cell(glyphs))
    made.extend(points.until[part], points.length[part], points.value[part])
    (row,) = filled(made.columns, made.greatest(), 1, glyphs)
    return row.ljust(cells)

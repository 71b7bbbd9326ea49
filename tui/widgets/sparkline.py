"""A figure's last minute in one row: the greatest value of each cell, and the least if it is a dip."""

from bisect import bisect_right

from engine.view.envelope import Envelope
from tui.glyphs import Glyphs
from tui.widgets.column_cache import Points
from tui.widgets.raster import columns_per_cell, filled


def sparkline(points: Points, at: float, length: float, cells: int, glyphs: Glyphs) -> str:
    """The last `length` of the points up to `at`, scaled from 0 to the greatest value."""
    first, last = bisect_right(points.until, at - length), bisect_right(points.until, at)
    shown = slice(first, last)
    envelope = Envelope(at - length, at, cells * columns_per_cell(glyphs))
    envelope.extend(points.until[shown], points.length[shown], points.value[shown])
    (row,) = filled(envelope.columns, envelope.greatest(), 1, glyphs)
    return row.ljust(cells)

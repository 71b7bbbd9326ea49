"""Two rates in one chart, distinct in shape as well as in colour: the baseline is a dashed band."""

from engine.core.format import three
from engine.view.envelope import Span, envelope
from tui.compare.rate_track import Track
from tui.glyphs import Glyphs
from tui.marks import Line, joined, line
from tui.widgets.chart import nice
from tui.widgets.raster import columns_per_cell, level, raster
from tui.widgets.ribbon import ribbon as strip


def columns(track: Track, end: float, count: int) -> list[Span | None]:
    """Lowest and highest value of each column of an axis from 0 to `end`; None for a column without data."""
    least = end * 1e-9
    points = zip(track.until, track.length, track.value, strict=True)
    # Without progress a point has no length by work; at the edge of the axis it would fall off.
    drawn = ((min(max(until, least), end), max(length, least), value) for until, length, value in points)
    return envelope(drawn, 0.0, end, count)


def overlay(base: Track, other: Track, cells: int, rows: int, glyphs: Glyphs) -> tuple[list[Line], float]:
    """Draw the chart: its rows, the highest first, and the value at its upper edge."""
    end = max(base.end, other.end)
    top = nice(max(base.greatest, other.greatest))
    if end <= 0 or cells <= 0 or rows <= 0:
        return [], top
    drawn = raster(columns(other, end, cells * columns_per_cell(glyphs)), top, rows, glyphs)
    bands = [None if span is None else (level(span[0], top, rows), level(span[1], top, rows))
             for span in columns(base, end, cells)]  # fmt: skip
    made: list[Line] = []
    for y, text in enumerate(drawn):
        height = rows - 1 - y
        row: list[tuple[str, str]] = []
        for x, character in enumerate(text.ljust(cells)[:cells]):
            band = bands[x]
            within = band is not None and band[0] <= height <= band[1]
            if within and (character == " " or glyphs.name != "braille"):  # bars would hide what lies behind them
                row.append((glyphs.dash, "base"))
            elif character == " ":
                row.append((" ", ""))
            else:
                row.append((character, "strong" if within else "rate"))
        made.append(joined(row))
    return made, top


def ribbon(track: Track, end: float, cells: int, label: str, mark: str) -> Line:
    """Draw a rate's stalls over the same axis: `!` in a stall, dots while it ran, blank after its end."""
    stalls = [(from_, min(until, end)) for from_, until in track.stalls]
    return ((f"{label} ", mark), *strip(cells, (0.0, end), track.end, stalls))


def scale(end: float, by_work: bool, cells: int, words: tuple[str, str]) -> Line:
    left = "0"
    right = f"{end:,.0f} {words[1]}" if by_work else f"{three(end)} {words[0]}"
    return line((f"{left}{right:>{max(1, cells - len(left))}}", "dim"))

"""Service times over time: a row per band, the denser the more operations took that long."""

from collections.abc import Mapping, Sequence
from math import log

from engine.core.format import duration
from engine.view.step_details import PER_OCTAVE, band_us
from tui.glyphs import Glyphs
from tui.marks import Line, joined


def bands(columns: Sequence[Mapping[int | str, float] | None]) -> tuple[int, int]:
    """The lowest and the highest band in columns, by default the octave from 1 ms."""
    keys = [key for column in columns for key in column or () if isinstance(key, int)]
    return (min(keys), max(keys)) if keys else (10 * PER_OCTAVE, 11 * PER_OCTAVE)


def heat(
    columns: Sequence[Mapping[int | str, float] | None], rows: int, special: Mapping[int, str], glyphs: Glyphs
) -> tuple[list[Line], dict[int, str]]:
    """Rows, longest times first, and the lowest time by row; even one operation in a million is drawn, faintly."""
    least, greatest = bands(columns)
    per_row = 1
    while greatest // per_row - least // per_row + 1 > rows:
        per_row += 1
    top = greatest // per_row
    foot = top - rows + 1  # index of the lowest row: its bands begin at `foot * per_row`
    counts: list[dict[int, float]] = []
    for column in columns:
        weights: dict[int, float] = {}
        for key, weight in (column or {}).items():
            row = int(key) // per_row
            weights[row] = weights.get(row, 0.0) + weight
        counts.append(weights)
    most = max((value for column in counts for value in column.values()), default=1.0)
    shades = len(glyphs.heat)
    lines = []
    for row in range(top, foot - 1, -1):
        cells = []
        for x, weights in enumerate(counts):
            value = weights.get(row, 0.0)
            mark = special.get(x, "")
            if value <= 0:
                bar = glyphs.bar if mark == "cursor" else "!" if mark == "stall" and row == foot else " "
                cells.append((bar, mark))
                continue
            shade = min(shades - 1, int(shades * log(1 + value) / log(1 + most))) if most > 1 else shades - 1
            cells.append((glyphs.heat[shade], mark or f"rate.{shades - 1 - shade}".removesuffix(".0")))
        lines.append(joined(cells))
    labelled = {0, rows - 1, *range(0, rows, max(1, rows // 4))}
    return lines, {y: _words(band_us((top - y) * per_row)) for y in labelled if y < rows}


def _words(us: float) -> str:
    return duration(max(us, 1.0) / 1e6).replace(" ", "") if us >= 1 else ""

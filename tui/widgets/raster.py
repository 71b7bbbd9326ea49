"""Rows of characters for columns of least and greatest values: braille dots, or bars of blocks or ASCII."""

from collections.abc import Iterable, Sequence

from engine.view.envelope import Span
from tui.glyphs import Glyphs

BRAILLE = 0x2800
# The bit of each dot of a braille cell: [left, right][from the bottom up].
_DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))


def columns_per_cell(glyphs: Glyphs) -> int:
    return 2 if glyphs.name == "braille" else 1


def raster(columns: Sequence[Span | None], top: float, rows: int, glyphs: Glyphs) -> list[str]:
    """Rows of characters, the highest first, for values from 0 to `top`."""
    if glyphs.name == "braille":
        return _braille(columns, top, rows)
    return _bars(columns, top, rows, glyphs)


def filled(columns: Sequence[Span | None], top: float, rows: int, glyphs: Glyphs) -> list[str]:
    """Rows as of `raster`, solid up to a column's least value, shaded up to its greatest."""
    if glyphs.name == "braille":
        return _braille_filled(columns, top, rows)
    return _bars(columns, top, rows, glyphs)


def _braille_filled(columns: Sequence[Span | None], top: float, rows: int) -> list[str]:
    """Leaves out the dot above the least value, unless that is the greatest, so that the least shows."""
    cells = [[0] * ((len(columns) + 1) // 2) for _ in range(rows)]
    for x, span in enumerate(columns):
        if span is None:
            continue
        low, high = level(span[0], top, rows * 4), level(span[1], top, rows * 4)
        place, bits = x // 2, _DOTS[x % 2]
        solid_rows = (low + 1) // 4  # solid cells
        solid = bits[0] | bits[1] | bits[2] | bits[3]
        for y in range(solid_rows):
            cells[rows - 1 - y][place] |= solid
        for dot in range(solid_rows * 4, low + 1):
            cells[rows - 1 - dot // 4][place] |= bits[dot % 4]
        for dot in range(low + 2, high):
            if (dot + x) % 2 == 0:
                cells[rows - 1 - dot // 4][place] |= bits[dot % 4]
        cells[rows - 1 - high // 4][place] |= bits[high % 4]
    return ["".join(chr(BRAILLE + bits) if bits else " " for bits in row) for row in cells]


def behind(front: Sequence[str], ghost: Sequence[str], glyphs: Glyphs) -> list[list[bool]]:
    """Cells in which the background line shows: outside the fill, and as a groove where that is solid."""
    solid = chr(BRAILLE + 0xFF) if glyphs.name == "braille" else glyphs.levels[-1]
    return [
        [line != " " and fill in (" ", solid) for fill, line in zip(row, back, strict=True)]
        for row, back in zip(front, ghost, strict=True)
    ]


def seen_behind(fill: str, ghost: str, glyphs: Glyphs) -> str:
    """Character of a cell in which the background line shows."""
    if fill == " " or glyphs.name != "braille":
        return ghost
    return chr(BRAILLE + (0xFF & ~(ord(ghost) - BRAILLE)))


def level_line(columns: Sequence[Span | None], top: float, rows: int, glyphs: Glyphs) -> list[str]:
    """A thin line through the columns: dots from least to greatest, or a dash midway between both."""
    if glyphs.name == "braille":
        return _braille(columns, top, rows)
    drawn = [[" "] * len(columns) for _ in range(rows)]
    for x, span in enumerate(columns):
        if span is not None:
            drawn[rows - 1 - level((span[0] + span[1]) / 2, top, rows)][x] = glyphs.dash
    return ["".join(row) for row in drawn]


def dots_per_cell(glyphs: Glyphs) -> tuple[int, int]:
    """Dots of `scatter` in one character, across and up."""
    return (2, 4) if glyphs.name == "braille" else (1, 1)


def scatter(points: Iterable[tuple[float, float]], cells: int, rows: int, glyphs: Glyphs) -> list[str]:
    """Rows of dots, highest first, for points in the unit square; without braille digits count them, `9` for more."""
    across, up = dots_per_cell(glyphs)
    cell_dots: list[list[list[tuple[int, int]]]] = [[[] for _ in range(cells)] for _ in range(rows)]
    for x, y in points:
        column, height = level(x, 1.0, cells * across), level(y, 1.0, rows * up)
        cell_dots[rows - 1 - height // up][column // across].append((column % across, height % up))
    if glyphs.name == "braille":
        return ["".join(_braille_cell(dots) for dots in row) for row in cell_dots]
    signs = {0: " ", 1: glyphs.dot}
    return ["".join(signs.get(len(dots), str(min(len(dots), 9))) for dots in row) for row in cell_dots]


def _braille_cell(dots: Sequence[tuple[int, int]]) -> str:
    bits = 0
    for x, y in dots:
        bits |= _DOTS[x][y]
    return chr(BRAILLE + bits) if bits else " "


def level(value: float, top: float, steps: int) -> int:
    """Step of a value from 0 to `steps` - 1; a value above the top is drawn at the top."""
    return max(0, min(steps - 1, round(value / top * (steps - 1)))) if top > 0 else 0


def _braille(columns: Sequence[Span | None], top: float, rows: int) -> list[str]:
    cells = [[0] * ((len(columns) + 1) // 2) for _ in range(rows)]
    before: tuple[int, int] | None = None
    for x, span in enumerate(columns):
        if span is None:
            before = None
            continue
        low, high = level(span[0], top, rows * 4), level(span[1], top, rows * 4)
        drawn = (low, high)
        if before is not None:  # a line has no holes: reach towards the column before
            drawn = (min(low, before[1] + 1), max(high, before[0] - 1))
        before = (low, high)
        for dot in range(drawn[0], drawn[1] + 1):
            cells[rows - 1 - dot // 4][x // 2] |= _DOTS[x % 2][dot % 4]
    return ["".join(chr(BRAILLE + bits) if bits else " " for bits in row) for row in cells]


def _bars(columns: Sequence[Span | None], top: float, rows: int, glyphs: Glyphs) -> list[str]:
    """A bar up to the least value, shaded from there to the greatest."""
    full = len(glyphs.levels) - 1
    lines: list[list[str]] = [[" "] * len(columns) for _ in range(rows)]
    for x, span in enumerate(columns):
        if span is None:
            continue
        low, high = (round(max(0.0, min(value, top)) / top * rows * full) if top > 0 else 0 for value in span)
        for row in range(rows):
            floor = (rows - 1 - row) * full
            if low >= floor + full:
                lines[row][x] = glyphs.levels[full]
            elif low > floor:
                lines[row][x] = glyphs.levels[low - floor]
            elif high > floor:
                lines[row][x] = glyphs.shade
        if low == 0 and lines[rows - 1][x] == " ":
            lines[rows - 1][x] = glyphs.levels[1]  # no progress, which differs from no data
    return ["".join(line) for line in lines]

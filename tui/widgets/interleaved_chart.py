"""Lines drawn over each other, a character for each, and a ratio whose bounds close in.

Where lines are compared the axis does not begin at 0: what they differ by would not be seen.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from math import ceil, floor, log10

from engine.core.format import short
from engine.view.envelope import Span
from engine.view.slice_series import Course, SoFar
from tui.glyphs import Glyphs
from tui.marks import SIDES, Line, joined
from tui.widgets.chart import nice
from tui.widgets.raster import BRAILLE, columns_per_cell, level, raster
from tui.widgets.taken import Axis, Points

STEPS = 8  # of a round number that the lines span, at most
LEAST_RANGE = 0.02  # of the greatest value: what differs by less is drawn as the same
ROOM = 1.25  # how far the edges of a ratio's chart are from 1, in times of its bounds
DIP = 0.5  # a point below so much of its column's mean is drawn, too
Column = tuple[float, float]  # the mean of a column, and its least point if that is a dip, else the mean again


def columns(points: Points, axis: Axis, cells: int) -> list[Column | None]:
    """The means of the points that had ended at `axis.at`, by the time for which each held; None without any."""
    sums, lengths, least = [0.0] * cells, [0.0] * cells, [float("inf")] * cells
    per_column = (axis.end - axis.start) / cells if cells else 0.0
    if per_column <= 0:
        return []
    until, length, value = points.until, points.length, points.value
    for place in range(bisect_right(until, axis.start), bisect_right(until, axis.at)):
        begin = max(0.0, (until[place] - length[place] - axis.start) / per_column)
        end = (until[place] - axis.start) / per_column
        for column in range(int(begin), min(cells, ceil(end))):
            part = min(end, column + 1) - max(begin, column)
            sums[column] += part * value[place]
            lengths[column] += part
            least[column] = min(least[column], value[place])
    return [
        None if not held else (total / held, low if low < DIP * total / held else total / held)
        for total, held, low in zip(sums, lengths, least, strict=True)
    ]


def limits(sides: Iterable[Sequence[Column | None]]) -> tuple[float, float]:
    """The lower and the upper edge of a chart that holds these lines, in round numbers."""
    values = [value for each in sides for column in each if column is not None for value in column]
    high = max(values, default=0.0)
    if high <= 0:
        return 0.0, 1.0
    step = max(high - min(values), LEAST_RANGE * high) / STEPS
    power = 10.0 ** floor(log10(step))
    unit = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step)
    low = floor(min(values) / unit) * unit
    top = ceil(high / unit) * unit
    return (low if low > 0.1 * top else 0.0), top if top > low else low + unit


def lines(
    sides: Sequence[Sequence[Column | None]],
    edges: tuple[float, float],
    rows: int,
    special: dict[int, str],
    glyphs: Glyphs,
) -> list[Line]:
    """Rows of characters, the highest first. `special` marks columns: `stall`, or `cursor`."""
    low, top = edges
    cells = max((len(each) for each in sides), default=0)
    drawn: list[list[set[int]]] = [[set() for _ in range(cells)] for _ in range(rows)]
    for side, found in enumerate(sides):
        for x, column in enumerate(found):
            for value in column or ():
                drawn[rows - 1 - level(value - low, top - low, rows)][x].add(side)
    return [
        joined(_cell(found, special.get(x, ""), y == rows - 1, glyphs) for x, found in enumerate(row))
        for y, row in enumerate(drawn)
    ]


def _cell(sides: set[int], special: str, last: bool, glyphs: Glyphs) -> tuple[str, str]:
    if special == "stall" and last:
        return "!", "stall"
    if not sides:
        return (glyphs.bar if special == "cursor" else " "), special
    character = glyphs.several if len(sides) > 1 else glyphs.sides[min(sides)]
    return character, special or ("" if len(sides) > 1 else SIDES[min(sides)])


def closing(course: Course, axis: Axis, cells: int, rows: int, glyphs: Glyphs) -> tuple[list[Line], float]:
    """The ratio with its bounds as they became known, in an odd number of rows about 1; and the edges, as a fraction.

    What lies beyond the edges is drawn at them: the first bounds are wide.
    """
    count = bisect_right(course.until, axis.at)
    if not count or axis.end <= axis.start:
        return [], 0.0
    edge = _edge(course.known[count - 1])
    known = _by_column(course, count, axis, cells * columns_per_cell(glyphs))
    texts = _outlines(known, edge, rows, glyphs) if glyphs.name == "braille" else _thirds(known, edge, rows, glyphs)
    return [
        joined(
            (glyphs.dash, "base") if character == " " and y == rows // 2 else (character, "rate") for character in text
        )
        for y, text in enumerate(texts)
    ], edge


def _edge(last: SoFar) -> float:
    far = abs(last.ratio - 1) if last.low is None or last.high is None else max(1 - last.low, last.high - 1)
    return nice(100 * max(ROOM * far, 0.001)) / 100


def _by_column(course: Course, count: int, axis: Axis, columns: int) -> list[SoFar | None]:
    """What was known last in each column."""
    per_column = (axis.end - axis.start) / columns
    found: list[SoFar | None] = [None] * columns
    before = None
    place = 0
    for column in range(min(columns, ceil((axis.at - axis.start) / per_column))):
        while place < count and course.until[place] <= axis.start + (column + 1) * per_column:
            before = course.known[place]
            place += 1
        found[column] = before
    return found


def _outlines(known: Sequence[SoFar | None], edge: float, rows: int, glyphs: Glyphs) -> list[str]:
    """Three thin lines of dots: the bounds, and the ratio between them."""
    texts = [[0] * ((len(known) + 1) // 2) for _ in range(rows)]
    for pick in ("low", "ratio", "high"):
        values = [None if each is None else getattr(each, pick) for each in known]
        heights = [None if value is None else value - 1 + edge for value in values]
        spans: list[Span | None] = [None if height is None else (height, height) for height in heights]
        for y, row in enumerate(raster(spans, 2 * edge, rows, glyphs)):
            for x, character in enumerate(row):
                texts[y][x] |= 0 if character == " " else ord(character) - BRAILLE
    return ["".join(chr(BRAILLE + bits) if bits else " " for bits in row) for row in texts]


def _thirds(known: Sequence[SoFar | None], edge: float, rows: int, glyphs: Glyphs) -> list[str]:
    """The same three lines in characters that stand low, in the middle or high in their cells."""
    found: list[list[set[int]]] = [[set() for _ in known] for _ in range(rows)]
    for x, each in enumerate(known):
        for value in (each.low, each.ratio, each.high) if each is not None else ():
            if value is not None:
                height = level(value - 1 + edge, 2 * edge, 3 * rows)
                found[rows - 1 - height // 3][x].add(height % 3)
    return ["".join(_third(heights, glyphs) for heights in row) for row in found]


def _third(heights: set[int], glyphs: Glyphs) -> str:
    return " " if not heights else glyphs.thirds[heights.pop()] if len(heights) == 1 else glyphs.shade


def labels(low: float, top: float, rows: int) -> dict[int, str]:
    """What stands left of a chart's rows."""
    return {0: short(top), rows - 1: short(low) if low > 0 else "0"}


def ratio_labels(edge: float, rows: int) -> dict[int, str]:
    """The same of a ratio: percent above and below."""
    percent = short(100 * edge)
    return {0: f"+{percent} %", rows // 2: "0 %", rows - 1: f"-{percent} %"} if edge else {}

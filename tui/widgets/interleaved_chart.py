"""Lines of interleaved builds in one chart, a character for each, and a ratio whose bounds narrow.

The axis does not begin at 0, where the difference of the lines would not show.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from math import ceil, exp, floor, log, log1p, log10

from engine.core.format import short
from engine.view.envelope import Span
from engine.view.slice_series import Course, SoFar
from tui.glyphs import Glyphs
from tui.marks import SIDES, Line, joined
from tui.widgets.chart import nice
from tui.widgets.column_cache import Axis, Points
from tui.widgets.raster import BRAILLE, columns_per_cell, level, raster

STEPS = 8  # maximum of round steps from the lowest to the highest line
LEAST_RANGE = 0.02  # of the greatest value: smaller differences are drawn as none
ROOM = 1.25  # distance of a ratio chart's edges from 1, as a multiple of its bounds' distance
# A ratio chart whose edges are this far from 1 or farther has a log axis, on which nothing falls by more than it has.
LINEAR = 0.5
FACTORS = (2, 5, 10, 20, 50, 100)  # edges of a log axis
DIP = 0.5  # a point below this share of its column's mean is drawn, too
Column = tuple[float, float]  # mean of a column, and its least point if that is a dip, else the mean again


def columns(points: Points, axis: Axis, cells: int) -> list[Column | None]:
    """Time-weighted means of the points that had ended at `axis.at`; None in a column without any."""
    sums, lengths, least = [0.0] * cells, [0.0] * cells, [float("inf")] * cells
    per_column = (axis.end - axis.start) / cells if cells else 0.0
    if per_column <= 0:
        return []
    until, length, value = points.until, points.length, points.value
    for i in range(bisect_right(until, axis.start), bisect_right(until, axis.at)):
        begin = max(0.0, (until[i] - length[i] - axis.start) / per_column)
        end = (until[i] - axis.start) / per_column
        for column in range(int(begin), min(cells, ceil(end))):
            overlap = min(end, column + 1) - max(begin, column)
            sums[column] += overlap * value[i]
            lengths[column] += overlap
            least[column] = min(least[column], value[i])
    return [
        None if not held else (total / held, low if low < DIP * total / held else total / held)
        for total, held, low in zip(sums, lengths, least, strict=True)
    ]


def limits(sides: Iterable[Sequence[Column | None]]) -> tuple[float, float]:
    """Lower and upper edge of a chart of these lines, in round numbers."""
    values = [value for side in sides for column in side if column is not None for value in column]
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
    """Rows of characters, the highest first. `special` marks columns as `cursor`, or as a stall by its side's mark."""
    low, top = edges
    cells = max((len(side) for side in sides), default=0)
    drawn: list[list[set[int]]] = [[set() for _ in range(cells)] for _ in range(rows)]
    for place, side in enumerate(sides):
        for x, column in enumerate(side):
            for value in column or ():
                drawn[rows - 1 - level(value - low, top - low, rows)][x].add(place)
    return [
        joined(_cell(places, special.get(x, ""), y == rows - 1, glyphs) for x, places in enumerate(row))
        for y, row in enumerate(drawn)
    ]


def _cell(sides: set[int], special: str, last: bool, glyphs: Glyphs) -> tuple[str, str]:
    if special in SIDES:
        if last:
            return glyphs.sides[SIDES.index(special)], "stall"
        special = ""
    if not sides:
        return (glyphs.bar if special == "cursor" else " "), special
    character = glyphs.several if len(sides) > 1 else glyphs.sides[min(sides)]
    return character, special or ("" if len(sides) > 1 else SIDES[min(sides)])


def closing(course: Course, axis: Axis, cells: int, rows: int, glyphs: Glyphs) -> tuple[list[Line], float]:
    """Ratio and bounds over time in an odd number of rows around 1, clamped to the edges; and these as a fraction."""
    count = bisect_right(course.until, axis.at)
    if not count or axis.end <= axis.start:
        return [], 0.0
    edge = _edge(course.known[count - 1])
    states = _by_column(course, count, axis, cells * columns_per_cell(glyphs))
    texts = _outlines(states, edge, rows, glyphs) if glyphs.name == "braille" else _thirds(states, edge, rows, glyphs)
    return [
        joined(
            (glyphs.dash, "base") if character == " " and y == rows // 2 else (character, "rate") for character in text
        )
        for y, text in enumerate(texts)
    ], edge


def _edge(last: SoFar) -> float:
    ends = (last.ratio, last.ratio) if last.low is None or last.high is None else (last.low, last.high)
    edge = nice(100 * max(ROOM * max(1 - ends[0], ends[1] - 1), 0.001)) / 100
    if edge < LINEAR:
        return edge
    factor = exp(ROOM * max(-log(ends[0]), log(ends[1])))
    return float(next((candidate for candidate in FACTORS if candidate >= factor), FACTORS[-1])) - 1


def _height(ratio: float, edge: float) -> tuple[float, float]:
    """The heights of a ratio and of the upper edge above the lower edge."""
    return (ratio - 1 + edge, 2 * edge) if edge < LINEAR else (log(ratio) + log1p(edge), 2 * log1p(edge))


def _by_column(course: Course, count: int, axis: Axis, columns: int) -> list[SoFar | None]:
    per_column = (axis.end - axis.start) / columns
    states: list[SoFar | None] = [None] * columns
    last = None
    i = 0
    for column in range(min(columns, ceil((axis.at - axis.start) / per_column))):
        while i < count and course.until[i] <= axis.start + (column + 1) * per_column:
            last = course.known[i]
            i += 1
        states[column] = last
    return states


def _outlines(states: Sequence[SoFar | None], edge: float, rows: int, glyphs: Glyphs) -> list[str]:
    """Three thin lines of dots: the bounds, and the ratio between them."""
    texts = [[0] * ((len(states) + 1) // 2) for _ in range(rows)]
    for pick in ("low", "ratio", "high"):
        values = [None if state is None else getattr(state, pick) for state in states]
        heights = [None if value is None else _height(value, edge)[0] for value in values]
        spans: list[Span | None] = [None if height is None else (height, height) for height in heights]
        for y, row in enumerate(raster(spans, _height(1.0, edge)[1], rows, glyphs)):
            for x, character in enumerate(row):
                texts[y][x] |= 0 if character == " " else ord(character) - BRAILLE
    return ["".join(chr(BRAILLE + bits) if bits else " " for bits in row) for row in texts]


def _thirds(states: Sequence[SoFar | None], edge: float, rows: int, glyphs: Glyphs) -> list[str]:
    """The same three lines in characters that stand low, in the middle or high in their cells."""
    thirds: list[list[set[int]]] = [[set() for _ in states] for _ in range(rows)]
    for x, state in enumerate(states):
        for value in (state.low, state.ratio, state.high) if state is not None else ():
            if value is not None:
                height = level(*_height(value, edge), 3 * rows)
                thirds[rows - 1 - height // 3][x].add(height % 3)
    return ["".join(_third(heights, glyphs) for heights in row) for row in thirds]


def _third(heights: set[int], glyphs: Glyphs) -> str:
    return " " if not heights else glyphs.thirds[heights.pop()] if len(heights) == 1 else glyphs.shade


def labels(low: float, top: float, rows: int) -> dict[int, str]:
    return {0: short(top), rows - 1: short(low) if low > 0 else "0"}


def ratio_labels(edge: float, rows: int) -> dict[int, str]:
    """Labels left of a ratio's chart: percent above and below, or factors on a log axis."""
    if edge >= LINEAR:
        return {0: f"x {1 + edge:g}", rows // 2: "x 1", rows - 1: f"x {1 / (1 + edge):g}"}
    percent = short(100 * edge)
    return {0: f"+{percent}%", rows // 2: "0%", rows - 1: f"-{percent}%"} if edge else {}

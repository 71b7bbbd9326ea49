"""Ratios and their intervals on one logarithmic axis, the margin as a band around 1: a forest plot. Values to lines."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.core.format import three
from engine.results.ratio import Ratio
from tui.glyphs import Glyphs
from tui.marks import Line, Span, joined, line

# How far an axis may reach above 1, and by the same factor below it: to 1.02, 1.05, … 10.
REACHES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 9.0)
INSIDE = 0.75  # share of interval ends that must lie on the axis: one wild interval would flatten all others
LABEL_CELLS = 5  # maximum width of a value at the axis


@dataclass(frozen=True, slots=True)
class RatioAxis:
    """A logarithmic axis from 1/(1+reach) to 1+reach over an odd number of cells, with 1 in the middle."""

    reach: float
    margin: float
    cells: int

    def place(self, ratio: float) -> int:
        """The cell of a ratio; negative, or `cells` and more, beyond the axis."""
        share = math.log(ratio) / math.log1p(self.reach) if ratio > 0 else -2.0
        return self.cells // 2 + round(max(-2.0, min(2.0, share)) * (self.cells // 2))


def axis(ratios: Iterable[Ratio], margin: float, cells: int) -> RatioAxis:
    """The shortest axis that holds every ratio, most interval ends, and the margin."""
    known_ratios = [ratio for ratio in ratios if ratio.ratio]
    points = [_distance(ratio.ratio) for ratio in known_ratios]
    ends = sorted(_distance(end) for ratio in known_ratios for end in ratio.bounds or ())
    most = ends[math.ceil(INSIDE * len(ends)) - 1] if ends else 0.0
    wanted = max([most, math.log1p(1.5 * margin), *points])
    reach = next((reach for reach in REACHES if math.log1p(reach) >= wanted), REACHES[-1])
    return RatioAxis(reach, margin, max(1, cells - (cells % 2 == 0)))


def _distance(ratio: float | None) -> float:
    """Distance of a ratio from 1, as a factor."""
    return abs(math.log(ratio)) if ratio and ratio > 0 else math.inf


def ticks(on: RatioAxis) -> Line:
    """The values at both ends of the axis and at 1, as far as they fit."""
    row = [" "] * on.cells
    labels = [(0, three(1 / (1 + on.reach))), (on.cells // 2, "1"), (on.cells, three(1 + on.reach))]
    for place, text in labels:
        start = min(place, on.cells - len(text))
        if start >= 0 and all(row[x] == " " for x in range(max(0, start - 1), start + len(text))):
            row[start : start + len(text)] = text
    return line(("".join(row), "dim"))


def whisker(on: RatioAxis, measured: Ratio | None, mark: str, glyphs: Glyphs, others: Sequence[float] = ()) -> Line:
    """Draw an interval: its ends and ratio, `<` or `>` where it leaves the axis, and `others` as points."""
    row: list[Span] = [(" ", "")] * on.cells
    edge = math.log1p(on.margin) / math.log1p(on.reach) * (on.cells // 2)
    band = max(1, round(edge)) if on.margin else 0
    middle = on.cells // 2
    for x in range(max(0, middle - band), min(on.cells, middle + band + 1)):
        row[x] = (glyphs.todo, "dim")
    row[middle] = (glyphs.bar, "base")
    for ratio in others:
        if 0 <= (x := on.place(ratio)) < on.cells:
            row[x] = (glyphs.sides[1], "dim")
    if measured is None or not measured.ratio:
        return joined(row)
    if measured.bounds:
        left, right = map(on.place, measured.bounds)
        begin, across, end, crossing = tuple(glyphs.whisker)
        for x in range(max(0, left), min(on.cells, right + 1)):
            row[x] = (crossing if x == middle else across, mark)
        if 0 <= left < on.cells:
            row[left] = (begin, mark)
        if 0 <= right < on.cells:
            row[right] = (end, mark)
        if left < 0 <= right:
            row[0] = ("<", mark)
        if left < on.cells <= right:
            row[-1] = (">", mark)
    x = on.place(measured.ratio)
    row[max(0, min(on.cells - 1, x))] = (
        glyphs.sides[0] if 0 <= x < on.cells else "<" if x < 0 else ">",
        mark or "strong",
    )
    return joined(row)

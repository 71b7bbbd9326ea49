"""A rate over time, or over work done: minimum and maximum of every column, stalls marked, the base as a line."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from textual.strip import Strip
from textual.widget import Widget

from engine.core.format import short
from engine.view.envelope import Envelope, columns_of
from tui.glyphs import Glyphs
from tui.marks import Line, joined
from tui.widgets.lines import strip
from tui.widgets.raster import columns_per_cell, level, raster


class Points(Protocol):
    """Values over an axis, in order and only ever added to: each held from `until - length` to `until`."""

    @property
    def until(self) -> Sequence[float]: ...

    @property
    def length(self) -> Sequence[float]: ...

    @property
    def value(self) -> Sequence[float]: ...


@dataclass(frozen=True, slots=True)
class Axis:
    """What a chart shows: the axis from `start` to `end`, of which data is shown up to `at`."""

    start: float
    end: float
    at: float


class RateChart(Widget):
    """The chart. `show` is cheap where only points were added and the axis stayed."""

    DEFAULT_CSS = "RateChart { width: 1fr; height: 1fr; background: $background; }"

    def __init__(self, glyphs: Glyphs, *, id: str | None = None, resized: Callable[[], None] = lambda: None) -> None:
        super().__init__(id=id)
        self.glyphs = glyphs
        self._resized = resized  # called when it wants to be shown anew, for another size
        self.top = 0.0  # the value at the upper edge
        self._points: Points | None = None
        self._envelope: Envelope | None = None
        self._taken = 0  # how many points are in the envelope
        self._newest = 0.0  # where the last of them ends
        self._key: tuple[object, ...] = ()
        self._rows: list[Line] = []

    def show(
        self,
        points: Points,
        axis: Axis,
        stalls: Iterable[tuple[float, float]] = (),
        base: float | None = None,
        base_label: str = "base",
        cursor: float | None = None,
        top: float | None = None,
    ) -> None:
        """Draws the points; `stalls` are intervals of the axis, `base` the value of the reference line."""
        cells, rows = self.size.width, self.size.height
        if cells <= 0 or rows <= 0:
            return
        made = self._columns(points, axis, cells)
        self.top = top if top is not None else nice(max(made.greatest(), base or 0.0))
        stalled = {x for from_, until in stalls for x in columns_of(axis.start, axis.end, from_, until, cells)}
        at = columns_of(axis.start, axis.end, cursor, cursor, cells) if cursor is not None else range(0)
        special = dict.fromkeys(stalled, "stall") | dict.fromkeys(set(at) - stalled, "cursor")
        drawn = raster(made.columns, self.top, rows, self.glyphs)
        base_y = rows - 1 - level(base, self.top, rows) if base is not None else None
        label = f" {base_label} {short(base)} "[:cells]
        self._rows = [
            self._row(text.ljust(cells), special, label if y == base_y else "", last=y == rows - 1)
            for y, text in enumerate(drawn)
        ]
        self.refresh()

    def _row(self, text: str, special: dict[int, str], base_label: str, *, last: bool) -> Line:
        """A row of characters with its marks; with a label it is that of the base, whose line runs behind it."""
        row, marks = list(text), ["rate"] * len(text)
        if base_label:
            marks = ["base" if character == " " else "rate" for character in row]
            row = [self.glyphs.dash if character == " " else character for character in row]
            start = max(0, len(row) - len(base_label) - 1)
            row[start : start + len(base_label)] = base_label
            marks[start : start + len(base_label)] = ["base"] * len(base_label)
        for x, mark in special.items():
            marks[x] = mark
            if mark == "cursor" and row[x] == " ":
                row[x] = self.glyphs.bar
            elif mark == "stall" and last:
                row[x] = "!"
        return joined(zip(row, marks, strict=True))

    def on_resize(self) -> None:
        self._resized()

    def clear(self) -> None:
        self._rows = []
        self._points = None
        self.refresh()

    def render_line(self, y: int) -> Strip:
        return strip(self, self._rows[y] if y < len(self._rows) else ())

    def _columns(self, points: Points, axis: Axis, cells: int) -> Envelope:
        """The envelope of the points up to `axis.at`: what was taken in before is kept while the axis stays."""
        key = (id(points), axis.start, axis.end, cells)
        if self._envelope is None or key != self._key or self._points is not points or self._newest > axis.at:
            self._points, self._key, self._newest = points, key, axis.start
            self._taken = bisect_right(points.until, axis.start)  # what ended before is not on the axis
            self._envelope = Envelope(axis.start, axis.end, cells * columns_per_cell(self.glyphs))
        end = bisect_right(points.until, axis.at, lo=self._taken)
        if end > self._taken:
            new = slice(self._taken, end)
            self._envelope.extend(points.until[new], points.length[new], points.value[new])
            self._taken, self._newest = end, points.until[end - 1]
        return self._envelope


def nice(value: float) -> float:
    """The next of 1, 1.5, 2, 3, 4, 5, 6, 8 times a power of ten: an upper edge that stays while values jitter."""
    if value <= 0:
        return 1.0
    power = 10.0 ** (len(str(int(value))) - 1) if value >= 1 else 0.1
    return next(step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * power >= value)

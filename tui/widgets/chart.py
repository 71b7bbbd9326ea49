"""A rate over time or over work done: minimum and maximum of each column, stalls marked, the base behind it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from textual.strip import Strip

from engine.core.format import short
from engine.view.envelope import Envelope, Span, columns_of
from tui.glyphs import Glyphs
from tui.marks import Line, joined
from tui.widgets.column_cache import Axis, ColumnCache, Points
from tui.widgets.raster import behind, columns_per_cell, filled, level, level_line, seen_behind
from tui.widgets.text_lines import Plain, changed

FADED = 5  # tenths, of the lowest row; higher rows are brighter


@dataclass(frozen=True, slots=True)
class Ghost:
    """The base's line, drawn behind: up to now, and ahead of it."""

    past: Points
    ahead: Points


class RateChart(Plain):
    """A filled chart. `show` is cheap if only points were added and the axis stayed; it draws only changed rows."""

    DEFAULT_CSS = "RateChart { width: 1fr; height: 1fr; background: $background; }"

    def __init__(
        self, glyphs: Glyphs, *, id: str | None = None, log: bool = False, resized: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(id=id)
        self.glyphs = glyphs
        self.logarithmic = log
        self._resized = resized  # called when the size has changed and the chart has to be shown again
        self.top = 0.0  # value at the upper edge
        self.foot = 0.0  # value at the lower edge
        self._points, self._past, self._ahead = ColumnCache(Envelope), ColumnCache(Envelope), ColumnCache(Envelope)
        self._drawn: tuple[object, ...] = ()
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
        ghost: Ghost | None = None,
        cross: float | None = None,
    ) -> None:
        """Draw points; `base` or a `ghost` is the reference line, `cursor` a replay's position, `cross` is read out."""
        cells, rows = self.size.width, self.size.height
        if cells <= 0 or rows <= 0:
            return
        many = cells * columns_per_cell(self.glyphs)
        front: Sequence[Span | None] = self._points.of(points, axis, many).columns
        back = self._behind(ghost, axis, many) if ghost is not None else []
        if ghost is not None:
            base = None
        greatest = max((span[1] for span in (*front, *back) if span is not None), default=0.0)
        least = min((span[0] for span in front if span is not None and span[0] > 0), default=greatest)
        if self.logarithmic:
            self.foot, self.top = _decades(least, greatest)
            front = [_logarithms(span, self.foot) for span in front]
            edge = log10(self.top / self.foot)
        else:
            edge = self.top = top if top is not None else nice(max(greatest, base or 0.0))
        special: dict[int, str] = {}
        for start, end in stalls:
            special |= dict.fromkeys(columns_of(axis.start, axis.end, start, end, cells), "stall")
        for at in (cursor, cross):
            for x in columns_of(axis.start, axis.end, at, at, cells) if at is not None else ():
                special[x] = "cursor" if special.get(x) != "stall" or at is cross else "stall"
        drawn = (tuple(front), tuple(back), edge, special, base, base_label, cells, rows)
        if drawn == self._drawn:
            return
        self._drawn = drawn
        base_y = rows - 1 - level(base, edge, rows) if base is not None else None
        label = f" {base_label} {short(base)} "[:cells]
        fill = [text.ljust(cells) for text in filled(front, edge, rows, self.glyphs)]
        line = (
            [text.ljust(cells) for text in level_line(back, edge, rows, self.glyphs)] if back else [" " * cells] * rows
        )
        seen = behind(fill, line, self.glyphs)
        self._paint(
            [self._row(fill[y], line[y], seen[y], special, label if y == base_y else "", y, rows) for y in range(rows)]
        )

    def _behind(self, ghost: Ghost, axis: Axis, columns: int) -> list[Span | None]:
        past = self._past.of(ghost.past, axis, columns).columns
        ahead = self._ahead.of(ghost.ahead, Axis(axis.start, axis.end, axis.end), columns).columns
        return [span if span is not None else later for span, later in zip(past, ahead, strict=True)]

    def _row(
        self, front: str, line: str, seen: Sequence[bool], special: dict[int, str], label: str, y: int, rows: int
    ) -> Line:
        """A row of characters with its marks; with a label it is the row of the base's line."""
        shade = shade_of(y, rows)
        row, marks = list(front), [shade] * len(front)
        for x, line_shows in enumerate(seen):
            if line_shows:
                marks[x] = "base" if row[x] == " " or self.glyphs.name != "braille" else shade
                row[x] = seen_behind(row[x], line[x], self.glyphs)
        if label:
            marks = ["base" if character == " " else shade for character in row]
            row = [self.glyphs.dash if character == " " else character for character in row]
            start = max(0, len(row) - len(label) - 1)
            row[start : start + len(label)] = label
            marks[start : start + len(label)] = ["base"] * len(label)
        for x, mark in special.items():
            marks[x] = mark
            if mark == "cursor" and row[x] == " ":
                row[x] = self.glyphs.bar
            elif mark == "stall" and y == rows - 1:
                row[x] = "!"
        return joined(zip(row, marks, strict=True))

    def _paint(self, rows: list[Line]) -> None:
        before, self._rows = self._rows, rows
        if len(before) != len(rows):
            self.refresh()
            return
        if regions := changed(before, rows, self.size):
            self.refresh(*regions)

    def on_resize(self) -> None:
        self._drawn = ()
        self._resized()

    def clear(self) -> None:
        self._rows = []
        self._drawn = ()
        for columns in (self._points, self._past, self._ahead):
            columns.forget()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        return self.strip(self._rows[y] if y < len(self._rows) else ())


def shade_of(y: int, rows: int) -> str:
    """Mark of a row of the fill: the lower, the fainter. The shape alone says the same."""
    tenths = round(FADED * y / (rows - 1)) if rows > 1 else 0
    return f"rate.{tenths}" if tenths else "rate"


def _decades(least: float, greatest: float) -> tuple[float, float]:
    if greatest <= 0:
        return 0.1, 1.0
    top = 10.0 ** ceil(log10(greatest) - 1e-9)
    foot = 10.0 ** floor(log10(least) + 1e-9)
    return (foot if foot < top else top / 10), top


def _logarithms(span: Span | None, foot: float) -> Span | None:
    """Decades above the foot; lower values, such as 0 when nothing ended, lie at the foot."""
    return None if span is None else (log10(max(span[0], foot) / foot), log10(max(span[1], foot) / foot))


def nice(value: float) -> float:
    """Round up to 1, 1.5, 2, 3, 4, 5, 6 or 8 times a power of ten: an upper edge that stays while values jitter."""
    if value <= 0:
        return 1.0
    power = 10.0 ** (len(str(int(value))) - 1) if value >= 1 else 0.1
    return next(step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * power >= value)

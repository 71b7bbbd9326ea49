"""A rate over time, or over work done: minimum and maximum of every column, stalls marked, the base behind it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from textual.strip import Strip

from engine.core.format import short
from engine.view.envelope import Envelope, Span, columns_of
from tui.glyphs import Glyphs
from tui.marks import Line, joined
from tui.widgets.lines import Plain, changed
from tui.widgets.raster import behind, columns_per_cell, filled, level, level_line, seen_behind
from tui.widgets.taken import Axis, Points, Taken

FADED = 5  # tenths, of the lowest row: the higher, the brighter


@dataclass(frozen=True, slots=True)
class Ghost:
    """What is drawn behind: a line up to now, and what is to come."""

    past: Points
    ahead: Points


class RateChart(Plain):
    """The chart. `show` is cheap where only points were added and the axis stayed, and draws only rows that changed."""

    DEFAULT_CSS = "RateChart { width: 1fr; height: 1fr; background: $background; }"

    def __init__(
        self,
        glyphs: Glyphs,
        *,
        id: str | None = None,
        log: bool = False,
        resized: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(id=id)
        self.glyphs = glyphs
        self._log = log
        self._resized = resized  # called when it wants to be shown anew, for another size
        self.top = 0.0  # the value at the upper edge
        self.foot = 0.0  # and at the lower
        self._taken, self._past, self._ahead = Taken(Envelope), Taken(Envelope), Taken(Envelope)
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
        """Draws the points; `stalls` are intervals of the axis, `base` the value of the reference line.

        A `ghost` takes the place of that line. `cursor` is where a replay stands, `cross` what is read out.
        """
        cells, rows = self.size.width, self.size.height
        if cells <= 0 or rows <= 0:
            return
        many = cells * columns_per_cell(self.glyphs)
        own: Sequence[Span | None] = self._taken.of(points, axis, many).columns
        back = self._behind(ghost, axis, many) if ghost is not None else []
        if ghost is not None:
            base = None
        greatest = max((span[1] for span in (*own, *back) if span is not None), default=0.0)
        least = min((span[0] for span in own if span is not None and span[0] > 0), default=greatest)
        if self._log:
            self.foot, self.top = _decades(least, greatest)
            own = [_logarithms(span, self.foot) for span in own]
            edge = log10(self.top / self.foot)
        else:
            edge = self.top = top if top is not None else nice(max(greatest, base or 0.0))
        special: dict[int, str] = {}
        for from_, until in stalls:
            special |= dict.fromkeys(columns_of(axis.start, axis.end, from_, until, cells), "stall")
        for at in (cursor, cross):
            for x in columns_of(axis.start, axis.end, at, at, cells) if at is not None else ():
                special[x] = "cursor" if special.get(x) != "stall" or at is cross else "stall"
        drawn = (tuple(own), tuple(back), edge, special, base, base_label, cells, rows)
        if drawn == self._drawn:
            return
        self._drawn = drawn
        base_y = rows - 1 - level(base, edge, rows) if base is not None else None
        label = f" {base_label} {short(base)} "[:cells]
        front = [text.ljust(cells) for text in filled(own, edge, rows, self.glyphs)]
        line = (
            [text.ljust(cells) for text in level_line(back, edge, rows, self.glyphs)] if back else [" " * cells] * rows
        )
        seen = behind(front, line, self.glyphs)
        made = [
            self._row(front[y], line[y], seen[y], special, label if y == base_y else "", y, rows) for y in range(rows)
        ]
        self._paint(made)

    def _behind(self, ghost: Ghost, axis: Axis, columns: int) -> list[Span | None]:
        past = self._past.of(ghost.past, axis, columns).columns
        ahead = self._ahead.of(ghost.ahead, Axis(axis.start, axis.end, axis.end), columns).columns
        return [one if one is not None else other for one, other in zip(past, ahead, strict=True)]

    def _row(
        self, front: str, line: str, seen: Sequence[bool], special: dict[int, str], label: str, y: int, rows: int
    ) -> Line:
        """A row of characters with its marks; with a label it is that of the base, whose line runs behind it."""
        own = shade_of(y, rows)
        row, marks = list(front), [own] * len(front)
        for x, found in enumerate(seen):
            if found:
                marks[x] = "base" if row[x] == " " or self.glyphs.name != "braille" else own
                row[x] = seen_behind(row[x], line[x], self.glyphs)
        if label:
            marks = ["base" if character == " " else own for character in row]
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

    def _paint(self, made: list[Line]) -> None:
        """Draws the rows that are others than before."""
        before, self._rows = self._rows, made
        if len(before) != len(made):
            self.refresh()
            return
        if regions := changed(before, made, self.size):
            self.refresh(*regions)

    def on_resize(self) -> None:
        self._drawn = ()
        self._resized()

    def clear(self) -> None:
        self._rows = []
        self._drawn = ()
        for each in (self._taken, self._past, self._ahead):
            each.forget()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        return self.strip(self._rows[y] if y < len(self._rows) else ())


def shade_of(y: int, rows: int) -> str:
    """The mark of a row of what is filled: the lower, the fainter. The shape says the same."""
    tenths = round(FADED * y / (rows - 1)) if rows > 1 else 0
    return f"rate.{tenths}" if tenths else "rate"


def _decades(least: float, greatest: float) -> tuple[float, float]:
    """Powers of ten about what is to be drawn."""
    if greatest <= 0:
        return 0.1, 1.0
    top = 10.0 ** ceil(log10(greatest) - 1e-9)
    foot = 10.0 ** floor(log10(least) + 1e-9)
    return (foot if foot < top else top / 10), top


def _logarithms(span: Span | None, foot: float) -> Span | None:
    """How many decades above the foot; what is below it, as nothing that ended, at it."""
    return None if span is None else (log10(max(span[0], foot) / foot), log10(max(span[1], foot) / foot))


def nice(value: float) -> float:
    """The next of 1, 1.5, 2, 3, 4, 5, 6, 8 times a power of ten: an upper edge that stays while values jitter."""
    if value <= 0:
        return 1.0
    power = 10.0 ** (len(str(int(value))) - 1) if value >= 1 else 0.1
    return next(step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * power >= value)

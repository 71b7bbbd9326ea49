"""What every screen is: lines in the middle, its keys in the last row, and one page where the terminal is too small."""

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from string import ascii_lowercase
from typing import ClassVar, cast

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget
from textual.worker import Worker

from tui.context import BenchApp, Context
from tui.glyphs import Glyphs
from tui.marks import Line, line
from tui.screens.settling import Settling
from tui.widgets.key_row import KeyRow
from tui.widgets.lines import Lines

REFERENCE = (80, 24)  # columns, rows: every screen is complete here
LEAST = (60, 18)  # below this only the one figure that matters is shown
WIDE_COLUMNS = 110
TALL_ROWS = 30
NOTICE_S = 10.0


@dataclass(frozen=True, slots=True)
class Jump:
    """`x` and `y` are column and row of the screen; `go` moves there."""

    letter: str
    x: int
    y: int
    go: Callable[[], object]


class BenchScreen(Settling, Screen[None]):
    """A screen of ours. Subclasses give `parts` (their widgets) and `small` (the page of a small terminal).

    Textual calls the event handlers (`on_...`) of base classes too: a subclass only adds to them.
    A part that can be jumped to has an id and is focusable; `JUMPS` maps its id to a letter.
    """

    TITLE_WORD: ClassVar[str] = ""
    LOOK_S: ClassVar[float] = 0.0  # between two looks for what has changed; 0: only on coming to the front
    JUMPS: ClassVar[dict[str, str]] = {}
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE_COLUMNS, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-short"), (TALL_ROWS, "-tall")]  # noqa: RUF012
    DEFAULT_CSS = """
    BenchScreen { layout: vertical; overflow: hidden; }
    BenchScreen > #parts { height: 1fr; }
    BenchScreen > #notice { height: auto; max-height: 3; dock: bottom; margin-bottom: 1; }
    BenchScreen > #small { display: none; height: 1fr; }
    BenchScreen.-small > #small { display: block; }
    BenchScreen.-small > #parts, BenchScreen.-small > #keys, BenchScreen.-small > #notice { display: none; }
    """

    _notice: Timer | None = None  # until the notice goes

    @property
    def bench(self) -> BenchApp:
        return cast("BenchApp", self.app)

    @property
    def context(self) -> Context:
        """What the screens share."""
        return self.bench.context

    @property
    def glyphs(self) -> Glyphs:
        return self.context.glyphs

    def compose(self) -> ComposeResult:
        yield Vertical(*self.parts(), id="parts")
        yield Lines(id="notice")
        yield KeyRow(id="keys")
        yield Lines(id="small")

    def parts(self) -> Sequence[Widget]:
        """The screen's own widgets, from top to bottom."""
        raise NotImplementedError

    def small(self) -> Sequence[Line]:
        """What is shown where the terminal is smaller than the reference size."""
        return [line((self.TITLE_WORD, "strong"))]

    def look(self) -> None:
        """Reads what has changed, where the screen is in front."""

    def draw(self) -> None:
        """Draws what is known, for the size that there is."""

    def on_mount(self) -> None:
        if self.LOOK_S:
            self.set_interval(self.LOOK_S, self.look)

    def on_resize(self, event: events.Resize) -> None:
        """Shows the small page where the screen does not fit."""
        self.set_class(event.size.width < REFERENCE[0] or event.size.height < REFERENCE[1], "-small")
        self.refresh_small()
        self.draw()

    def on_screen_resume(self) -> None:
        self.refresh_small()
        self.look()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Of what a screen's own workers do only the screen is notified."""
        self.bench.on_worker_state_changed(event)

    def fill(self, **parts: Sequence[Line]) -> None:
        """Shows lines in parts of the screen, by their ids."""
        for id, lines in parts.items():
            self.query_one(f"#{id}", Lines).show(lines)

    def refresh_small(self) -> None:
        """Draws the small page, if it is what is seen."""
        if not self.has_class("-small"):
            return
        columns, rows = self.size
        lines = list(self.small())[: max(1, rows - 3)]
        if columns < LEAST[0] or rows < LEAST[1]:
            lines = [line(f"terminal too small (need {LEAST[0]}x{LEAST[1]}, have {columns}x{rows})"), *lines]
        else:
            whole = f"the whole screen needs {REFERENCE[0]}x{REFERENCE[1]}; have {columns}x{rows}"
            lines += [line(), line((whole, "dim"))]
        self.fill(small=lines)

    def notify_line(self, text: str, mark: str = "") -> None:
        """Shows a line above the keys for a while, or until the next one; an empty one takes it away."""
        if self._notice is not None:
            self._notice.stop()
        self._notice = self.set_timer(NOTICE_S, lambda: self.notify_line("")) if text else None
        # In up to three rows: where a file was written to is worth more than a row of the screen.
        rows = textwrap.wrap(text, max(20, self.size.width - 2))
        shown = [*rows[:2], " ".join(rows[2:])] if rows[2:] else rows
        for notice in self.query("#notice").results(Lines):  # none any more while the screen is being closed
            notice.show([line((f" {row}", mark)) for row in shown])

    def jumps(self) -> list[Jump]:
        return [
            Jump(letter, part.region.x, part.region.y, part.focus)
            for id, letter in self.JUMPS.items()
            for part in self.query(f"#{id}")
            if part.display and part.region.height
        ]

    def row_jumps(self, part: str, rows: int, go: Callable[[int], object], heading: int = 1) -> list[Jump]:
        """A letter on each of so many rows of a list below its heading; `go` is given the row."""
        region = self.query_one(f"#{part}").region
        return [
            Jump(letter, region.x, region.y + heading + row, partial(go, row))
            for row, letter in enumerate(ascii_lowercase[: max(0, min(rows, region.height - heading))])
        ]

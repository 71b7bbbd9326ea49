"""What every screen is: lines in the middle, its keys in the last row, and one page where the terminal is too small."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from string import ascii_lowercase
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget
from textual.worker import Worker

from tui.glyphs import Glyphs
from tui.marks import Line, line
from tui.widgets.lines import Lines

if TYPE_CHECKING:
    from tui.app import Bench

REFERENCE = (80, 24)  # columns, rows: every screen is complete here
LEAST = (60, 18)  # below this only the one figure that matters is shown
WIDE_COLUMNS = 110
TALL_ROWS = 30
NOTICE_S = 10.0

KEY_WORDS = {"question_mark": "?", "space": "space", "left_square_bracket": "[", "right_square_bracket": "]",
             "left_curly_bracket": "{", "right_curly_bracket": "}", "comma": ",", "full_stop": ".", "slash": "/",
             "escape": "esc", "enter": "enter"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Jump:
    """A place on a screen, by column and row, that a letter leads to."""

    letter: str
    x: int
    y: int
    go: Callable[[], object]


class BenchScreen(Screen[None]):
    """A screen of ours. Subclasses give `parts` (their widgets), `small` (the page of a small terminal) and `name_`.

    A part that can be jumped to has an id and is focusable; `JUMPS` maps its id to a letter.
    """

    TITLE_WORD: ClassVar[str] = ""
    JUMPS: ClassVar[dict[str, str]] = {}
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE_COLUMNS, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-short"), (TALL_ROWS, "-tall")]  # noqa: RUF012
    DEFAULT_CSS = """
    BenchScreen { layout: vertical; overflow: hidden; }
    BenchScreen > #parts { height: 1fr; }
    BenchScreen > #notice { height: auto; max-height: 3; dock: bottom; margin-bottom: 1; }
    BenchScreen > #keys { height: 1; dock: bottom; }
    BenchScreen > #small { display: none; height: 1fr; }
    BenchScreen.-small > #small { display: block; }
    BenchScreen.-small > #parts, BenchScreen.-small > #keys, BenchScreen.-small > #notice { display: none; }
    """

    _notice: Timer | None = None  # until the notice goes

    @property
    def bench(self) -> Bench:
        """The application."""
        return cast("Bench", self.app)

    @property
    def glyphs(self) -> Glyphs:
        """What to draw with."""
        return self.bench.glyphs

    def compose(self) -> ComposeResult:
        """The parts, the notice, the keys, and the page of a small terminal."""
        yield Vertical(*self.parts(), id="parts")
        yield Lines(id="notice")
        yield Lines(id="keys")
        yield Lines(id="small")

    def parts(self) -> Sequence[Widget]:
        """The screen's own widgets, from top to bottom."""
        raise NotImplementedError

    def small(self) -> Sequence[Line]:
        """What is shown where the terminal is smaller than the reference size."""
        return [line((self.TITLE_WORD, "strong"))]

    def on_resize(self, event: events.Resize) -> None:
        """Shows the small page where the screen does not fit."""
        self.set_class(event.size.width < REFERENCE[0] or event.size.height < REFERENCE[1], "-small")
        self.refresh_small()
        self.show_keys()

    def on_screen_resume(self) -> None:
        """Comes back to the front."""
        self.show_keys()
        self.refresh_small()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Of what a screen does beside the picture only the screen is told."""
        self.bench.on_worker_state_changed(event)

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
        self.query_one("#small", Lines).show(lines)

    def notify_line(self, text: str, mark: str = "") -> None:
        """Shows a line above the keys for a while, or until the next one; an empty one takes it away."""
        if self._notice is not None:
            self._notice.stop()
        self._notice = self.set_timer(NOTICE_S, lambda: self.notify_line("")) if text else None
        # In up to three rows: where a file was written to is worth more than a row of the screen.
        rows = textwrap.wrap(text, max(20, self.size.width - 2))
        shown = [*rows[:2], " ".join(rows[2:])] if rows[2:] else rows
        self.query_one("#notice", Lines).show([line((f" {row}", mark)) for row in shown])

    def jumps(self) -> list[Jump]:
        """Where the keyboard can jump to: the parts of `JUMPS`, unless a screen has rows to offer."""
        return [
            Jump(letter, part.region.x, part.region.y, part.focus)
            for id, letter in self.JUMPS.items()
            for part in self.query(f"#{id}")
            if part.display and part.region.height
        ]

    def row_jumps(self, part: str, rows: int, go: Callable[[int], object]) -> list[Jump]:
        """A letter on each of so many rows of a list below its headings; `go` is given the row."""
        region = self.query_one(f"#{part}").region
        return [
            Jump(letter, region.x, region.y + 1 + row, partial(go, row))
            for row, letter in enumerate(ascii_lowercase[: max(0, min(rows, region.height - 1))])
        ]

    def shown_keys(self) -> list[tuple[str, Binding]]:
        """The keys of the last row: what is pressed, and its binding."""
        found: dict[str, tuple[str, Binding]] = {}
        for active in self.active_bindings.values():
            binding = active.binding
            if binding.show and active.enabled and binding.id and binding.id not in found:
                found[binding.id] = (binding.key, binding)
        own = [entry for id, entry in found.items() if not id.startswith("app.")]
        return own + [entry for id, entry in found.items() if id.startswith("app.")]

    def show_keys(self) -> None:
        """Draws the last row."""
        spans = [(" ", "")]
        for pressed, binding in self.shown_keys():
            spans += [
                (binding.key_display or KEY_WORDS.get(pressed, pressed), "key"),
                (f" {binding.description}  ", ""),
            ]
        self.query_one("#keys", Lines).show([tuple(spans)])

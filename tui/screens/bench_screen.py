"""The base of all screens: tabs, parts, a row of keys, and one page for a terminal that is too small."""

import textwrap
from collections.abc import Sequence
from typing import ClassVar, cast

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget
from textual.worker import Worker

from tui.context import BenchApp, Context, LateTimers
from tui.glyphs import Glyphs
from tui.marks import Line, line
from tui.widgets.key_row import KeyRow
from tui.widgets.tabs import Tabs
from tui.widgets.text_lines import Lines

WHOLE = (72, 24)  # columns, rows: from this size on every screen is complete
DEMO = "; bench demo shows a recording"  # for users without a run
LEAST = (60, 18)  # a smaller terminal shows the one figure that matters
WIDE_COLUMNS = 110
TALL_ROWS = 30
NOTICE_S = 10.0
MOST_WAITING = 20  # actions

Doing = tuple[str, Widget]  # an action, and the widget it belongs to


class NewestSize(LateTimers):
    """Settles a screen on its terminal's newest size, however fast that changes; a base that comes before `Screen`.

    Textual sends a screen each new size twice. A screen that lays itself out more slowly than its terminal changes
    would return to an older size on the second event, which sends both sizes again: it alternates between them for ever
    and keeps a CPU busy. The application's size is always the newest. To be proposed upstream: a screen ignores a
    `Resize` to a size that its application no longer has (https://github.com/Textualize/textual/issues).
    """

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Resize) and event.size != self.app.size:
            return
        await super().on_event(event)


class BenchScreen(NewestSize, Screen[None]):
    """A screen of the interface. Subclasses define `parts` (widgets) and `small` (the page of a small terminal).

    Textual calls the event handlers (`on_...`) of base classes too: a subclass only adds to them.
    """

    TITLE_WORD: ClassVar[str] = ""
    WHOLE: ClassVar[tuple[int, int]] = WHOLE  # size from which on this screen is complete
    LOOK_S: ClassVar[float] = 0.0  # interval of `look`; 0: only when the screen is opened
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE_COLUMNS, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-short"), (TALL_ROWS, "-tall")]  # noqa: RUF012
    DEFAULT_CSS = """
    BenchScreen { layout: vertical; overflow: hidden; }
    BenchScreen > #parts { height: 1fr; }
    BenchScreen > #notice { height: auto; max-height: 3; dock: bottom; margin-bottom: 1; }
    BenchScreen > #small { display: none; height: 1fr; }
    BenchScreen.-small > #small { display: block; }
    BenchScreen.-small > #parts, BenchScreen.-small > #keys, BenchScreen.-small > #notice { display: none; }
    BenchScreen.-least > #tabs { display: none; }
    """

    _notice: Timer | None = None  # until the notice goes
    _waiting: tuple[Doing, ...] = ()  # actions requested while the screen was still reading

    @property
    def bench(self) -> BenchApp:
        return cast("BenchApp", self.app)

    @property
    def context(self) -> Context:
        return self.bench.context

    @property
    def glyphs(self) -> Glyphs:
        return self.context.glyphs

    @property
    def rows(self) -> int:
        """Rows of the screen below the tabs."""
        return self.size.height - 1

    @property
    def unready(self) -> bool:
        """Whether the screen is still reading the rows that its keys act on; they wait for it."""
        return False

    def compose(self) -> ComposeResult:
        yield Tabs()
        yield Vertical(*self.parts(), id="parts")
        yield Lines(id="notice")
        yield KeyRow(id="keys")
        yield Lines(id="small")

    def parts(self) -> Sequence[Widget]:
        """The screen's own widgets, from top to bottom."""
        raise NotImplementedError

    def small(self) -> Sequence[Line]:
        """Lines shown in a terminal that is smaller than `WHOLE`."""
        return [line((self.TITLE_WORD, "strong"))]

    def look(self) -> None:
        """Read changes while the screen is open."""

    def draw(self) -> None:
        """Draw the rows as read, for the current size."""

    def on_mount(self) -> None:
        if self.LOOK_S:
            self.set_interval(self.LOOK_S, self.look)

    def on_resize(self, event: events.Resize) -> None:
        columns, rows = event.size
        self.set_class(columns < self.WHOLE[0] or rows < self.WHOLE[1], "-small")
        self.set_class(columns < LEAST[0] or rows < LEAST[1], "-least")
        self.refresh_small()
        self.draw()

    def on_screen_resume(self) -> None:
        self.query_one(Tabs).draw()
        self.refresh_small()
        self.look()

    def on_screen_suspend(self) -> None:
        """Drop waiting actions: a user who leaves a screen that is still reading no longer wants them."""
        self._waiting = ()

    def wait_with(self, doing: Doing) -> None:
        self._waiting = (*self._waiting, doing)[:MOST_WAITING]

    def catch_up(self) -> None:
        if self._waiting and not self.unready:
            waiting, self._waiting = self._waiting, ()
            self.call_later(self._do_all, waiting)

    async def _do_all(self, waiting: Sequence[Doing]) -> None:
        for action, widget in waiting:
            await self.app.run_action(action, widget)

    def hint(self, text: str) -> None:
        """Show what to do next, at the end of the top row."""
        tabs = self.query_one(Tabs)
        if tabs.hint != text:
            tabs.hint = text
            tabs.draw()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Forward events of the screen's workers to the application; Textual notifies only the screen."""
        self.bench.on_worker_state_changed(event)

    def fill(self, **parts: Sequence[Line]) -> None:
        for id, lines in parts.items():
            self.query_one(f"#{id}", Lines).show(lines)

    def refresh_small(self) -> None:
        if not self.has_class("-small"):
            return
        columns, rows = self.size
        over = 3 if self.has_class("-least") else 4  # the tabs, the required size, an empty row
        lines = list(self.small())[: max(1, rows - over)]
        if columns < LEAST[0] or rows < LEAST[1]:
            lines = [line(f"terminal too small (need {LEAST[0]}x{LEAST[1]}, have {columns}x{rows})"), *lines]
        else:
            notice = f"the whole screen needs {self.WHOLE[0]}x{self.WHOLE[1]}; have {columns}x{rows}"
            lines += [line(), line((notice, "dim"))]
        self.fill(small=lines)

    def notify_line(self, text: str, mark: str = "") -> None:
        """Show a line above the keys for a while, or until the next one; an empty line removes it."""
        if self._notice is not None:
            self._notice.stop()
        self._notice = self.set_timer(NOTICE_S, lambda: self.notify_line("")) if text else None
        # In up to three rows: the path of a written file is worth more than a row of the screen.
        rows = textwrap.wrap(text, max(20, self.size.width - 2))
        shown = [*rows[:2], " ".join(rows[2:])] if rows[2:] else rows
        for notice in self.query("#notice").results(Lines):  # absent while the screen is being closed
            notice.show([line((f" {row}", mark)) for row in shown])

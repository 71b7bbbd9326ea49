"""Lines that lie over a screen, page by page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen

from tui.keys import key
from tui.marks import Line, line
from tui.widgets.lines import Lines


class PagesScreen(ModalScreen[None]):
    """Shows lines under a title until it is closed."""

    DEFAULT_CSS = """
    PagesScreen { align: center middle; }
    PagesScreen > Vertical { width: 90%; max-width: 100; height: auto; max-height: 95%; border: ascii $primary;
                             padding: 0 1; }
    PagesScreen Lines { height: auto; }
    """
    BINDINGS: ClassVar[list[Binding]] = [  # type: ignore[assignment]
        key("escape,q,enter", "dismiss(None)", "close", "pages.close"),
        key("down,j", "go(1)", "a line further", "pages.down"),
        key("up,k", "go(-1)", "a line back", "pages.up"),
        key("space,pagedown", "page(1)", "a page further", "pages.further"),
        key("pageup", "page(-1)", "a page back", "pages.back"),
    ]

    def __init__(self, title: str, lines: Sequence[Line]) -> None:
        super().__init__()
        self._title_line = line((title, "strong"))
        self._lines = tuple(lines)
        self._top = 0

    def compose(self) -> ComposeResult:
        """The page."""
        yield Vertical(Lines(id="page"))

    def on_mount(self) -> None:
        """Shows the first page."""
        self.action_go(0)

    def on_resize(self) -> None:
        """Shows as many as fit now."""
        self.action_go(0)

    def action_page(self, pages: int) -> None:
        """Goes on by a page."""
        self.action_go(pages * self._rows())

    def action_go(self, lines: int) -> None:
        """Goes on by so many lines."""
        rows = self._rows()
        self._top = max(0, min(self._top + lines, len(self._lines) - rows))
        shown = self._lines[self._top : self._top + rows]
        more = len(self._lines) - self._top - len(shown)
        foot = f"esc closes, space goes on: {more} more" if more else "esc closes"
        self.query_one("#page", Lines).show([self._title_line, *shown, line((foot, "dim"))])

    def _rows(self) -> int:
        return max(3, self.app.size.height - 6)

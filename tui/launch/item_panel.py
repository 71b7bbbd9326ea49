"""A panel of the Launch screen: items in a grid with a cursor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding

from tui.keys import key
from tui.launch.choices import Item
from tui.launch.text import Grid, PanelForm, grid, place_of
from tui.widgets.text_lines import Lines


class Panel(Lines, can_focus=True):
    """A list of items with a cursor; calls `draw` when its focus, cursor or size changes."""

    BINDINGS: ClassVar[list[Binding]] = [  # type: ignore[assignment]
        key("up,k", "move(-1)", "up", "launch.up", show=False),
        key("down,j", "move(1)", "down", "launch.down", show=False),
        key("pageup", "page(-1)", "page up", "launch.page_up", show=False),
        key("pagedown", "page(1)", "page down", "launch.page_down", show=False),
        key("home", "page(-1000)", "first", "launch.first", show=False),
        key("end", "page(1000)", "last", "launch.last", show=False),
    ]

    def __init__(
        self, form: PanelForm, items: Callable[[], Sequence[Item]], draw: Callable[[Panel], object], *, id: str
    ) -> None:
        super().__init__(id=id, resized=self._draw_anew)
        self.form, self.items, self.draw = form, items, draw
        self.cursor = 0
        self.top = 0  # first visible row of the last paint

    def _draw_anew(self) -> None:
        self.top = 0  # with another size, scroll to the cursor anew
        self.draw(self)

    @property
    def item(self) -> Item | None:
        items = self.items()
        return items[min(self.cursor, len(items) - 1)] if items else None

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self.draw(self)

    def move_to(self, place: int) -> None:
        """Move the cursor to an item, or to the nearest one."""
        self.cursor = max(0, min(place, len(self.items()) - 1))
        self.draw(self)

    def action_move(self, rows: int) -> None:
        place = self.cursor + rows * self.grid[0]
        if 0 <= place < len(self.items()):
            self.move_to(place)

    def action_page(self, pages: int) -> None:
        rows = max(1, self.size.height - 2)  # less the title and one row
        self.move_to(self.cursor + pages * rows * self.grid[0])

    @property
    def grid(self) -> Grid:
        """Columns and visible rows; scrolls only when the cursor leaves them."""
        return grid(self.form, len(self.items()), self.cursor, *self.size, self.top)

    async def on_click(self, event: events.Click) -> None:
        place = place_of(self.form, self.items(), self.grid, self.size.width, event.x, event.y)
        if place is not None:
            self.move_to(place)
            await self.run_action("screen.choose")

    def on_mouse_scroll_down(self) -> None:
        self._turn(1)

    def on_mouse_scroll_up(self) -> None:
        self._turn(-1)

    def _turn(self, by: int) -> None:
        if self.form.inline:
            self.move_to(self.cursor + by)
        else:
            self.action_move(by)

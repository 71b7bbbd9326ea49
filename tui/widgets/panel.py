"""A part of a screen that the focus can be on: lines that are drawn anew when it comes, goes, or the size changes."""

from __future__ import annotations

from textual import events
from textual.message import Message

from tui.widgets.lines import Lines


class Panel(Lines, can_focus=True):
    """Lines with a place among its items; the screen draws it."""

    class Stale(Message):
        """It has to be drawn anew."""

        def __init__(self, panel: Panel) -> None:
            super().__init__()
            self.panel = panel

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.cursor = 0

    def on_focus(self) -> None:
        """The cursor appears."""
        self.post_message(self.Stale(self))

    def on_blur(self) -> None:
        """The cursor goes."""
        self.post_message(self.Stale(self))

    def on_resize(self, _: events.Resize) -> None:
        """Other lines may fit."""
        self.post_message(self.Stale(self))

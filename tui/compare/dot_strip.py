"""The dots of a comparison as a widget, laid out anew for every width."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events

from tui.compare.dots import DotRow, strips
from tui.glyphs import Glyphs
from tui.widgets.lines import Lines


class DotStrip(Lines):
    """One line per subject with a dot for every cell."""

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._glyphs = glyphs
        self._rows: tuple[DotRow, ...] = ()

    def show_rows(self, rows: Sequence[DotRow]) -> None:
        """Replaces what is shown."""
        self._rows = tuple(rows)
        self._draw()

    def on_resize(self, _: events.Resize) -> None:
        """Uses the room that there is now."""
        self._draw()

    def _draw(self) -> None:
        # Before the first layout there is no width: the screen's is near enough, and on_resize puts it right.
        self.show(strips(self._rows, self.size.width or self.app.size.width, self._glyphs))

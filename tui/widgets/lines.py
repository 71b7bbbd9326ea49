"""Lines of text that are replaced whole: the cheapest widget there is, and most of every screen."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from tui.marks import STYLES, Line, fit


class Lines(Widget):
    """Shows lines, cut to its width. A `show` of what is there already draws nothing."""

    DEFAULT_CSS = "Lines { height: auto; }"

    def __init__(self, lines: Sequence[Line] = (), *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.lines: tuple[Line, ...] = tuple(lines)

    def show(self, lines: Sequence[Line]) -> None:
        """Replaces the lines."""
        new = tuple(lines)
        if new != self.lines:
            taller = len(new) != len(self.lines)
            self.lines = new
            self.refresh(layout=taller and self.styles.is_auto_height)

    def get_content_height(self, *_: object) -> int:
        """One row a line."""
        return len(self.lines)

    def render_line(self, y: int) -> Strip:
        """Row `y` of the widget."""
        cells = self.size.width
        base = self.rich_style
        if y >= len(self.lines):
            return Strip.blank(cells, base)
        return strip(fit(self.lines[y], cells), cells, base, self.app.theme)


def strip(spans: Line, cells: int, base: Style, theme: str) -> Strip:
    """A line as a strip of so many cells."""
    styles = STYLES.get(theme, STYLES["bench-mono"])
    segments = [Segment(text, base + styles[mark]) for text, mark in spans]
    return Strip(segments).adjust_cell_length(cells, base)

"""Lines of text that are replaced whole: the cheapest widget there is, and most of every screen."""

from collections.abc import Callable, Sequence

from rich.segment import Segment
from textual import events
from textual.strip import Strip
from textual.widget import Widget

from engine.core.text import visible
from tui.marks import STYLES, Line, fit


class Lines(Widget):
    """Shows lines, cut to its width. A `show` of what is there already draws nothing.

    `resized` is called when its size is known or changes, for what is laid out by that; `clicked` with the row that was
    clicked, `turned` with 1 or -1 where the wheel was.
    """

    DEFAULT_CSS = "Lines { height: auto; }"

    def __init__(
        self,
        lines: Sequence[Line] = (),
        *,
        id: str | None = None,
        resized: Callable[[], object] = lambda: None,
        clicked: Callable[[int], object] = lambda _: None,
        turned: Callable[[int], object] = lambda _: None,
    ) -> None:
        super().__init__(id=id)
        self.lines: tuple[Line, ...] = tuple(lines)
        self._resized, self._clicked, self._turned = resized, clicked, turned

    def on_resize(self) -> None:
        self._resized()

    async def on_click(self, event: events.Click) -> None:
        self._clicked(event.y)

    def on_mouse_scroll_down(self) -> None:
        self._turned(1)

    def on_mouse_scroll_up(self) -> None:
        self._turned(-1)

    def show(self, lines: Sequence[Line]) -> None:
        """Replaces the lines."""
        new = tuple(lines)
        if new != self.lines:
            taller = len(new) != len(self.lines)
            self.lines = new
            self.refresh(layout=taller and self.styles.is_auto_height)

    def get_content_height(self, *_: object) -> int:
        return len(self.lines)

    def render_line(self, y: int) -> Strip:
        return strip(self, self.lines[y] if y < len(self.lines) else ())


def strip(widget: Widget, spans: Line) -> Strip:
    """A line as wide as its widget. Whatever a record holds, no control character reaches the terminal."""
    cells, base = widget.size.width, widget.rich_style
    styles = STYLES[widget.app.theme]
    segments = [Segment(visible(text), base + styles[mark]) for text, mark in fit(spans, cells)]
    return Strip(segments).adjust_cell_length(cells, base)

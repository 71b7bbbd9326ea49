"""A list of any length, which draws only the visible rows. The wheel scrolls it, a click chooses a row."""

from collections.abc import Callable

from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui.marks import Line
from tui.widgets.text_lines import Plain


class Rows(ScrollView, Plain, can_focus=True, inherit_bindings=False):
    """`draw` returns the row at an index. The cursor and the keys that move it are the screen's."""

    DEFAULT_CSS = """
    Rows { height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 0; background: $background; }
    """

    class Clicked(Message):
        def __init__(self, place: int, twice: bool) -> None:
            super().__init__()
            self.place = place
            self.twice = twice

    def __init__(self, draw: Callable[[int], Line], *, id: str) -> None:
        super().__init__(id=id)
        self._draw = draw
        self._cursor = 0
        self._drawn: dict[int, Line] = {}  # by index, rows drawn since the last `show`
        self._seen: tuple[object, ...] = ()  # the first visible row, and the sizes, when rows were last drawn

    def show(self, count: int, cursor: int) -> None:
        """Draw the rows that have changed, and scroll to the cursor if it has moved."""
        self.virtual_size = Size(self.size.width, count)
        if cursor != self._cursor or cursor >= count:
            self._cursor = cursor
            self.scroll_to_region(Region(0, cursor, 1, 1), animate=False, force=True)
        seen = range(self.top, self.top + self.size.height)
        before, self._drawn = self._drawn, {place: self._draw(place) for place in seen if place < count}
        if self._moved():
            self.refresh()
        else:
            places = (place for place in seen if before.get(place) != self._drawn.get(place))
            if regions := [Region(0, place - self.top, self.size.width, 1) for place in places]:
                self.refresh(*regions)

    @property
    def top(self) -> int:
        return self.scroll_offset.y

    def render_line(self, y: int) -> Strip:
        place = self.top + y
        if place >= self.virtual_size.height:
            return self.strip(())
        if self._moved():
            self._drawn.clear()
        if place not in self._drawn:
            self._drawn[place] = self._draw(place)
        return self.strip(self._drawn[place])

    def _moved(self) -> bool:
        """Whether the visible rows or the size have changed."""
        before, self._seen = self._seen, (self.top, self.size, self.app.size)
        return self._seen != before

    def on_click(self, event: events.Click) -> None:
        place = self.top + event.y
        if place < self.virtual_size.height:
            self.post_message(self.Clicked(place, twice=event.chain == 2))

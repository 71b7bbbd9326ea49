"""The top row: the five screens with their keys, the open one in brackets. A click opens another."""

from textual import events

from tui import MODES
from tui.marks import Span, width
from tui.widgets.text_lines import Lines


class Tabs(Lines):
    """`hint`, at the right end if there is room, says what to do next."""

    DEFAULT_CSS = "Tabs { height: 1; dock: top; }"

    def __init__(self) -> None:
        super().__init__(id="tabs", resized=self.draw)
        self.hint = ""
        self._places: list[tuple[int, str]] = []  # end of each tab, and its screen
        self._lit = ""  # the one under the mouse

    def draw(self) -> None:
        pressed = {mode: str(number) for number, mode in enumerate(MODES, 1)}
        front = self.app.current_mode
        words = {mode: f"{pressed[mode]} {mode.capitalize()}" for mode in MODES}
        if sum(len(word) + 2 for word in words.values()) > self.size.width:
            words |= {mode: pressed[mode] for mode in MODES if mode != front}
        spans: list[Span] = []
        self._places = []
        for mode, word in words.items():
            at = mode == front
            mark = "title" if at else "cursor" if mode == self._lit else ""
            spans += [("[" if at else " ", "key"), (word, mark), ("]" if at else " ", "key")]
            self._places.append((width(tuple(spans)), mode))
        room = self.size.width - width(tuple(spans)) - len(self.hint) - 2
        if self.hint and room >= 0:
            spans += [(" " * (room + 1), ""), (self.hint, "chosen")]
        self.show([tuple(spans)])

    async def on_click(self, event: events.Click) -> None:
        if mode := self._under(event.x):
            self.app.call_later(self.app.run_action, f"open('{mode}')")

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self._light(self._under(event.x))

    def on_leave(self) -> None:
        self._light("")

    def _under(self, x: int) -> str:
        return next((mode for end, mode in self._places if x < end), "")

    def _light(self, mode: str) -> None:
        if mode != self._lit:
            self._lit = mode
            self.draw()

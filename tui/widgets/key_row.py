"""The last row: as many keys as fit, each clickable and lit under the mouse.

It is one widget: the framework's footer has one per key, which took a fifth of the time to the first paint.
"""

from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding
from textual.screen import Screen

from tui.marks import Span
from tui.widgets.text_lines import Lines

EDGE, BETWEEN = 1, 2  # cells: left of the first key, right of each
ALWAYS = "app."  # prefix of the ids of keys that are always shown: help and the way out


@dataclass(frozen=True, slots=True)
class ShownKey:
    """A key in the row; `place` is its column."""

    key: str
    display: str
    description: str
    action: str
    place: int

    @property
    def end(self) -> int:
        return self.place + len(self.display) + 1 + len(self.description)


class KeyRow(Lines):
    """Leaves out the bindings of `hidden` (ids) and the last ones without room; they work all the same."""

    ALLOW_SELECT: ClassVar[bool] = False
    DEFAULT_CSS = "KeyRow { dock: bottom; height: 1; }"

    def __init__(self, *, id: str | None = None, edge: int = EDGE) -> None:
        super().__init__(id=id, resized=self.draw)
        self.hidden: tuple[str, ...] = ()
        self.keys: tuple[ShownKey, ...] = ()
        self._edge = edge
        self._lit = ""  # action of the key under the mouse

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._bindings_changed)

    def on_unmount(self) -> None:
        self.screen.bindings_updated_signal.unsubscribe(self)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if under := self._under(event.x):
            self.app.simulate_key(under.key)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        under = self._under(event.x)
        self._light(under.action if under else "")

    def on_leave(self) -> None:
        self._light("")

    def _under(self, x: int) -> ShownKey | None:
        return next((key for key in self.keys if key.place <= x < key.end), None)

    def _light(self, action: str) -> None:
        if action != self._lit:
            self._lit = action
            self.draw()

    def hide(self, *ids: str) -> None:
        if ids != self.hidden:
            self.hidden = ids
            self.draw()

    def draw(self) -> None:
        spans: list[Span] = []
        keys: list[ShownKey] = []
        place, end = self._edge, 0
        for binding in self._fitting():
            display = self.app.get_key_display(binding)
            keys.append(ShownKey(binding.key, display, binding.description, binding.action, place))
            # No blanks after the last, or a row that just fits would be cut.
            spans += [(" " * (place - end), "")]
            if binding.action == self._lit:
                spans += [(f"{display} {binding.description}", "cursor")]
            else:
                spans += [(display, "key"), (f" {binding.description}", "")]
            end = keys[-1].end
            place = end + BETWEEN
        self.keys = tuple(keys)
        self.show([tuple(spans)])

    def _bindings_changed(self, screen: Screen[object]) -> None:
        if self.is_attached and screen is self.screen:
            self.draw()

    def _fitting(self) -> list[Binding]:
        bindings: dict[str, Binding] = {}
        for active in self.screen.active_bindings.values():
            if active.enabled and active.binding.show and active.binding.id not in self.hidden:
                bindings.setdefault(active.binding.action, active.binding)
        room = (self.size.width or self.app.size.width) - self._edge + BETWEEN
        room -= sum(map(self._cells, bindings.values()))
        for action, binding in reversed(list(bindings.items())):
            if room >= 0:
                break
            if not (binding.id or "").startswith(ALWAYS):
                room += self._cells(bindings.pop(action))
        return list(bindings.values())

    def _cells(self, binding: Binding) -> int:
        return len(self.app.get_key_display(binding)) + 1 + len(binding.description) + BETWEEN

"""A search line below a list, which narrows while you type. Enter keeps the selection, escape undoes it."""

from typing import ClassVar

from textual.binding import Binding
from textual.message import Message
from textual.widgets import Input

from tui.keys import key


class FindLine(Input, inherit_bindings=True):
    """Shown by `begin`; up and down move in the list meanwhile."""

    BINDINGS: ClassVar[list[Binding]] = [  # type: ignore[assignment]
        key("enter", "submit", "to the list", "find.take"),
        key("escape", "give_up", "all again", "find.give_up"),
        key("up", "move(-1)", "up", "find.up", show=False),
        key("down", "move(1)", "down", "find.down", show=False),
    ]

    class Typed(Message):
        """The text has changed; `ended` says that typing is over."""

        def __init__(self, text: str, *, ended: bool) -> None:
            super().__init__()
            self.text = text
            self.ended = ended

    class Moved(Message):
        def __init__(self, by: int) -> None:
            super().__init__()
            self.by = by

    def __init__(self) -> None:
        super().__init__(
            placeholder="part of a name; enter goes to the list, escape shows all again", id="find", compact=True
        )

    def begin(self, text: str) -> None:
        self.value = text
        self.cursor_position = len(text)
        self.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.has_focus:
            self.post_message(self.Typed(self.value.strip(), ended=False))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Typed(self.value.strip(), ended=True))

    def action_give_up(self) -> None:
        self.value = ""
        self.post_message(self.Typed("", ended=True))

    def action_move(self, by: int) -> None:
        self.post_message(self.Moved(by))

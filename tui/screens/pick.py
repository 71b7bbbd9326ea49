"""Choosing from a list that lies over a screen: one of it, or which of it."""

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

Option = tuple[str, str]  # what is given back, what is shown


class _List(ModalScreen[tuple[str, ...]]):
    """A list with a cursor; what is chosen is given back, nothing when it is left by esc."""

    DEFAULT_CSS = """
    _List { align: center middle; }
    _List > Vertical { width: auto; min-width: 40; max-width: 76; height: auto; max-height: 90%;
                       border: ascii $primary; padding: 0 1; }
    _List Lines { height: auto; width: 72; }
    """
    BINDINGS: ClassVar[list[Binding]] = [  # type: ignore[assignment]
        key("up,k", "move(-1)", "up", "pick.up"),
        key("down,j", "move(1)", "down", "pick.down"),
        key("escape,q", "leave", "leave as it is", "pick.leave"),
    ]
    FOOT: ClassVar[str] = ""

    def __init__(self, question: str, options: Sequence[Option], at: str = "") -> None:
        super().__init__()
        self.question = question
        self.options = tuple(options)
        names = [name for name, _ in self.options]
        self.place = names.index(at) if at in names else 0

    def compose(self) -> ComposeResult:
        """The list."""
        yield Vertical(Lines(id="list"))

    def on_mount(self) -> None:
        """Draws it."""
        self.draw()

    def sign(self, name: str) -> str:
        """What stands before an option."""
        raise NotImplementedError

    def draw(self) -> None:
        """The options around the cursor, as many as there is room for."""
        rows = max(3, self.app.size.height - 7)
        top = max(0, min(self.place - rows // 2, len(self.options) - rows))
        lines: list[Line] = [line((self.question, "strong"))]
        for place, (name, words) in enumerate(self.options[top : top + rows], top):
            text = f"{'>' if place == self.place else ' '} {self.sign(name)}{words}"
            lines.append(line((text.ljust(72), "cursor" if place == self.place else "")))
        self.query_one("#list", Lines).show([*lines, line((self.FOOT, "dim"))])

    def action_move(self, by: int) -> None:
        """Moves the cursor, round at the ends."""
        self.place = (self.place + by) % len(self.options)
        self.draw()

    def action_leave(self) -> None:
        """Gives nothing back."""
        self.dismiss(())


class PickScreen(_List):
    """One of a list: the tuple that is given back holds it alone."""

    BINDINGS: ClassVar[list[Binding]] = [key("enter,space", "take", "take it", "pick.take")]
    FOOT: ClassVar[str] = "enter takes it, esc leaves it as it is"

    def sign(self, name: str) -> str:
        """Nothing: the cursor is the choice."""
        return ""

    def action_take(self) -> None:
        """Gives the one under the cursor back."""
        self.dismiss((self.options[self.place][0],))


class TickScreen(_List):
    """Some of a list, at least one, in the list's order."""

    BINDINGS: ClassVar[list[Binding]] = [
        key("space,x", "tick", "choose or not", "pick.tick"),
        key("a", "all", "all, or the first alone", "pick.all"),
        key("enter", "take", "take these", "pick.take"),
    ]
    FOOT: ClassVar[str] = "space chooses, a all, enter takes these, esc leaves it as it is"

    def __init__(self, question: str, options: Sequence[Option], chosen: Sequence[str]) -> None:
        super().__init__(question, options)
        self.chosen = set(chosen)

    def sign(self, name: str) -> str:
        """Whether it is chosen."""
        return "[x] " if name in self.chosen else "[ ] "

    def action_tick(self) -> None:
        """Chooses the one under the cursor, or no longer."""
        self.chosen ^= {self.options[self.place][0]}
        self.draw()

    def action_all(self) -> None:
        """All of them; the first alone where all are chosen."""
        names = [name for name, _ in self.options]
        self.chosen = set(names[:1]) if self.chosen >= set(names) else set(names)
        self.draw()

    def action_take(self) -> None:
        """Gives the chosen back; with none chosen it stays open."""
        if self.chosen:
            self.dismiss(tuple(name for name, _ in self.options if name in self.chosen))

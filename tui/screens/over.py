"""What lies over a screen for a moment: its keys, a question, letters to jump by, a line to type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen, Screen
from textual.widgets import Input

from tui.keys import key
from tui.marks import Line, line
from tui.screens.base import KEY_WORDS, Jump
from tui.widgets.lines import Lines


class _Over(ModalScreen[bool]):
    DEFAULT_CSS = """
    _Over { align: center middle; }
    _Over > Vertical { width: 96%; max-width: 76; height: auto; max-height: 90%; border: ascii $primary; padding: 0 1; }
    _Over Lines { height: auto; }
    """


class KeysScreen(_Over):
    """Every key of a screen with its words and its id."""

    BINDINGS: ClassVar[list[Binding]] = [  # type: ignore[assignment]
        key("escape,q,question_mark,enter", "dismiss(False)", "close", "over.close"),
        key("down,j,space,pagedown", "page(1)", "further", "over.down"),
        key("up,k,pageup", "page(-1)", "back", "over.up"),
    ]

    def __init__(self, of: Screen[object]) -> None:
        super().__init__()
        self._lines = _key_lines(of)
        self._top = 0

    def compose(self) -> ComposeResult:
        """The list."""
        yield Vertical(Lines(id="list"))

    def on_mount(self) -> None:
        """Shows the first page."""
        self.action_page(0)

    def action_page(self, pages: int) -> None:
        """Goes on by a page."""
        rows = max(3, self.app.size.height - 6)
        self._top = max(0, min(self._top + pages * rows, len(self._lines) - rows))
        shown = self._lines[self._top : self._top + rows]
        more = len(self._lines) - self._top - len(shown)
        foot = f"esc closes, space goes on: {more} more" if more else "esc closes"
        self.query_one("#list", Lines).show([*shown, line((foot, "dim"))])


def _key_lines(of: Screen[object]) -> list[Line]:
    rows: dict[str, tuple[list[str], str]] = {}
    for active in of.active_bindings.values():
        binding = active.binding
        if binding.id is not None:
            rows.setdefault(binding.id, ([], binding.description))[0].append(binding.key)
    own = sorted((id for id in rows if not id.startswith("app.")), key=list(rows).index)
    lines = [line(("keys of this screen", "strong"))]
    for id in [*own, *(id for id in rows if id.startswith("app."))]:
        if id == "app.launch":
            lines.append(line(("everywhere", "strong")))
        pressed, words = rows[id]
        shown = " ".join(KEY_WORDS.get(name, name) for name in pressed)
        # An id that is cut could not be given another key: rather the words are.
        lines.append(line((f"{shown:<15}", "key"), f" {words[:34]:<34}", (f" {id}", "dim")))
    lines.append(line((f"{'ctrl+p':<15}", "key"), " all of these by name (palette)"))
    return lines


class AskScreen(_Over):
    """A question that is answered by y or n."""

    BINDINGS: ClassVar[list[Binding]] = [  # type: ignore[assignment]
        key("y", "dismiss(True)", "yes", "over.yes"),
        key("n,escape,q", "dismiss(False)", "no", "over.no"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """The question."""
        yield Vertical(
            Lines(
                [
                    *(line(part) for part in _folded(self._question, 68)),
                    line(("y", "key"), " yes  ", ("n", "key"), " no"),
                ]
            )
        )


class LineScreen(ModalScreen[str]):
    """A line to type: dismissed with what was typed, which may be nothing, or with None for escape."""

    DEFAULT_CSS = """
    LineScreen { align: center middle; }
    LineScreen > Vertical { width: 90%; max-width: 76; height: auto; border: ascii $primary; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[Binding]] = [key("escape", "dismiss(None)", "cancel", "over.cancel")]  # type: ignore[assignment]

    def __init__(self, question: str, value: str = "") -> None:
        super().__init__()
        self._question = question
        self._value = value

    def compose(self) -> ComposeResult:
        """The question and the line."""
        yield Vertical(
            Lines([line((self._question, "strong"))]),
            Input(self._value, id="typed", compact=True),  # with a border there is no row left for the text
            Lines([line(("enter takes it, esc does not", "dim"))]),
        )

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Takes the line."""
        self.dismiss(event.value.strip())


class JumpScreen(ModalScreen[None]):
    """Letters over the parts of a screen, or its rows; pressing one goes there."""

    DEFAULT_CSS = """
    JumpScreen { background: transparent; }
    JumpScreen > Lines { width: 3; height: 1; position: absolute; }
    """

    def __init__(self, jumps: Sequence[Jump]) -> None:
        super().__init__()
        self._jumps = jumps

    def compose(self) -> ComposeResult:
        """A letter at each place."""
        for jump in self._jumps:
            label = Lines([line((f" {jump.letter} ", "cursor"))])
            label.styles.offset = (jump.x, jump.y)
            yield label

    def on_key(self, event: events.Key) -> None:
        """Goes there; any other key goes nowhere."""
        event.stop()
        self.dismiss(None)
        for jump in self._jumps:
            if event.character == jump.letter:
                jump.go()


def _folded(text: str, cells: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) + 1 > cells and lines[-1]:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines

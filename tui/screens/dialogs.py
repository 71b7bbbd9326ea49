"""Dialogs over a screen: a question, a line to type, a list to pick from, lines to read."""

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Input, Label, OptionList

from engine.core.errors import UserError
from engine.core.text import visible
from tui import glossary, keys
from tui.context import Answer
from tui.keys import key
from tui.marks import Line, folded, hanging, line
from tui.screens.bench_screen import NewestSize
from tui.widgets.key_row import KeyRow
from tui.widgets.text_lines import Lines

MOVES = ("up", "down", "left", "right", "pageup", "pagedown", "home", "end")
WORD_CELLS, HELP_CELLS = 16, 70  # of the help: its left column, and the whole row

Choice = tuple[str, str]  # value, and its display text


class Dialog(NewestSize, ModalScreen[Answer]):
    """A box with a title, `parts` and its keys."""

    DEFAULT_CSS = """
    Dialog { align: center middle; }
    Dialog > Vertical { width: 96%; max-width: 76; height: auto; max-height: 95%; }
    Dialog > Vertical { border: round $primary; padding: 0 1; }
    Dialog > Vertical > Label { width: 100%; text-style: bold; }
    Dialog KeyRow { dock: none; width: 100%; }
    Dialog > Vertical > VerticalScroll { height: auto; scrollbar-size-vertical: 1; }
    Dialog > Vertical > OptionList { background: $background; }
    """

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title_text = visible(title)

    def parts(self) -> Iterable[Widget]:
        return ()

    def compose(self) -> ComposeResult:
        yield Vertical(Label(self._title_text, markup=False, id="title"), *self.parts(), KeyRow(edge=0))

    def on_resize(self) -> None:
        for part in self.query("VerticalScroll, OptionList"):
            part.styles.max_height = max(3, self.app.size.height - 8)


class AskScreen(Dialog[bool]):
    """A question; True if the answer is y, else None."""

    BINDINGS: ClassVar[list[Binding]] = [  # type: ignore[assignment]
        key("y", "dismiss(True)", "yes", "dialog.yes"),
        key("n,escape,q", "dismiss(None)", "no", "dialog.no"),
    ]


class LineScreen(Dialog[str]):
    """A line to type; escape answers None, and so does an empty line unless it may be `empty`.

    Text for which `check` raises UserError stays for correction, with the error below it (`wrong` at first). `forms`
    describes valid text. Typing replaces `value`.
    """

    ALLOW_SELECT = False  # a click that selects text would deselect the line, and typing would add to it
    BINDINGS: ClassVar[list[Binding]] = [key("escape", "dismiss(None)", "cancel", "dialog.cancel")]  # type: ignore[assignment]

    def __init__(
        self,
        question: str,
        value: str = "",
        *,
        empty: bool = False,
        check: Callable[[str], object] = lambda _: None,
        wrong: str = "",
        forms: str = "",
    ) -> None:
        super().__init__(question)
        self._value = visible(value)
        self._empty = empty
        self._check = check
        self._wrong = wrong
        self._forms = forms

    def parts(self) -> Iterable[Widget]:
        # A border would leave no row for the text.
        typed = Input(self._value, id="typed", compact=True)
        typed.cursor_blink = False  # it must be visible at once
        return [typed, Lines(id="wrong", resized=self._show_notes)]

    def on_mount(self) -> None:
        self._show_notes()

    def _show_notes(self) -> None:
        below = self.query_one("#wrong", Lines)
        texts = ((self._forms, "dim"), (visible(self._wrong), "warning"))
        cells = below.size.width or HELP_CELLS
        below.show([row for text, mark in texts if text for row in folded(text, cells, mark, 0)])

    def on_input_submitted(self, event: Input.Submitted) -> None:
        typed = event.value.strip()
        if not typed and not self._empty:
            self.dismiss(None)
            return
        try:
            self._check(typed)
        except UserError as error:
            self._wrong = f"? {error}"
            self._show_notes()
        else:
            self.dismiss(typed)


class PagesScreen(Dialog[None]):
    DEFAULT_CSS = "PagesScreen > Vertical { width: 90%; max-width: 100; }"
    BINDINGS: ClassVar[list[Binding]] = [  # type: ignore[assignment]
        key("escape,q,enter", "dismiss(None)", "close", "pages.close"),
        key("down,j", "scroll('down')", "further", "pages.down"),
        key("up,k", "scroll('up')", "back", "pages.up"),
        key("space,pagedown", "scroll('page_down')", "page down", "pages.further"),
        key("pageup", "scroll('page_up')", "page up", "pages.back", show=False),
    ]

    def __init__(self, title: str, lines: Sequence[Line]) -> None:
        super().__init__(title)
        self._lines = lines

    def parts(self) -> Iterable[Widget]:
        return [VerticalScroll(Lines(self._lines, id="read"), can_focus=False), Lines(id="more")]

    def on_mount(self) -> None:
        self.watch(self.query_one(VerticalScroll), "scroll_y", self._count)

    def on_resize(self) -> None:
        self.call_after_refresh(self._count)

    def _count(self) -> None:
        shown = self.query_one(VerticalScroll)
        below = len(self._lines) - round(shown.scroll_y) - shown.size.height
        self.query_one("#more", Lines).show([line((f"{below} more" if below > 0 else "", "dim"))])

    def action_scroll(self, how: str) -> None:
        getattr(self.query_one(VerticalScroll), f"scroll_{how}")(animate=False)


class HelpScreen(PagesScreen):
    """The keys of a screen; on a second page the meaning of its figures."""

    DEFAULT_CSS = "HelpScreen > Vertical { width: 96%; max-width: 76; }"
    BINDINGS: ClassVar[list[Binding]] = [key("question_mark,tab", "turn", "keys or figures", "help.turn", shown="?")]

    def __init__(self, of: Screen[object], text: str) -> None:
        self._sides = (("keys of this screen; ? again: the meaning of its figures", _key_lines(of)),
                       ("figures on this screen; ? again: its keys", _word_lines(text)))  # fmt: skip
        self._side = 0
        super().__init__(*self._sides[0])

    def action_turn(self) -> None:
        self._side = 1 - self._side
        title, self._lines = self._sides[self._side]
        self.query_one("#title", Label).update(title)
        self.query_one("#read", Lines).show(self._lines)
        self.query_one(VerticalScroll).scroll_home(animate=False)
        self.call_after_refresh(self._count)


def _word_lines(text: str) -> list[Line]:
    lines: list[Line] = []
    for entry in glossary.words_on(text):
        lines += hanging((f"{entry.term:<{WORD_CELLS}} ", "key"), entry.meaning, HELP_CELLS)
    return lines or [line(("no figure is on this screen", "dim"))]


def _key_lines(of: Screen[object]) -> list[Line]:
    lines: list[Line] = []
    rows = keys.holding(of)

    def use(id: str) -> int:
        """Sort the last row's keys first, then movement, then the keys of all screens."""
        active, pressed = rows[id]
        return 3 if id.startswith("app.") else 2 if pressed[0] in MOVES else int(not active.binding.show)

    for id in sorted(rows, key=use):
        if id == "app.launch":
            lines.append(line(("everywhere", "strong")))
        active, pressed = rows[id]
        lines.append(line((f"{' '.join(pressed):<15}", "key"), f" {active.binding.description}"))
    lines.append(line((f"{'ctrl+p':<15}", "key"), " all of these by name (palette)"))
    return lines


class _Choices(OptionList, inherit_bindings=False):
    """A list without keys for enter and space, which belong to the screen."""

    BINDINGS: ClassVar[list[Binding]] = [  # type: ignore[assignment]
        key("up,k", "cursor_up", "up", "pick.up", show=False),
        key("down,j", "cursor_down", "down", "pick.down", show=False),
        key("pageup", "page_up", "page up", "pick.page_up", show=False),
        key("pagedown", "page_down", "page down", "pick.page_down", show=False),
        key("home", "first", "first", "pick.first", show=False),
        key("end", "last", "last", "pick.last", show=False),
    ]


class PickScreen(Dialog[tuple[str, ...]]):
    """A list to pick from; the answer is a tuple of one value."""

    CLICKED: ClassVar[str] = "take"  # the action of a click on a choice

    BINDINGS: ClassVar[list[Binding]] = [  # type: ignore[assignment]
        key("enter,space", "take", "select", "pick.take"),
        key("escape,q", "dismiss(None)", "cancel", "pick.leave"),
    ]

    def __init__(self, question: str, choices: Sequence[Choice], at: str = "") -> None:
        super().__init__(question)
        self.choices = tuple(choices)
        self._at = next((place for place, (name, _) in enumerate(self.choices) if name == at), 0)

    def parts(self) -> Iterable[Widget]:
        self.list = _Choices(*map(self.words, range(len(self.choices))), compact=True, markup=False)
        return [self.list]

    def on_mount(self) -> None:
        self.list.highlighted = self._at

    def words(self, place: int) -> str:
        name, words = self.choices[place]
        return f"{'>' if place == self._at else ' '} {self.sign(name)}{visible(words)}"

    def sign(self, name: str) -> str:
        return ""

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        before, self._at = self._at, event.option_index
        self.show(before, self._at)

    def show(self, *places: int) -> None:
        for place in places:
            self.list.replace_option_prompt_at_index(place, self.words(place))

    async def on_option_list_option_selected(self) -> None:
        await self.run_action(self.CLICKED)

    def action_take(self) -> None:
        self.dismiss((self.choices[self._at][0],))


class ThemeScreen(PickScreen):
    """Themes to pick from; the one at the cursor is shown."""

    def __init__(self, names: Sequence[str], at: str) -> None:
        super().__init__("theme", [(name, name) for name in names], at)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        self.app.theme = self.choices[event.option_index][0]


class TickScreen(PickScreen, inherit_bindings=False):
    """A list to tick some of, at least one; Textual's SelectionList shows a tick by colour alone."""

    CLICKED: ClassVar[str] = "tick"
    BINDINGS: ClassVar[list[Binding]] = [
        key("space,x", "tick", "select or not", "pick.tick"),
        key("a", "all", "all or one", "pick.all"),
        key("enter", "take", "apply", "pick.take_all"),
        key("escape,q", "dismiss(None)", "cancel", "pick.leave_all"),
    ]

    def __init__(self, question: str, choices: Sequence[Choice], chosen: Iterable[str]) -> None:
        super().__init__(question, choices)
        self.chosen = set(chosen)

    def sign(self, name: str) -> str:
        return "[x] " if name in self.chosen else "[ ] "

    def action_tick(self) -> None:
        self.chosen ^= {self.choices[self._at][0]}
        self.show(self._at)

    def action_all(self) -> None:
        names = [name for name, _ in self.choices]
        self.chosen = set(names[:1]) if self.chosen >= set(names) else set(names)
        self.show(*range(len(names)))

    def action_take(self) -> None:
        if self.chosen:
            self.dismiss(tuple(name for name, _ in self.choices if name in self.chosen))

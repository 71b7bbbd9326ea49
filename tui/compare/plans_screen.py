"""Statements whose plan differs from the baseline's, and the two plans of one side by side."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding

from engine.results.comparison import ComparedSubject as Subject
from engine.results.comparison import Comparison
from engine.results.section import Section
from tui.compare.comparison_table import RowKey
from tui.glyphs import Glyphs
from tui.keys import key
from tui.marks import Line, cut, folded, line, rule, side_by_side
from tui.screens.bench_screen import BenchScreen
from tui.widgets.text_lines import Lines

MOST_STATEMENTS = {"-short": 5, "-tall": 12}  # visible at once
MARK_CELLS = 2


class PlansScreen(BenchScreen):
    """The changed plans of a subject, the chosen step's statement first."""

    TITLE_WORD: ClassVar[str] = "PLANS"
    DEFAULT_CSS = "PlansScreen #plans { height: 1fr; }"
    BINDINGS: ClassVar[list[Binding]] = [  # type: ignore[assignment]
        key("up,k", "move(-1)", "statement above", "plans.up", show=False),
        key("down,j", "move(1)", "statement below", "plans.down", shown="up/down"),
        key("pagedown,space", "page(1)", "further", "plans.further", shown="pgdn"),
        key("pageup", "page(-1)", "back up", "plans.back_up", show=False),
        key("escape", "app.leave", "back", "plans.back"),
    ]

    def __init__(self, comparison: Comparison, row: RowKey, subject: Subject) -> None:
        super().__init__()
        self._base, self._subject = comparison.baseline_of(subject.name), subject.name
        self._changes = comparison.changed_plans(subject.name)
        of_step = (place for place, change in enumerate(self._changes) if change.rows[0].step == row.step)
        self._cursor = next(of_step, 0)
        self._top = 0

    def parts(self) -> Sequence[Lines]:
        statements = Lines(id="statements", turned=self.action_move)
        return [Lines(id="title"), statements, Lines(id="of"), Lines(id="plans", resized=self.draw)]

    def small(self) -> Sequence[Line]:
        return [line((self.TITLE_WORD, "strong")), *folded(_sentence(self.change), self.size.width)]

    @property
    def change(self) -> Section:
        return self._changes[self._cursor]

    def action_move(self, by: int) -> None:
        self._cursor = max(0, min(self._cursor + by, len(self._changes) - 1))
        self._top = 0
        self.draw()

    def action_page(self, pages: int) -> None:
        height = max(1, self.query_one("#plans").size.height)
        last = max(0, len(self._about()) - height)
        self._top = max(0, min(self._top + pages * max(1, height - 1), last))
        self.draw()

    def draw(self) -> None:
        columns, glyphs, many = self.size.width, self.glyphs, len(self._changes)
        room = min(many, MOST_STATEMENTS["-tall" if self.has_class("-tall") else "-short"])
        first = max(0, min(self._cursor - room // 2, many - room))
        title = f" {self._subject} against {self._base}: {many} changed plan{'s' if many > 1 else ''}"
        of, below = f"{self.change.title.partition(' (')[0]}, rows estimated", many - first - room
        self.fill(
            title=[line((f" {self.TITLE_WORD} ", "title"), title)],
            statements=[self._statement(place) for place in range(first, first + room)],
            of=[rule(of, columns, glyphs, f"{below} more statements" if below > 0 else "")],
            plans=self._about()[self._top :],
        )
        self.refresh_small()

    def _statement(self, place: int) -> Line:
        chosen, change = place == self._cursor, self._changes[place]
        text = cut(f"{'>' if chosen else ' '}{_sentence(change)}", self.size.width, self.glyphs)
        return line((text, "cursor" if chosen else ""))

    def _about(self) -> list[Line]:
        return [
            *folded(_sentence(self.change), self.size.width, "strong"),
            *plans(self.change, self.size.width, self.glyphs),
        ]


def _sentence(change: Section) -> str:
    return change.findings[0].removeprefix("plan changed: ")


def plans(change: Section, columns: int, glyphs: Glyphs) -> list[Line]:
    """Two plans side by side: nodes that differ, or that only one plan has, are marked."""
    wide = (columns - 1) // 2
    _, base, subject = (column.name for column in change.columns)
    left, right = [line(" " * MARK_CELLS, (base, "base"))], [line(" ", (subject, "rate"))]
    for row in change.rows:
        before, after = (_spelled(str(node), glyphs) for node in row.values)
        left.append(line((f"{_spelled(row.name, glyphs):<{MARK_CELLS}}{before}", row.mark)))
        right.append(line((f" {after}", row.mark)))
    return side_by_side(left, right, wide, len(left), glyphs)


def _spelled(text: str, glyphs: Glyphs) -> str:
    """A plan's text in the terminal's characters."""
    if glyphs.name != "ascii":
        return text
    return text.replace("\N{RIGHTWARDS ARROW}", glyphs.arrow).replace("≠", "!").replace("\N{MIDDLE DOT}", ".")

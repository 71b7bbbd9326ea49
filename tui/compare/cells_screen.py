"""The cells behind a ratio with their figures, stalls and causes, SLA, and whether they are comparable."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding

from engine.results.cell_step import CellStep
from engine.results.comparison import ComparedSubject as Subject
from engine.results.comparison import Comparison
from tui.compare import cells_text, explanation
from tui.compare.comparison_table import RowKey
from tui.keys import key
from tui.marks import Line, line, rule
from tui.screens.bench_screen import BenchScreen
from tui.widgets.text_lines import Lines

MOST_CELLS = 8  # visible at once in 24 rows


class CellsScreen(BenchScreen):
    TITLE_WORD: ClassVar[str] = "CELLS"
    DEFAULT_CSS = "CellsScreen #about { height: 1fr; }"
    BINDINGS: ClassVar[list[Binding]] = [  # type: ignore[assignment]
        key("up,k", "move(-1)", "cell above", "cells.up", show=False),
        key("down,j", "move(1)", "cell below", "cells.down", show=False),
        key("enter", "replay", "replay in Live", "cells.replay"),
        key("pagedown,space", "page(1)", "further", "cells.further", shown="pgdn"),
        key("pageup", "page(-1)", "back up", "cells.back_up", show=False),
        key("escape", "app.leave", "back", "cells.back"),
    ]

    def __init__(self, comparison: Comparison, row: RowKey, subject: Subject) -> None:
        super().__init__()
        self._comparison = comparison
        self._row = row
        self._subject = subject
        self._found = cells_text.cells(comparison, row.step, subject)
        self._cursor = 0
        self._top = 0

    def parts(self) -> Sequence[Lines]:
        return [Lines(id="head"), Lines(id="cells"), Lines(id="about", resized=self.draw)]

    def small(self) -> Sequence[Line]:
        return [explanation.verdict(self._comparison, self._row, self._subject, self.glyphs)]

    @property
    def cell(self) -> CellStep:
        return self._found[self._cursor]

    def action_move(self, by: int) -> None:
        self._cursor = max(0, min(self._cursor + by, len(self._found) - 1))
        self._top = 0
        self.draw()

    def action_page(self, pages: int) -> None:
        height = max(1, self.query_one("#about").size.height)
        last = max(0, len(self._about()) - height)
        self._top = max(0, min(self._top + pages * max(1, height - 1), last))
        self.draw()

    def action_replay(self) -> None:
        self.bench.replay(Path(self._comparison.measured.folders[self.cell.run]), self.cell.cell, self._row.step)

    def draw(self) -> None:
        comparison, row, columns = self._comparison, self._row, self.size.width
        base = comparison.baseline_of(self._subject.name)
        head = line((f" {self.TITLE_WORD} ", "title"), f" of {row.step}: {self._subject.name} against {base}")
        room = max(2, min(len(self._found), max(MOST_CELLS, self.rows - 20)))
        first = max(0, min(self._cursor - room // 2, len(self._found) - room))
        lines = cells_text.table(comparison, self._subject, self._found, self._cursor, columns, self.glyphs)
        heading = cells_text.heading(comparison, row, columns)
        more = len(self._found) - room
        below = rule("the chosen cell", columns, self.glyphs, f"{more} more cells" if more > 0 else "")
        height = self.query_one("#about").size.height or max(1, self.rows - room - 5)
        self.fill(
            head=[head, *self.small()],
            cells=[heading, *lines[first : first + room], below],
            about=cells_text.window(self._about(), self._top, height, columns, self.glyphs),
        )
        self.refresh_small()

    def _about(self) -> list[Line]:
        columns = self.size.width
        lines = cells_text.about(self._comparison, self.cell, columns)
        judged = cells_text.judged(self._comparison, self._row, self._subject, columns, self.glyphs)
        return [*lines, line((" both sides", "strong")), *judged]

"""Compare: which steps got slower, by how much, how certainly, and possibly why."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding

from engine.core.errors import UserError
from engine.journal.reader import JournalReader
from engine.results.comparison import ComparedSubject as Subject
from engine.results.comparison import Comparison, comparison_of
from engine.results.ratio import PRIMARY_METRICS
from tui import bench
from tui.compare import comparison_table, explanation, forest, interval_table
from tui.compare.cells_screen import CellsScreen
from tui.compare.comparison_table import RowKey, Sort
from tui.compare.dot_plot import strips
from tui.compare.meanings import label
from tui.compare.plans_screen import PlansScreen
from tui.compare.slices_screen import SlicesScreen
from tui.flame.screen import Asked, FlameScreen
from tui.keys import key
from tui.marks import Line, folded, line, rule, side_by_side
from tui.screens.bench_screen import DEMO, WIDE_COLUMNS, BenchScreen
from tui.screens.dialogs import LineScreen, PickScreen, TickScreen
from tui.widgets.key_row import KeyRow
from tui.widgets.text_lines import Lines

LEAST_TABLE, LEAST_WHY, MOST_WHY, GIVE_WAY = 6, 5, 14, ("compare.sort", "compare.metrics")
MOST_DOTS = {"-short": 5, "-tall": 9}
MOST_ANSWER = {"-short": 3, "-tall": 5}


def finished_cells(run: Path) -> int:
    """Number of finished attempts. Raises UserError if this is not a run."""
    with JournalReader(run) as reader:
        return sum(attempt.state == "finished" for attempt in reader.attempts(origins=False))


class CompareScreen(BenchScreen):
    """The comparison of the selected run, or of the runs that were picked in History."""

    TITLE_WORD: ClassVar[str] = "COMPARE"
    LOOK_S: ClassVar[float] = 2.0
    DEFAULT_CSS = "CompareScreen #table { height: 1fr; }"
    BINDINGS: ClassVar[list[Binding]] = [  # type: ignore[assignment]
        key("up,k", "move(-1, 0)", "line above", "compare.up", show=False),
        key("down,j", "move(1, 0)", "line below", "compare.down", show=False),
        key("left", "move(0, -1)", "subject before", "compare.left", show=False),
        key("right", "move(0, 1)", "next subject", "compare.right", show=False),
        key("pageup", "page(-1)", "page up", "compare.page_up", show=False),
        key("pagedown", "page(1)", "page down", "compare.page_down", show=False),
        key("home", "move(-1000000, 0)", "first line", "compare.first", show=False),
        key("end", "move(1000000, 0)", "last line", "compare.last", show=False),
        key("b", "base", "base", "compare.base"),
        key("c", "metrics", "show", "compare.metrics"),
        key("s", "sort", "sort", "compare.sort"),
        key("slash", "filter", "find", "compare.filter"),
        key("enter", "cells", "cells", "compare.cells"),
        key("l", "slices", "slices", "compare.slices"),
        key("p", "plans", "plans", "compare.plans"),
        key("f", "flame", "flame", "compare.flame"),
        key("e", "report", "report for the browser", "compare.page", show=False),
        key("r", "again", "compare again", "compare.again", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._runs: tuple[Path, ...] = ()
        self._base: str | None = None
        self._metrics: tuple[str, ...] = comparison_table.USUAL
        self._sort: Sort = "steps"
        self._wanted = ""
        self.comparison: Comparison | None = None
        self.listed: list[RowKey] = []
        self.cursor = (0, 0)  # line, subject
        self._top = 0
        self._first = 0  # the subject in the first column
        self._finished: tuple[int, ...] = ()
        self.busy = False
        self.problem = ""

    def parts(self) -> Sequence[Lines]:
        table = Lines(id="table", resized=self.draw, clicked=self._click, turned=lambda by: self.action_move(by, 0))
        dots = Lines(id="dots")
        table.can_focus = dots.can_focus = True
        above, below = (Lines(id="title"), Lines(id="answer")), (Lines(id="why"), Lines(id="verdict"))
        return [*above, table, Lines(id="of"), dots, *below]

    def on_screen_resume(self) -> None:
        """Retry a comparison that failed: the cause may be gone."""
        if self.comparison is None:
            self.problem = ""
        self.draw()

    def look(self) -> None:
        """Compare again if other runs are selected or cells have finished."""
        if not self.is_active:  # also inactive while the interface closes
            return
        runs = self._selected
        if runs != self._runs:
            self._runs, self._base, self._finished, self.problem = runs, None, (), ""
            self.comparison = None
            self.cursor, self._top, self._first = (0, 0), 0, 0
        if not runs:
            self._tell("No run selected: choose one in History (5)" + DEMO)
            return
        try:
            finished = tuple(finished_cells(run) for run in runs)
        except UserError as error:
            self._tell(str(error))
            return
        if finished != self._finished or (self.comparison is None and not self.problem and not self.busy):
            self._finished = finished
            self._compare()

    @property
    def _selected(self) -> tuple[Path, ...]:
        return tuple(self.context.compared) or (() if self.context.run is None else (self.context.run,))

    @property
    def unready(self) -> bool:
        return self._selected != self._runs or (self.busy and self.comparison is None)

    def small(self) -> Sequence[Line]:
        if self.comparison is None:
            return [line((self.TITLE_WORD, "strong")), line(self.problem or "comparing...")]
        rates = comparison_table.rows(self.comparison, PRIMARY_METRICS, "steps", "")
        return interval_table.small(self.comparison, rates, self.size.width, self.glyphs)

    @property
    def chosen(self) -> tuple[Comparison, RowKey, Subject] | None:
        shown = self.comparison
        if shown is None or not self.listed or not shown.others:
            return None
        return shown, self.listed[self.cursor[0]], shown.others[self.cursor[1]]

    def action_move(self, down: int, right: int) -> None:
        """Choose another line or subject; among the dots, up and down choose the subject."""
        if down and self.focused is not None and self.focused.id == "dots":
            down, right = 0, down
        self._move_to(self.cursor[0] + down, self.cursor[1] + right)

    def action_page(self, by: int) -> None:
        """Move by the height of the table less one line."""
        self._move_to(self.cursor[0] + by * max(1, self.query_one("#table").size.height - 2), self.cursor[1])

    def _click(self, row: int) -> None:
        if 0 < row <= len(self.listed) - self._top:  # below the heading
            self._move_to(self._top + row - 1, self.cursor[1])

    def _move_to(self, place: int, subject: int) -> None:
        others = self.comparison.others if self.comparison is not None else ()
        self.cursor = (max(0, min(place, len(self.listed) - 1)), max(0, min(subject, len(others) - 1)))
        self.draw()

    def action_base(self) -> None:
        comparison = self.comparison
        if comparison is None:
            return
        options = [(s.name, s.name) for s in comparison.subjects if not s.control]

        def take(chosen: tuple[str, ...]) -> None:
            if chosen[0] != comparison.base:
                self._base = chosen[0]
                self._compare()

        self.bench.ask_user(PickScreen("compare with", options, comparison.base), take)

    def action_metrics(self) -> None:
        def take(chosen: tuple[str, ...]) -> None:
            self._metrics = chosen
            self._arrange()

        choices = comparison_table.choices(self.comparison)
        self.bench.ask_user(TickScreen("show of each step", choices, self._metrics), take)

    def action_sort(self) -> None:
        sorts = comparison_table.SORTS
        self._sort = sorts[(sorts.index(self._sort) + 1) % len(sorts)]
        self.cursor = (0, self.cursor[1])
        self._arrange(stay=False)
        words = {"steps": "in the order of the steps", "effect": "by the size of the effect", "verdict": "worst first"}
        self.bench.say(f"sorted {words[self._sort]}")

    def action_filter(self) -> None:
        def take(wanted: str) -> None:
            self._wanted = wanted
            self._arrange()

        question = "show lines with (step, metric, verdict); nothing: all"
        self.bench.ask_user(LineScreen(question, self._wanted, empty=True), take)

    def action_cells(self) -> None:
        if self.chosen is None:
            self.bench.say("there is no ratio to open", "warning")
        else:
            self.app.push_screen(CellsScreen(*self.chosen))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return {"slices": self._in_slices, "plans": self._replanned}.get(action, True)

    @property
    def _in_slices(self) -> bool:
        if self.chosen is None:
            return False
        comparison, row, subject = self.chosen
        return comparison.sliced(subject.name, row.step)

    @property
    def _replanned(self) -> bool:
        return self.chosen is not None and bool(self.chosen[0].changed_plans(self.chosen[2].name))

    def action_plans(self) -> None:
        if self.chosen is not None:
            self.app.push_screen(PlansScreen(*self.chosen))

    def action_slices(self) -> None:
        if self.chosen is not None:
            comparison, row, subject = self.chosen
            self.app.push_screen(SlicesScreen(comparison, self._asked(), row.step, subject))

    def action_flame(self) -> None:
        if self.chosen is None:
            self.bench.say("no ratio selected to draw a flame graph of", "warning")
            return
        comparison, row, subject = self.chosen
        pairs = comparison.in_pairs(subject.name, row.step)
        if not pairs:
            self.bench.say(f"{subject.name} and the base have no cells in one run: bench flame --diff RUN", "warning")
            return
        folder = Path(comparison.measured.folders[pairs[0][1].run])
        base = comparison.subject(comparison.baseline_of(subject.name))
        roles = explanation.roles(cell for pair in pairs for cell in pair)
        asked = Asked(folder, row.step, roles, label(base), label(subject))

        def show(chosen: tuple[str, ...]) -> None:
            self.app.push_screen(FlameScreen(asked, chosen[0]))

        if len(roles) == 1:
            show(roles)
        else:
            self.bench.ask_user(PickScreen("flame graph of which role", [(role, role) for role in roles]), show)

    def action_report(self) -> None:
        if self._runs:
            to = Path.cwd() / f"{self._runs[0].name}-report.html"
            self.bench.ask_bench(("report", *self._asked(), "--to", str(to)), "writing the report")

    def action_again(self) -> None:
        if not self.busy:
            self._finished, self.problem = (), ""
            self.look()

    def draw(self) -> None:
        columns = self.size.width
        if (shown := self.comparison) is None:
            title = line((f" {self.TITLE_WORD} ", "title"))
            message = self.problem or "comparing..."
            instead = [line(), *folded(message, columns, "warning" if self.problem else "dim")]
        else:
            title = explanation.title(shown, self._sort, self._wanted, self.busy)
            instead = explanation.nothing(shown)
        self.fill(title=[title])
        if self.chosen is not None:
            self._draw_chosen(*self.chosen)
        else:
            self.fill(answer=[], table=instead, of=[], dots=[], why=[], verdict=[])
        self.refresh_small()
        if self.is_mounted:
            # In 80 columns the row of keys has no room for more; hidden keys still work.
            further = self._in_slices or self._replanned
            self.query_one(KeyRow).hide(*(GIVE_WAY if further and columns < WIDE_COLUMNS else ()))
            self.refresh_bindings()
        self.catch_up()

    def _draw_chosen(self, comparison: Comparison, row: RowKey, subject: Subject) -> None:
        glyphs, columns = self.glyphs, self.size.width
        size = "-tall" if self.has_class("-tall") else "-short"
        dots = min(len(comparison.subjects), MOST_DOTS[size])
        answer = explanation.answer(comparison, subject, columns, MOST_ANSWER[size], glyphs)
        remarks = [
            explanation.verdict(comparison, row, subject, glyphs),
            explanation.remark(comparison, row, subject, glyphs),
        ]
        if size == "-tall" and remarks[1] != (explained := explanation.explained(comparison, row)):
            remarks.append(explained)
        # Less the fixed rows: title, heading, two rules, keys.
        left = self.rows - dots - len(answer) - len(remarks) - 5
        wide = columns // 2
        most = max(LEAST_WHY, min(MOST_WHY, left - max(LEAST_TABLE, len(self.listed))))
        causes = explanation.why(comparison, row, subject, glyphs, wide - 2, most)
        checks = explanation.comparable(comparison, subject, glyphs, columns - wide - 1, most)
        why = max(LEAST_WHY, len(causes), len(checks))
        further = explanation.further_dots(
            comparison, self.listed, row, subject, dots, left - why - len(self.listed), columns, glyphs
        )
        height = max(1, left - why - len(further))
        self._top = max(self.cursor[0] - height + 1, min(self._top, self.cursor[0]), 0)
        self._top = max(0, min(self._top, len(self.listed) - height))
        named = f"{row.step} {comparison_table.title_of(comparison, row)}"
        below = len(self.listed) - self._top - height
        more = f"{below} more lines" if below > 0 else f"{self._top} lines above" if self._top > 0 else ""
        rules = explanation.rules(row, subject, columns, glyphs)
        self.fill(
            answer=answer,
            table=self._table(comparison, height),
            of=[rule(f"{named}, every cell", columns, glyphs, more)],
            dots=[*strips(explanation.dot_rows(comparison, row, subject, dots), columns, glyphs), *further],
            why=[rules, *side_by_side(causes, checks, wide - 1, why, glyphs)],
            verdict=remarks,
        )

    def _table(self, comparison: Comparison, height: int) -> list[Line]:
        columns, glyphs, chosen = self.size.width, self.glyphs, self.cursor[1]
        shown = (self.cursor, self._top, height, glyphs)
        at = interval_table.layout(comparison, columns, chosen, self._first)
        self._first = at.first
        on = forest.axis(interval_table.ratios(comparison, self.listed), comparison.margin, at.axis)
        return [
            interval_table.header(comparison, at, on, chosen, glyphs),
            *interval_table.table(comparison, self.listed, at, on, *shown),
        ]

    def _compare(self) -> None:
        self.busy, self.problem = True, ""
        self.run_worker(self._ask(), group="compare", exclusive=True, exit_on_error=False)
        self.draw()

    async def _ask(self) -> None:
        try:
            answer = await bench.ask_json("compare", *self._asked())
            self.comparison = comparison_of(answer)
        except UserError as error:
            self.busy = False
            self._tell(str(error))
            return
        self.busy = False
        self.problem = ""
        self._arrange()

    def _asked(self) -> tuple[str, ...]:
        return (*(str(run) for run in self._runs), *(("--base", self._base) if self._base else ()))

    def _tell(self, problem: str) -> None:
        """Show an error instead of a comparison, or below the one that is shown."""
        if problem != self.problem:
            if self.comparison is not None:
                self.bench.say(problem, "warning")
            self.problem = problem
            self.draw()

    def _arrange(self, *, stay: bool = True) -> None:
        """Rebuild the lines, staying on the chosen one if it still exists."""
        if self.comparison is None:
            return
        place, subject = self.cursor
        before = self.listed[place] if stay and self.listed else None
        self.listed = comparison_table.rows(self.comparison, self._metrics, self._sort, self._wanted)
        self._move_to(self.listed.index(before) if before in self.listed else place, subject)

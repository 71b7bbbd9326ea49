"""Compare: what got slower, by how much, how sure, and what may be behind it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual import events
from textual.binding import Binding

from engine.errors import UserError
from engine.journal import JournalReader
from tui import bench
from tui.compare import beside as comparison_view
from tui.compare import cells_view, comparison
from tui.compare import table as comparison_table
from tui.compare.cells import CellsScreen
from tui.compare.comparison import Comparison, Subject
from tui.compare.dot_strip import DotStrip
from tui.compare.overlay import OverlayScreen
from tui.compare.table import Row, Sort
from tui.keys import key
from tui.marks import Line, line
from tui.screens.base import BenchScreen
from tui.screens.over import LineScreen
from tui.screens.pick import PickScreen, TickScreen
from tui.widgets.lines import Lines

LOOK_S = 2.0  # how often it is asked whether a cell has finished
LEAST_TABLE, LEAST_WHY, MOST_WHY = 6, 5, 14
MOST_DOTS = {"-short": 5, "-tall": 9}


class CompareScreen(BenchScreen):
    """The comparison of the run that is looked at, or of the runs that were picked in History."""

    TITLE_WORD: ClassVar[str] = "COMPARE"
    JUMPS: ClassVar[dict[str, str]] = {"table": "t", "dots": "d"}
    DEFAULT_CSS = "CompareScreen #table { height: 1fr; }"
    BINDINGS: ClassVar[list[Binding]] = [  # type: ignore[assignment]
        key("up,k", "move(-1, 0)", "line above", "compare.up", show=False),
        key("down,j", "move(1, 0)", "line below", "compare.down", show=False),
        key("left", "move(0, -1)", "subject before", "compare.left", show=False),
        key("right", "move(0, 1)", "next subject", "compare.right", show=False),
        key("b", "base", "base", "compare.base"),
        key("c", "metrics", "show", "compare.metrics"),
        key("s", "sort", "sort", "compare.sort"),
        key("slash", "filter", "find", "compare.filter"),
        key("enter", "cells", "cells", "compare.cells"),
        key("o", "overlay", "chart", "compare.overlay"),
        key("f", "flame", "flame", "compare.flame"),
        key("H", "report", "report as Markdown", "compare.report", show=False),
        key("r", "again", "compare again", "compare.again", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._runs: tuple[Path, ...] = ()
        self._base: str | None = None
        self._metrics: tuple[str, ...] = comparison_table.USUAL
        self._sort: Sort = "steps"
        self._wanted = ""
        self._found: Comparison | None = None
        self._rows: list[Row] = []
        self._cursor = (0, 0)  # line, subject
        self._top = 0
        self._first = 0  # the subject in the first column
        self._finished: tuple[int, ...] = ()
        self._busy = False
        self._problem = ""

    def parts(self) -> Sequence[Lines]:
        """Title, table, dots, why beside what was found alike, the verdict in words."""
        table, dots = _Table(id="table"), DotStrip(self.glyphs, id="dots")
        table.can_focus = dots.can_focus = True
        return [Lines(id="title"), table, Lines(id="of"), dots, Lines(id="why"), Lines(id="verdict")]

    def on_mount(self) -> None:
        """Looks every few seconds whether the run has gained a cell."""
        self.set_interval(LOOK_S, self.look)

    def on_screen_resume(self) -> None:
        """Comes back to the front; what went wrong before may go well now."""
        super().on_screen_resume()
        if self._found is None:
            self._problem = ""
        self.look()
        self.draw()

    def look(self) -> None:
        """Compares anew where other runs are looked at than before, or cells have finished since."""
        if self.app.screen is not self:
            return
        one = () if self.bench.run_folder is None else (self.bench.run_folder,)
        runs = tuple(self.bench.compared) or one
        if runs != self._runs:
            self._runs, self._found, self._base, self._finished, self._problem = runs, None, None, (), ""
            self._cursor, self._top, self._first = (0, 0), 0, 0
        if not runs:
            self._tell("no run is looked at: choose one in History (5), or start one in Launch (1)")
            return
        try:
            finished = tuple(_finished(run) for run in runs)
        except UserError as error:
            self._tell(str(error))
            return
        if finished != self._finished or (self._found is None and not self._problem and not self._busy):
            self._finished = finished
            self._compare()

    def small(self) -> Sequence[Line]:
        """The rates' verdicts."""
        if self._found is None:
            return [line((self.TITLE_WORD, "strong")), line(self._problem or "comparing...")]
        rates = comparison_table.rows(self._found, ("rate_per_s",), "steps", "")
        return comparison_table.small(self._found, rates, self.glyphs)

    @property
    def row(self) -> Row | None:
        """The chosen line."""
        return self._rows[self._cursor[0]] if self._rows else None

    @property
    def subject(self) -> Subject | None:
        """The chosen subject."""
        others = self._found.others if self._found is not None else ()
        return others[self._cursor[1]] if others else None

    def action_move(self, down: int, right: int) -> None:
        """Chooses another line or subject; in the dots, up and down choose the subject."""
        if self._found is None or not self._rows:
            return
        if down and self.focused is not None and self.focused.id == "dots":
            down, right = 0, down
        lines, others = len(self._rows), len(self._found.others)
        self._cursor = (
            max(0, min(self._cursor[0] + down, lines - 1)),
            max(0, min(self._cursor[1] + right, others - 1)),
        )
        self.draw()

    def action_base(self) -> None:
        """Chooses what the others are compared with."""
        if self._found is None:
            return
        options = [(s.name, s.name) for s in self._found.shown if not s.arm]

        def take(chosen: tuple[str, ...] | None) -> None:
            if chosen and self._found is not None and chosen[0] != self._found.base:
                self._base = chosen[0]
                self._compare()

        self.app.push_screen(PickScreen("compare with", options, self._found.base), take)

    def action_metrics(self) -> None:
        """Chooses what is shown of each step."""
        titles = {**(self._found.metrics if self._found else {}), "stalls": "stalls", "sla": "insert rate kept up"}
        options = [(name, titles.get(name, name)) for name in comparison_table.SHORT]

        def take(chosen: tuple[str, ...] | None) -> None:
            if chosen:
                self._metrics = chosen
                self._arrange()

        self.app.push_screen(TickScreen("show of each step", options, self._metrics), take)

    def action_sort(self) -> None:
        """The next order of the lines."""
        sorts = comparison_table.SORTS
        self._sort = sorts[(sorts.index(self._sort) + 1) % len(sorts)]
        self._cursor = (0, self._cursor[1])
        self._arrange(stay=False)
        words = {"steps": "in the order of the steps", "effect": "by the size of the effect", "verdict": "worst first"}
        self.bench.say(f"sorted {words[self._sort]}")

    def action_filter(self) -> None:
        """Shows only lines that hold some words."""

        def take(wanted: str | None) -> None:
            if wanted is not None:
                self._wanted = wanted
                self._arrange()

        self.app.push_screen(LineScreen("show lines with (step, metric, verdict); nothing: all", self._wanted), take)

    def action_cells(self) -> None:
        """All cells behind the chosen ratio."""
        if self._found is None or self.row is None or self.subject is None:
            self.bench.say("there is no ratio to open", "warning")
            return
        self.app.push_screen(CellsScreen(self._found, self.row, self.subject))

    def action_overlay(self) -> None:
        """Two rates of the chosen step over each other."""
        if self._found is None or self.row is None or self.subject is None:
            self.bench.say("there are no two cells to lay over each other", "warning")
            return
        pairs = cells_view.in_pairs(self._found, self.row.step, self.subject)
        if not pairs:
            self.bench.say(f"{self.subject.name} has no cell of one run and repeat with the base", "warning")
            return
        self.app.push_screen(OverlayScreen(self._found, pairs))

    def action_flame(self) -> None:
        """Writes the differential flame graph of a role of the chosen step."""
        found, row, subject = self._found, self.row, self.subject
        if found is None or row is None or subject is None:
            self.bench.say("there is no ratio to draw a flame graph of", "warning")
            return
        pairs = cells_view.in_pairs(found, row.step, subject)
        if not pairs:
            self.bench.say(f"{subject.name} and the base have no cells in one run: bench flame --diff RUN", "warning")
            return
        folder = found.folders[pairs[0][1].run]
        base = next(s for s in found.subjects if s.name == found.opposite(subject))
        roles = list(dict.fromkeys(role for pair in pairs for cell in pair for role in cell.figures["roles"]))

        def write(chosen: tuple[str, ...] | None) -> None:
            if chosen:
                to = Path.cwd() / f"{folder.name}-{row.step}-{chosen[0]}-{_file_name(subject.name)}-diff.html"
                asked = ("flame", str(folder), "--step", row.step, "--role", chosen[0], "--pg", _label(base))
                self.bench.ask_bench(
                    (*asked, "--diff", _label(subject), "--to", str(to)),
                    f"drawing the stacks of {chosen[0]} in {row.step}: {subject.name} against {base.name}",
                )

        if len(roles) == 1:
            write((roles[0],))
        else:
            self.app.push_screen(PickScreen("flame graph of which role", [(role, role) for role in roles]), write)

    def action_report(self) -> None:
        """Writes the whole comparison as Markdown."""
        if not self._runs:
            return
        to = Path.cwd() / f"{self._runs[0].name}-compare.md"

        def write(text: str) -> None:
            try:
                to.write_text(text, encoding="utf-8")
            except OSError as error:
                self.bench.say(f"{to}: cannot be written: {error.strerror}", "warning")
                return
            self.bench.say(f"written: {to}")

        self.bench.ask_bench(("compare", *self._asked(), "--md"), "writing the comparison", write)

    def action_again(self) -> None:
        """Compares again."""
        if not self._busy:
            self._finished, self._problem = (), ""
            self.look()

    def draw(self) -> None:
        """Draws all parts for the size that there is."""
        found, columns = self._found, self.size.width
        title, table = self.query_one("#title", Lines), self.query_one("#table", Lines)
        if found is None:
            title.show([line((f" {self.TITLE_WORD} ", "title"))])
            said = self._problem or "comparing..."
            table.show([line(), *comparison_view.folded(said, columns, "warning" if self._problem else "dim")])
        else:
            title.show([comparison_view.title(found, self._sort, self._wanted, self._busy)])
        if found is None or not self._rows or self.subject is None:
            if found is not None:
                table.show(
                    comparison_view.nothing(found) if found.others else [line(" there is nothing beside the base")]
                )
            for id in ("of", "why", "verdict"):
                self.query_one(f"#{id}", Lines).show([])
            self.query_one(DotStrip).show_rows([])
            self.refresh_small()
            return
        self._draw_found(found, self._rows[self._cursor[0]], self.subject, table, columns)
        self.refresh_small()

    def _draw_found(self, found: Comparison, row: Row, subject: Subject, table: Lines, columns: int) -> None:
        glyphs = self.glyphs
        dots = min(len(found.shown), MOST_DOTS["-tall" if self.has_class("-tall") else "-short"])
        left = self.size.height - dots - 7  # title, heading, two rules, verdict and remark, keys
        wide = columns // 2
        most = max(LEAST_WHY, min(MOST_WHY, left - max(LEAST_TABLE, len(self._rows))))
        causes = comparison_view.why(found, row, subject, glyphs, wide - 2, most)
        alike = comparison_view.alike(found, subject, glyphs, columns - wide - 1, most)
        why = max(LEAST_WHY, len(causes), len(alike))
        at = comparison_table.layout(found, columns, self._cursor[1], self._first)
        self._first = at.first
        height = max(1, (table.size.height or left - why + 1) - 1)
        self._top = max(self._cursor[0] - height + 1, min(self._top, self._cursor[0]), 0)
        self._top = max(0, min(self._top, len(self._rows) - height))
        lines = comparison_table.table(found, self._rows, at, self._cursor, self._top, height, glyphs)
        table.show([comparison_table.header(found, at, self._cursor[1], glyphs), *lines])
        named = f"{row.step} {comparison_table.title_of(found, row)}"
        below = len(self._rows) - self._top - height
        more = f"{below} more lines" if below > 0 else f"{self._top} lines above" if self._top > 0 else ""
        self.query_one("#of", Lines).show([comparison_view.rule(f"{named}, every cell", columns, glyphs, more)])
        self.query_one(DotStrip).show_rows(comparison_view.dot_rows(found, row, subject, dots))
        rules = (
            *comparison_view.rule(f"why {row.step}: base > {subject.name}", wide - 1, glyphs),
            (" ", ""),
            *comparison_view.rule("alike on both sides?", columns - wide, glyphs),
        )
        both = comparison_view.beside(causes, alike, wide, why, glyphs)
        self.query_one("#why", Lines).show([rules, *both])
        words = [
            comparison_view.verdict(found, row, subject, glyphs),
            comparison_view.remark(found, row, subject, glyphs),
        ]
        self.query_one("#verdict", Lines).show(words)

    def _compare(self) -> None:
        self._busy, self._problem = True, ""
        self.run_worker(self._ask(), group="compare", exclusive=True, exit_on_error=False)
        self.draw()

    async def _ask(self) -> None:
        try:
            self._found = comparison.read(await bench.ask_json("compare", *self._asked()))
        except UserError as error:
            self._busy = False
            self._tell(str(error))
            return
        self._busy = False
        self._problem = ""
        self._arrange()

    def _asked(self) -> tuple[str, ...]:
        return (*(str(run) for run in self._runs), *(("--base", self._base) if self._base else ()))

    def _tell(self, problem: str) -> None:
        """Says what is wrong: instead of a comparison, or below the one that is there."""
        if problem == self._problem:
            return
        if self._found is not None:
            self.bench.say(problem, "warning")
        self._problem = problem
        self.draw()

    def _arrange(self, *, stay: bool = True) -> None:
        """Makes the lines anew, and stays on the chosen one where it is still there."""
        if self._found is None:
            return
        before = self.row if stay else None
        self._rows = comparison_table.rows(self._found, self._metrics, self._sort, self._wanted)
        line_ = self._rows.index(before) if before in self._rows else min(self._cursor[0], max(0, len(self._rows) - 1))
        self._cursor = (line_, min(self._cursor[1], max(0, len(self._found.others) - 1)))
        self.draw()


class _Table(Lines):
    """Drawn anew when its size is known or changes."""

    def on_resize(self, _: events.Resize) -> None:
        if isinstance(self.screen, CompareScreen):
            self.screen.draw()


def _finished(run: Path) -> int:
    with JournalReader(run) as reader:
        return sum(attempt.state == "finished" for attempt in reader.attempts(origins=False))


def _label(subject: Subject) -> str:
    """What `bench flame` calls a subject."""
    arm = {"": "", "aa": " A/A"}.get(subject.arm, f" {subject.arm}")
    return f"{subject.build}{arm}/{subject.config}"


def _file_name(name: str) -> str:
    return name.replace("/", "_").replace(" ", "_")

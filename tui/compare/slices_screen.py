"""The slices of a step: each block's ratio over time, and the CPUs that other processes used."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding

from engine.core.errors import UserError
from engine.core.record import converted
from engine.results.comparison import ComparedSubject as Subject
from engine.results.comparison import Comparison
from engine.results.sliced_step import SlicedPair, SlicedStep
from tui import bench
from tui.compare import slices_chart
from tui.keys import key
from tui.marks import Line, folded, line, rule
from tui.screens.bench_screen import BenchScreen
from tui.widgets.text_lines import Lines

OTHERS_ROWS = {"-short": 4, "-tall": 8}


class SlicesScreen(BenchScreen):
    """The blocks of one pair of cells at a time; `asked` holds the runs and options of the comparison."""

    TITLE_WORD: ClassVar[str] = "SLICES"
    DEFAULT_CSS = "SlicesScreen #ratios { height: 1fr; }"
    BINDINGS: ClassVar[list[Binding]] = [  # type: ignore[assignment]
        key("left", "pair(-1)", "pair before", "slices.pair_before", show=False),
        key("right", "pair(1)", "pair", "slices.pair_next", shown="left/right"),
        key("r", "replay", "replay", "slices.replay"),
        key("escape", "app.leave", "back", "slices.back"),
    ]

    def __init__(self, comparison: Comparison, asked: Sequence[str], step: str, subject: Subject) -> None:
        super().__init__()
        self._comparison = comparison
        self._asked = tuple(asked)
        self._step = step
        self._subject = subject
        self.sliced_step: SlicedStep | None = None
        self._place = 0
        self.problem = ""

    def parts(self) -> Sequence[Lines]:
        return [
            Lines(id="title"),
            Lines(id="summary"),
            Lines(id="ratios", resized=self.draw),
            Lines(id="of"),
            Lines(id="others"),
            Lines(id="below"),
        ]

    def on_mount(self) -> None:
        self.run_worker(self._ask(), group="slices", exclusive=True, exit_on_error=False)

    def small(self) -> Sequence[Line]:
        pair = self.pair
        if pair is None or self.sliced_step is None:
            return [line((self.TITLE_WORD, "strong")), line(self.problem or "reading...")]
        head = line((self.TITLE_WORD, "strong"), f" {self._step} {pair.subject} / {pair.base} #{pair.repeat}")
        return [head, *slices_chart.summary(pair, self.sliced_step.check(pair.subject), self.size.width)]

    @property
    def pair(self) -> SlicedPair | None:
        pairs = self.sliced_step.of(self._subject.name) if self.sliced_step is not None else ()
        return pairs[self._place] if self._place < len(pairs) else None

    def action_pair(self, by: int) -> None:
        pairs = self.sliced_step.of(self._subject.name) if self.sliced_step is not None else ()
        if len(pairs) < 2:
            self.bench.say("there is one pair of cells" if pairs else "there is no pair of cells")
            return
        self._place = (self._place + by) % len(pairs)
        self.draw()

    def action_replay(self) -> None:
        pair = self.pair
        if pair is None:
            self.bench.say("there is no cell to replay", "warning")
        else:
            self.bench.replay(Path(self._comparison.measured.folders[pair.run]), pair.other_cell, self._step)

    def draw(self) -> None:
        pair, columns, glyphs = self.pair, self.size.width, self.glyphs
        head: Line = ((f" {self.TITLE_WORD} ", "title"), (f" {self._step}", "strong"))
        if pair is None or self.sliced_step is None:
            waits = "reading..." if self.sliced_step is None else "no pair of cells has slices of this step"
            message = folded(self.problem or waits, columns, "warning" if self.problem else "dim")
            self.fill(title=[head], summary=[], ratios=message, of=[], others=[], below=[])
            self.refresh_small()
            return
        pairs = self.sliced_step.of(self._subject.name)
        which = f" pair {self._place + 1} of {len(pairs)}" if len(pairs) > 1 else ""
        cells = columns - slices_chart.LABEL_CELLS
        rows = self.query_one("#ratios").size.height
        low = OTHERS_ROWS["-tall" if self.has_class("-tall") else "-short"]
        self.fill(
            title=[(*head, (f"  {pair.subject} / {pair.base}{which}", ""), (f"  {self.sliced_step.design}", "dim"))],
            summary=slices_chart.summary(pair, self.sliced_step.check(pair.subject), columns),
            ratios=slices_chart.ratios(pair, cells, rows, glyphs),
            of=[rule(slices_chart.heading(pair), columns, glyphs)],
            others=slices_chart.others(pair, cells, low, glyphs),
            below=[slices_chart.axis(pair, cells), slices_chart.legend(glyphs)],
        )
        self.refresh_small()

    async def _ask(self) -> None:
        try:
            answer = await bench.ask_json("compare", *self._asked, "--slices", self._step)
            self.sliced_step = converted(answer, SlicedStep, "bench compare --slices --json")
        except UserError as error:
            self.problem = str(error)
        self.draw()

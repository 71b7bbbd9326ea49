"""The rates of two cells in one step, drawn over each other by time or by work done."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding

from engine.core.errors import UserError
from engine.core.format import short
from engine.results.cell_step import CellStep
from engine.results.comparison import Comparison
from engine.view.player import legible
from tui.compare.overlay_chart import overlay, ribbon, scale
from tui.compare.rate_track import TIME, WORK, Recorded, Track, kinds, recorded, track
from tui.keys import key
from tui.marks import Line, folded, line
from tui.screens.bench_screen import BenchScreen
from tui.widgets.text_lines import Lines
from workloads.base import COUNTED_IN_ROWS

LABEL_CELLS = 6
UNITS = {"query": "queries/s", **dict.fromkeys(COUNTED_IN_ROWS, "rows/s")}  # units of roles without the primary metric


class OverlayScreen(BenchScreen):
    """Charts of `pairs` of cells (baseline, other subject), starting with the pair at index `place`."""

    TITLE_WORD: ClassVar[str] = "OVERLAY"
    DEFAULT_CSS = "OverlayScreen #chart { height: 1fr; }"
    BINDINGS: ClassVar[list[Binding]] = [  # type: ignore[assignment]
        key("o", "align", "by time / work", "overlay.align"),
        key("i", "kind", "role", "overlay.role"),
        key("left", "pair(-1)", "pair before", "overlay.pair_before", show=False),
        key("right", "pair(1)", "pair", "overlay.pair_next", shown="left/right"),
        key("r", "replay", "replay", "overlay.replay"),
        key("escape", "app.leave", "back", "overlay.back"),
    ]

    def __init__(self, comparison: Comparison, pairs: Sequence[tuple[CellStep, CellStep]], place: int = 0) -> None:
        super().__init__()
        self._comparison = comparison
        self._pairs = tuple(pairs)
        self._place = place
        self._by = TIME
        self._kind = ""
        self._sides: tuple[Recorded, Recorded] | None = None
        self._problem = ""

    def parts(self) -> Sequence[Lines]:
        return [Lines(id="title"), Lines(id="chart", resized=self.draw), Lines(id="below")]

    def on_mount(self) -> None:
        self._read()

    def small(self) -> Sequence[Line]:
        return [line(("OVERLAY", "strong")), *self._legend()]

    def action_align(self) -> None:
        self._by = WORK if self._by == TIME else TIME
        self.draw()

    def action_kind(self) -> None:
        known = kinds(self._sides or ())
        if len(known) < 2:
            self.bench.say(f"only {known[0]} moved in this step" if known else "nothing moved in this step")
            return
        self._kind = known[(known.index(self._kind) + 1) % len(known)]
        self.draw()

    def action_pair(self, by: int) -> None:
        if len(self._pairs) < 2:
            self.bench.say("there is one pair of cells")
            return
        self._place = (self._place + by) % len(self._pairs)
        self._read()

    def action_replay(self) -> None:
        cell = self._pairs[self._place][1]
        self.bench.replay(Path(self._comparison.folders[cell.run]), cell.cell, cell.step)

    def draw(self) -> None:
        base, other = self._pairs[self._place]
        names = f"{other.subject} / {base.subject} #{base.repeat}"
        head: Line = ((f" {self.TITLE_WORD} ", "title"), (f" {other.step}  {names}  by ", ""), (self._by, "chosen"))
        if self._sides is None:
            message = folded(self._problem or "reading...", self.size.width, "warning" if self._problem else "dim")
            self.fill(title=[head], chart=message, below=[])
            return
        tracks = self._tracks()
        cells, rows = self.size.width - LABEL_CELLS, self.query_one("#chart").size.height
        drawn, top = overlay(*tracks, cells, rows, self.glyphs)
        end = max(track.end for track in tracks)
        own = self._comparison.units.get(other.step) if self._kind == self._sides[0].primary_role else None
        unit = own or UNITS.get(self._kind, "ops/s")
        labels = {0: short(top), rows // 2: short(top / 2), rows - 1: "0"}
        if not drawn:
            drawn = [line((f"nothing moved in {other.step}: there is no rate to draw", "dim"))]
        stalls = [ribbon(tracks[0], end, cells, " base", "base"), ribbon(tracks[1], end, cells, "other", "rate")]
        seconds = "s in its own slices" if self._sides[0].sliced else "s"
        axis = scale(end, self._by == WORK, cells, (seconds, unit.removesuffix("/s")))
        self.fill(
            title=[(*head, (f"  {self._kind} {unit}", "dim"))],
            chart=[((f"{labels.get(y, ''):>{LABEL_CELLS - 1}} ", "dim"), *row) for y, row in enumerate(drawn)],
            below=[*stalls, ((" " * LABEL_CELLS, ""), *axis), *self._legend()],
        )
        self.refresh_small()

    def _legend(self) -> list[Line]:
        if self._sides is None:
            return []
        glyphs = self.glyphs
        signs = (glyphs.dash * 3, glyphs.levels[-1] * 3 if glyphs.name != "braille" else "⠒⠒⠒")
        lines = []
        for sign, mark, cell, each in zip(
            signs, ("base", "rate"), self._pairs[self._place], self._tracks(), strict=True
        ):
            count = len(each.stalls)
            stalled = f", ! {count} stall{'s' if count > 1 else ''}, {each.stalled_s:.1f} s" if count else ""
            text = f" {cell.subject} repeat {cell.repeat}: median {short(each.median)} per s{stalled}"
            lines.append(line((f"      {sign}", mark), text))
        return lines

    def _tracks(self) -> tuple[Track, Track]:
        assert self._sides is not None
        return track(self._sides[0], self._kind, self._by), track(self._sides[1], self._kind, self._by)

    def _read(self) -> None:
        self._sides, self._problem = None, ""
        self.run_worker(self._take(self._pairs[self._place]), group="overlay", exclusive=True, exit_on_error=False)
        self.draw()

    async def _take(self, pair: tuple[CellStep, CellStep]) -> None:
        folders = {run: Path(folder) for run, folder in self._comparison.folders.items()}
        try:
            with legible(folders[pair[0].run]):
                base, other = [await asyncio.to_thread(recorded, folders[c.run], c.cell, c.step) for c in pair]
        except UserError as error:
            self._problem = str(error)
        else:
            self._sides = (base, other)
            known = kinds(self._sides)
            self._kind = self._kind if self._kind in known else known[0] if known else base.primary_role
        self.draw()

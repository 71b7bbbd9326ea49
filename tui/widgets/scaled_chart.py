"""A chart with a scale at its left: the values at the upper edge, in the middle, and at the lower edge."""

from collections.abc import Callable, Iterable
from math import log10

from textual.app import ComposeResult
from textual.containers import Horizontal

from engine.core.format import short
from tui.glyphs import Glyphs
from tui.marks import Line, line
from tui.widgets.chart import Ghost, RateChart
from tui.widgets.column_cache import Axis, Points
from tui.widgets.text_lines import Lines

SCALE_CELLS = 7  # left of the charts and the ribbon, whose columns are the same moments
MIDDLE_ROWS = 5  # a chart of this many rows has a value in the middle, too


class ScaledChart(Horizontal):
    """Scale and chart side by side; `word` names the figure of a chart that does not begin at 0."""

    DEFAULT_CSS = f"""
    ScaledChart > Lines {{ width: {SCALE_CELLS}; height: 1fr; }}
    """

    def __init__(
        self,
        glyphs: Glyphs,
        *,
        id: str,
        chart_id: str,
        word: str = "",
        log: bool = False,
        resized: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(id=id)
        self._word = word
        self.chart = RateChart(glyphs, id=chart_id, log=log, resized=resized)
        self._scale = Lines()

    def compose(self) -> ComposeResult:
        yield self._scale
        yield self.chart

    def show(
        self,
        points: Points,
        axis: Axis,
        stalls: Iterable[tuple[float, float]] = (),
        base: float | None = None,
        base_label: str = "base",
        cursor: float | None = None,
        ghost: Ghost | None = None,
        cross: float | None = None,
    ) -> None:
        chart = self.chart
        chart.show(points, axis, stalls, base, base_label, cursor, None, ghost, cross)
        self._scale.show(scale((chart.top, self._middle, chart.foot), chart.size.height, self._word))

    @property
    def _middle(self) -> float | None:
        """Value in the middle; None if a logarithmic scale has no power of ten there."""
        top, foot = self.chart.top, self.chart.foot
        if not self.chart.logarithmic:
            return top / 2
        return None if foot <= 0 or round(log10(top / foot)) % 2 else (top * foot) ** 0.5

    def clear(self) -> None:
        self.chart.clear()
        self._scale.show([])


def scale(values: tuple[float, float | None, float], rows: int, word: str = "", cells: int = SCALE_CELLS) -> list[Line]:
    """Lines left of a chart: its greatest value, the middle and the least; and a word, if it fits."""
    top, middle, foot = values
    texts = {rows - 1: short(foot), 0: short(top) if top > 0 else ""}
    if middle is not None and (rows >= MIDDLE_ROWS or (word and rows >= MIDDLE_ROWS - 1)):
        texts[rows // 2] = short(middle)
    if word:
        texts[1 if rows >= MIDDLE_ROWS - 1 else rows - 1] = word
    if rows <= 1:
        return [line((f"{texts[0]:>{cells - 1}}", "dim"))]
    return [line((f"{texts[y]:>{cells - 1}}", "dim")) if y in texts else line() for y in range(rows)]

"""A chart with its scale at the left: the value at the upper edge, and what stands at the lower."""

from collections.abc import Callable, Iterable

from textual.app import ComposeResult
from textual.containers import Horizontal

from engine.core.format import short
from tui.glyphs import Glyphs
from tui.marks import Line, line
from tui.widgets.chart import Axis, Points, RateChart
from tui.widgets.lines import Lines

SCALE_CELLS = 7  # left of the charts and the ribbon, whose columns are the same moments


class ScaledChart(Horizontal):
    """The two side by side; `foot` is a word or the value at the lower edge."""

    DEFAULT_CSS = f"""
    ScaledChart > Lines {{ width: {SCALE_CELLS}; height: 1fr; }}
    """

    def __init__(
        self, glyphs: Glyphs, foot: str, *, id: str, chart_id: str, resized: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(id=id)
        self._foot = foot
        self.chart = RateChart(glyphs, id=chart_id, resized=resized)
        self._scale = Lines()

    def compose(self) -> ComposeResult:
        yield self._scale
        yield self.chart

    def show(
        self,
        points: Points,
        axis: Axis,
        stalls: Iterable[tuple[float, float]],
        base: float | None = None,
        base_label: str = "base",
        cursor: float | None = None,
    ) -> None:
        """Draws the points: see `RateChart.show`."""
        self.chart.show(points, axis, stalls, base, base_label, cursor)
        self._scale.show(scale(self.chart.top, self.chart.size.height, self._foot))

    def clear(self) -> None:
        self.chart.clear()
        self._scale.show([])


def scale(top: float, rows: int, foot: str, cells: int = SCALE_CELLS) -> list[Line]:
    """What stands left of a chart: the value at its upper edge, and `foot` at the lower."""
    edge = [line((f"{short(top) if top > 0 else '':>{cells - 1}}", "dim"))]
    return [*edge, *[line()] * (rows - 2), line((f"{foot:>{cells - 1}}", "dim"))] if rows > 1 else edge

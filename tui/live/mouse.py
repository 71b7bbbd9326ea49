"""The mouse on the charts of the Live screen: hovering reads out a column, dragging and the wheel zoom.

Methods return a notice for the user, possibly empty, or None if nothing has changed.
"""

from collections.abc import Callable

from textual.geometry import Offset
from textual.widget import Widget

from engine.view.step_series import SECOND_NS
from tui.live.charts import Charts
from tui.live.playback import Playback
from tui.live.pointer import Pointer, moment_of
from tui.widgets import axes

AROUND_NS = 30 * SECOND_NS  # shown around a moment that was clicked on the ribbon


class Mouse:
    """`seek` moves a replay to a moment."""

    def __init__(self, charts: Charts, pointer: Pointer, playback: Playback, seek: Callable[[float], None]) -> None:
        self._charts, self._pointer, self._playback, self._seek = charts, pointer, playback, seek
        self._pressed: tuple[Widget, int] | None = None  # chart and column where the button went down

    def _moment(self, x: int) -> float | None:
        view = self._playback.view
        if view is None or view.step is None:
            return None
        return moment_of(self._pointer.axis(view), self._charts.cells, x)

    def move(self, offset: Offset) -> str | None:
        """Read out the column under the mouse, except on the ribbon, which always shows the whole step."""
        target = self._charts.column_at(offset)
        on_chart = target is not None and target[0] is not self._charts.ribbon
        moment = self._moment(target[1]) if target is not None and on_chart else None
        return "" if self._pointer.hover(moment) else None

    def press(self, offset: Offset) -> None:
        self._pressed = self._charts.column_at(offset)

    def release(self, offset: Offset) -> str | None:
        """Show the part that was dragged over; on the ribbon a click without a drag has a meaning of its own."""
        pressed, self._pressed = self._pressed, None
        released, view = self._charts.column_at(offset), self._playback.view
        if pressed is None or released is None or pressed[0] is not released[0] or view is None:
            return None
        on_ribbon = released[0] is self._charts.ribbon
        if pressed[1] == released[1]:
            return self._click_ribbon(released[1]) if on_ribbon else None
        axis = axes.of(view) if on_ribbon else self._pointer.axis(view)
        start, end = (moment_of(axis, self._charts.cells, x) for x in (pressed[1], released[1]))
        zoomed = self._pointer.zoom(view, start, end)
        self._pointer.cross = None
        return "" if zoomed else "that is too short to zoom to"

    def wheel(self, offset: Offset, factor: float) -> str | None:
        """Scale the visible part by `factor` around the column under the mouse."""
        target, view = self._charts.column_at(offset), self._playback.view
        if target is None or view is None or (moment := self._moment(target[1])) is None:
            return None
        self._pointer.scale(view, moment, factor)
        return ""

    def _click_ribbon(self, x: int) -> str | None:
        """Choose the stall there; without one, seek there in a replay, or zoom to its surroundings live."""
        view = self._playback.view
        assert view is not None
        full, cells = axes.of(view), self._charts.cells
        moment = moment_of(full, cells, x)
        if stall := self._playback.stall_at(moment, (full.end - full.start) / max(1, cells)):
            self._playback.choose_stall(stall)
            return ""
        if self._playback.replay is not None and view.interleaved is None:
            self._seek(moment)
            return None
        return "" if self._pointer.zoom(view, moment - AROUND_NS, moment + AROUND_NS) else None

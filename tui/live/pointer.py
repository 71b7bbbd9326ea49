"""The part of a step that the charts show, and the column that is read out."""

from dataclasses import dataclass

from engine.view.step_series import SECOND_NS
from engine.view.view_state import ViewState
from tui.widgets import axes
from tui.widgets.axes import WINDOWS
from tui.widgets.column_cache import Axis

NO_STEP = "no step has started yet"
LEAST_NS = 2 * SECOND_NS  # least zoom: a tick comes once a second


@dataclass(slots=True)
class Pointer:
    """`window` indexes `WINDOWS`, unless a `part` was dragged over; `cross` is read out, `hovers` if by the mouse."""

    window: int = 0
    part: tuple[float, float] | None = None
    cross: float | None = None
    hovers: bool = False

    @property
    def at_rest(self) -> bool:
        """Whether the whole step is shown and nothing read out."""
        return self.window == 0 and self.part is None and self.cross is None

    def axis(self, view: ViewState) -> Axis:
        full = axes.of(view)
        if self.part is None:
            return axes.window(full, WINDOWS[self.window][1])
        return Axis(*self.part, min(self.part[1], full.at))

    def words(self, view: ViewState) -> str:
        """The visible part in words: `0-2m00s`, `60 s`, or its start and end."""
        full = axes.of(view)
        if self.part is None:
            return axes.words(full, self.window)
        start, end = ((at - full.start) / SECOND_NS for at in self.part)
        return f"{axes.moment(start)}-{axes.moment(end)}"

    def zoom(self, view: ViewState, one: float, other: float) -> bool:
        """Show the part between two moments; False if it is too short."""
        full = axes.of(view)
        start, end = max(full.start, min(one, other)), min(full.end, max(one, other))
        if end - start < LEAST_NS:
            return False
        self.part, self.window = (start, end), 0
        return True

    def zoom_next(self, view: ViewState | None) -> str:
        """Show the next window, or the whole step after a part of it; returns a notice."""
        if view is None or view.step is None:
            return NO_STEP
        if self.part is not None:
            self.part = None
            return ""
        before, self.window = self.window, axes.narrower(axes.of(view), self.window)
        return "" if before != self.window else f"the whole step is no longer than {WINDOWS[-1][0]}"

    def move(self, view: ViewState | None, cells: int, by: int) -> str:
        """Move the crosshair by columns of a chart of `cells`, starting at the end. Returns a notice."""
        if view is None or view.step is None:
            return NO_STEP
        self.hovers = False
        axis = self.axis(view)
        width = (axis.end - axis.start) / max(1, cells)
        moment = axis.at - width / 2 if self.cross is None else self.cross + by * width
        before, self.cross = self.cross, max(axis.start + width / 2, min(moment, axis.at - width / 2))
        return (
            ""
            if before != self.cross
            else f"nothing {'earlier' if by < 0 else 'later'} is shown; esc reads out nothing"
        )

    def point(self, moment: float) -> None:
        self.cross, self.hovers = moment, False

    def hover(self, moment: float | None) -> bool:
        """Read out the moment under the mouse, or None once it has left; returns whether that changed."""
        if moment is None:
            changed = self.hovers
            if changed:
                self.cross, self.hovers = None, False
            return changed
        changed = moment != self.cross
        if changed:
            self.cross, self.hovers = moment, True
        return changed

    def scale(self, view: ViewState, moment: float, factor: float) -> None:
        """Scale the visible part by `factor` around a moment."""
        axis, full = self.axis(view), axes.of(view)
        start, end = (moment + (edge - moment) * factor for edge in (axis.start, axis.end))
        if start <= full.start and end >= full.end:
            self.forget()
        else:
            self.zoom(view, start, end)

    def follow(self, before: ViewState | None, view: ViewState) -> None:
        """Drop state that belongs to another step than `view` shows."""
        if before is None or before.step is None or view.step is None:
            self.forget()
        elif view.step.id != before.step.id:
            self.part = self.cross = None

    def forget(self) -> None:
        self.window, self.part, self.cross = 0, None, None


def column_of(axis: Axis, at: float, cells: int) -> tuple[float, float]:
    """Start and end of the column that holds a moment."""
    width = (axis.end - axis.start) / max(1, cells)
    place = max(0, min(cells - 1, int((at - axis.start) / width))) if width > 0 else 0
    return axis.start + place * width, axis.start + (place + 1) * width


def moment_of(axis: Axis, cells: int, x: int) -> float:
    """The middle of a column."""
    return axis.start + (min(max(x, 0), cells - 1) + 0.5) * (axis.end - axis.start) / max(1, cells)

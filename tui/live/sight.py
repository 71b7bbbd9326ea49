"""What part of a step is looked at, and which column of it is read out."""

from dataclasses import dataclass

from engine.view.step_series import SECOND_NS
from engine.view.view_state import ViewState
from tui.widgets import axes
from tui.widgets.axes import WINDOWS
from tui.widgets.taken import Axis

LEAST_NS = 2 * SECOND_NS  # that is zoomed to: a tick comes once a second


@dataclass(slots=True)
class Sight:
    """`window` is a place in `WINDOWS`; a `part` of the axis that was dragged over goes before it.

    `cross` is the moment that is read out.
    """

    window: int = 0
    part: tuple[float, float] | None = None
    cross: float | None = None

    def axis(self, view: ViewState) -> Axis:
        """What is shown of the step."""
        whole = axes.of(view)
        if self.part is None:
            return axes.window(whole, WINDOWS[self.window][1])
        return Axis(*self.part, min(self.part[1], whole.at))

    def words(self, view: ViewState) -> str:
        """How wide it is: `0-2m00s`, `60 s`, or from when to when."""
        whole = axes.of(view)
        if self.part is None:
            return axes.words(whole, self.window)
        start, end = ((at - whole.start) / SECOND_NS for at in self.part)
        return f"{axes.moment(start)}-{axes.moment(end)}"

    def zoom(self, view: ViewState, one: float, other: float) -> bool:
        """Shows the part between two moments; False where that is too short."""
        whole = axes.of(view)
        start, end = max(whole.start, min(one, other)), min(whole.end, max(one, other))
        if end - start < LEAST_NS:
            return False
        self.part, self.window = (start, end), 0
        return True

    def narrower(self, view: ViewState) -> bool:
        """The next window, or the whole step after a part of it; False where that is what is shown already."""
        if self.part is not None:
            self.part = None
            return True
        before, self.window = self.window, axes.narrower(axes.of(view), self.window)
        return before != self.window

    def move(self, view: ViewState, cells: int, by: int) -> bool:
        """Moves what is read out by so many columns of a chart of so many cells; from nowhere it begins at the end.

        False where it stands at the edge.
        """
        axis = self.axis(view)
        width = (axis.end - axis.start) / max(1, cells)
        known = axis.at - width / 2 if self.cross is None else self.cross + by * width
        before, self.cross = self.cross, max(axis.start + width / 2, min(known, axis.at - width / 2))
        return before != self.cross

    def forget(self) -> None:
        """The whole step, nothing read out."""
        self.window, self.part, self.cross = 0, None, None


def column_of(axis: Axis, at: float, cells: int) -> tuple[float, float]:
    """From when to when the column lies that holds a moment."""
    width = (axis.end - axis.start) / max(1, cells)
    place = max(0, min(cells - 1, int((at - axis.start) / width))) if width > 0 else 0
    return axis.start + place * width, axis.start + (place + 1) * width


def moment_of(axis: Axis, cells: int, x: int) -> float:
    """The middle of a column."""
    return axis.start + (min(max(x, 0), cells - 1) + 0.5) * (axis.end - axis.start) / max(1, cells)

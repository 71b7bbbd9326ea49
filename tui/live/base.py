"""What the parts of the Live screen share: what is looked at, and its widgets."""

from collections.abc import Callable, Sequence

from engine.core.errors import UserError
from engine.journal.rows import EventRow
from engine.view.events import main_stall
from engine.view.player import Player, legible
from engine.view.view_state import ViewState
from tui.live.charts import Charts
from tui.live.sight import Sight
from tui.screens.base import BenchScreen
from tui.widgets.lines import Lines
from tui.widgets.rows import Rows


class LiveBase(BenchScreen):
    """The state of the screen. `view` is the moment that is shown, None before the first."""

    _charts: Charts
    _roles: Lines
    _events: Rows

    def __init__(self) -> None:
        super().__init__()
        self.player: Player | None = None
        self.view: ViewState | None = None
        self.sight = Sight()
        self._kind = ""  # of role that the chart shows; empty: the step's own
        self._cursor: int | None = None  # id of the stall that n and N stand on

    def repaint(self) -> None:
        """Looks, and shows what there is to see."""
        raise NotImplementedError

    def _redraw(self) -> None:
        """Shows the same moment again: its size, its window or its role is another."""
        raise NotImplementedError

    def action_stall(self, by: int) -> None:
        """The next stall, or the one before."""
        raise NotImplementedError

    def _show_error(self, text: str) -> None:
        raise NotImplementedError

    def _try(self, act: Callable[[], object]) -> None:
        """Does what reads the record; where that cannot be understood, says so in a line."""
        try:
            with legible(self.context.run or self.context.out):
                act()
        except UserError as error:
            self._show_error(str(error))

    @property
    def _replayed(self) -> Player | None:
        """The player, where what it plays is recorded."""
        return self.player if self.player is not None and self.player.replay else None

    @property
    def _stalls(self) -> Sequence[EventRow]:
        return self.view.stalls if self.view is not None else ()

    @property
    def _chosen_stall(self) -> EventRow | None:
        return next((stall for stall in self._stalls if stall.id == self._cursor), None)

    def _detail_of(self, stall: EventRow | None) -> None:
        """Opens the detail of a stall, or of the last one."""
        from tui.live.stall import StallScreen

        if self.player is None or self.view is None or not (found := self.view.incidents):
            self.notify_line("no stall in this step so far")
            return
        self.app.push_screen(StallScreen(self.player, self.view, stall or main_stall(found[-1])))

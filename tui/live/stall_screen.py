"""The detail of a stall, over the Live screen."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.widget import Widget

from engine.core.errors import UserError
from engine.journal.rows import EventRow
from engine.view.events import main_stall
from engine.view.player import Player, legible
from engine.view.view_state import ViewState
from tui.keys import key
from tui.live.stall_detail import detail
from tui.marks import Line, folded
from tui.screens.bench_screen import BenchScreen
from tui.widgets.text_lines import Lines


class StallScreen(BenchScreen):
    TITLE_WORD: ClassVar[str] = "STALL"
    DEFAULT_CSS = "StallScreen #detail { height: 1fr; scrollbar-size-vertical: 0; }"
    BINDINGS: ClassVar[list[Binding]] = [  # type: ignore[assignment]
        key("escape", "app.leave", "back", "stall.close"),
        key("n", "stall(1)", "next", "stall.next", shown="n/N"),
        key("f", "flame", "flame", "stall.flame"),
        key("N", "stall(-1)", "previous one", "stall.previous", show=False),
        key("down,j,pagedown", "scroll('page_down')", "further", "stall.down", shown="down"),
        key("up,k,pageup", "scroll('page_up')", "back up", "stall.up", show=False),
    ]

    def __init__(self, player: Player, view: ViewState, stall: EventRow) -> None:
        super().__init__()
        self._player, self._view, self._stall = player, view, stall
        self._lines: list[Line] = []

    def parts(self) -> Sequence[Widget]:
        self._detail = Lines()
        return [VerticalScroll(self._detail, id="detail", can_focus=False)]

    def on_mount(self) -> None:
        """Show the stall once the size is known, and again while it lasts."""
        self.call_after_refresh(self.read)
        self.set_interval(1.0, self.follow)

    def small(self) -> Sequence[Line]:
        return self._lines

    def follow(self) -> None:
        if self._stall.ended_ns is None and not self._player.replay:
            self.read()

    def read(self) -> None:
        try:
            with legible(self._player.run):
                view = self._player.look()
                if view.step is not None and view.step.id == self._stall.step_id:
                    self._view = view  # otherwise the step is over, and its last view stays
                self._stall = next((stall for stall in self._view.stalls if stall.id == self._stall.id), self._stall)
                self._lines = detail(
                    self._player.reader, self._view, self._stall, self.glyphs, min(self.size.width, 160)
                )
        except UserError as error:
            self._lines = folded(str(error), self.size.width, "warning")
        self._detail.show(self._lines)
        self.refresh_small()

    def action_scroll(self, how: str) -> None:
        getattr(self.query_one(VerticalScroll), f"scroll_{how}")(animate=False)

    def action_flame(self) -> None:
        """Open the flame graph of the whole step: stacks are added up at its end."""
        from tui.flame.screen import Asked, FlameScreen  # deferred past the first paint of Live

        view = self._view
        if view.step is not None and view.cell is not None:
            roles = tuple(dict.fromkeys([str(self._stall.role), *(role.name for role in view.roles)]))
            self.app.push_screen(FlameScreen(Asked(self._player.run, view.step.name, roles, cell=view.cell.id)))

    def action_stall(self, by: int) -> None:
        incidents = self._view.incidents
        places = [place for place, incident in enumerate(incidents) if self._stall in incident]
        if places:
            self._stall = main_stall(incidents[(places[0] + by) % len(incidents)])
        self.query_one(VerticalScroll).scroll_home(animate=False)
        self.read()

"""The detail of a stall, over the Live screen."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import ClassVar

from textual.binding import Binding
from textual.widget import Widget

from engine.errors import UserError
from engine.journal import EventRow
from tui.keys import key
from tui.live.picture import Picture
from tui.live.playing import Player, legible
from tui.live.stall_text import detail
from tui.marks import Line, line
from tui.screens.base import BenchScreen
from tui.widgets.lines import Lines


class StallScreen(BenchScreen):
    """One stall, with everything that went on around it."""

    TITLE_WORD: ClassVar[str] = "STALL"
    DEFAULT_CSS = "StallScreen #detail { height: 1fr; }"
    BINDINGS: ClassVar[list[Binding]] = [  # type: ignore[assignment]
        key("escape", "app.leave", "back", "stall.close"),
        key("n", "stall(1)", "next", "stall.next", shown="n/N"),
        key("N", "stall(-1)", "the one before", "stall.previous", show=False),
        key("down,j,pagedown", "scroll(1)", "further", "stall.down", shown="down"),
        key("up,k,pageup", "scroll(-1)", "back up", "stall.up", show=False),
    ]

    def __init__(self, player: Player, picture: Picture, stall: EventRow) -> None:
        super().__init__()
        self._player, self._picture, self._stall = player, picture, stall
        self._lines: list[Line] = []
        self._top = 0

    def parts(self) -> Sequence[Widget]:
        """One list of lines."""
        self._detail = Lines(id="detail")
        return [self._detail]

    def on_mount(self) -> None:
        """Shows it once the size is known, and again while it lasts."""
        self.call_after_refresh(self._read)
        self.set_interval(1.0, self._follow)

    def small(self) -> Sequence[Line]:
        """As much as there is room for."""
        return self._lines

    def _follow(self) -> None:
        if self._stall.ended_ns is None and not self._player.replay:
            self._read()

    def _read(self) -> None:
        try:
            with legible(self._player.run):
                picture = self._player.look()
                if picture.step is not None and picture.step.id == self._stall.step_id:
                    self._picture = picture  # else the step is over, and stays as it was seen last
                now = [stall for stall in self._picture.stalls if stall.id == self._stall.id]
                self._stall = now[0] if now else self._stall
                self._lines = detail(
                    self._player.reader, self._picture, self._stall, self.glyphs, min(self.size.width, 160)
                )
        except UserError as error:
            self._lines = [line((f" {row}", "warning")) for row in wrap(str(error), max(20, self.size.width - 2))]
        self.action_scroll(0)
        self.refresh_small()

    def action_scroll(self, pages: int) -> None:
        """Further down, or back."""
        rows = max(1, self._detail.size.height)
        self._top = max(0, min(self._top + pages * (rows - 1), len(self._lines) - rows))
        self._detail.show(self._lines[self._top : self._top + rows])

    def action_stall(self, by: int) -> None:
        """Another stall of the step."""
        stalls = self._picture.stalls
        ids = [stall.id for stall in stalls]
        if self._stall.id in ids:
            self._stall = stalls[(ids.index(self._stall.id) + by) % len(ids)]
        self._top = 0
        self._read()

"""The keys that move a replay."""

from collections.abc import Callable

from engine.core.format import seconds_of
from engine.view.events import incident_words
from engine.view.player import Player
from engine.view.step_series import SECOND_NS
from tui.live.base import LiveBase


class Replaying(LiveBase):
    """To a time, to a stall, faster."""

    def _move(self, how: Callable[[Player], object]) -> None:
        """Does something to the replay, and shows what comes of it."""
        player = self._replayed
        if player is None:
            self.notify_line("this is live: replay a cell from History (5)")
            return
        self.notify_line("")  # of where it was
        self._try(lambda: how(player))
        self.repaint()

    def _seek_stall(self, by: int) -> None:
        """Where the whole of the next incident is seen, and what followed it."""

        def seek(player: Player) -> None:
            found = player.seek_stall(by)
            if found is None:
                self.notify_line("no later stall" if by > 0 else "no earlier stall")
            else:
                self.notify_line(incident_words(found, player.position_ns))

        self._move(seek)

    def action_seek(self, seconds: int) -> None:
        self._move(lambda player: player.seek(player.position_ns + seconds * SECOND_NS))

    def action_speed(self, by: int) -> None:
        self._move(lambda player: player.faster(by))

    def action_go(self) -> None:
        from tui.screens.over import LineScreen

        if self._replayed is None or self.view is None or self.view.step is None:
            self._move(lambda _: None)
            return
        start_ns = self.view.step.started_ns

        def go(text: str) -> None:
            try:
                t_ns = start_ns + int(seconds_of(text) * SECOND_NS)
            except (ValueError, OverflowError):
                self.notify_line(f"{text}: give seconds, mm:ss or hh:mm:ss", "warning")
            else:
                self._move(lambda player: player.seek(t_ns))

        self.bench.ask_user(LineScreen("Go to a time of the step (seconds, mm:ss or hh:mm:ss):"), go)

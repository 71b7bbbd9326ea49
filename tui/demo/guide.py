"""The interface with a guide, which presses keys as a person would and explains what they show.

Enter and right go on once that is shown, left goes back, and space holds it. Escape ends the guide, and so does any
other key, which then acts as usual; `G` resumes it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from textual import events
from textual.timer import Timer

from tui.app import Bench
from tui.marks import hanging, line
from tui.screens.bench_screen import BenchScreen
from tui.widgets.text_lines import Lines

BETWEEN_KEYS_S = 0.35
PATIENCE = 60  # attempts to find the awaited words


@dataclass(frozen=True, slots=True)
class TourStop:
    """Keys to press, words to say once `until` is on the screen, and how long they stay.

    `replay` is a cell and a step to play first. `anew`: with these its keys lead there from anywhere, and those of the
    stops after it follow. `top`: the words are about the lower part of the screen.
    """

    seconds: float
    text: str
    keys: tuple[str, ...] = ()
    until: str = ""
    replay: tuple[str, str] | None = None
    anew: bool = False
    top: bool = False


class GuideBox(Lines):
    DEFAULT_CSS = """
    GuideBox { layer: guide; dock: bottom; width: 100%; height: auto; margin: 0 0 1 0; padding: 0 1;
               border: round $primary; background: $surface; }
    GuideBox.-top { dock: top; margin: 1 0 0 0; }
    .-ascii GuideBox { border: ascii $primary; }
    """


class GuidedBench(Bench):
    CSS = Bench.CSS + "BenchScreen { layers: default guide; }"

    def guide(self, stops: Sequence[TourStop], pace: float = 1.0) -> None:
        """Set the stops before the application runs; `pace` multiplies all times."""
        self.stops = tuple(stops)
        self.pace = pace
        self.place, self._left = -1, 0  # where it is, and where it ended
        self._box: GuideBox | None = None
        self._waits: Timer | None = None
        self._run = self.context.run
        self._own: list[events.Key] = []  # keys it has pressed that are not handled yet

    def on_mount(self) -> None:
        self._after(BETWEEN_KEYS_S, self._go_on)

    def _after(self, seconds: float, act: Callable[[], object]) -> None:
        """Call `act` after a delay, unless something else is scheduled first."""
        if self._waits is not None:
            self._waits.stop()
        self._waits = self.set_timer(seconds * self.pace, act)

    async def on_event(self, event: events.Event) -> None:
        """Handle the user's keys while the guide is active, and the one that resumes it."""
        if not isinstance(event, events.Key) or event.is_forwarded:
            await super().on_event(event)
        elif not self.guided:
            if event.key == "G" and isinstance(self.screen, BenchScreen):
                self._go_to(self._left)
            else:
                await super().on_event(event)
        elif any(event is sent for sent in self._own):
            self._own = [sent for sent in self._own if sent is not event]
            await super().on_event(event)
        elif event.key in ("enter", "right"):
            if self._box is not None:  # otherwise what the words are about is still to come
                self._go_on()
        elif event.key == "left":
            if self._box is not None and self.place:
                self._go_to(self.place - 1)
        elif event.key == "space" and self._box is not None:
            if self._waits is not None:
                self._waits.stop()
        else:
            await self._end()
            if event.key != "escape":
                await super().on_event(event)
            self.set_timer(BETWEEN_KEYS_S, self._say_over)  # on the screen that the key leads to

    @property
    def guided(self) -> bool:
        return self.place < len(self.stops)

    def _go_on(self) -> None:
        self.run_worker(self._next(), group="guide", exclusive=True, exit_on_error=False)

    def _go_to(self, place: int) -> None:
        """Come to a stop from anywhere: from the last one before it whose keys lead there from any screen."""
        stops = self.stops[: place + 1]
        first = max((at for at, stop in enumerate(stops) if stop.anew), default=0)
        self.action_open("live")
        if self._run is not None and self.context.run != self._run:
            self.select(self._run)
        keys = [key for stop in stops[first:] for key in stop.keys]
        self.place = place - 1
        self.run_worker(self._next(stops[first].replay, keys), group="guide", exclusive=True, exit_on_error=False)

    async def _next(self, replay: tuple[str, str] | None = None, keys: Sequence[str] | None = None) -> None:
        if self._waits is not None:
            self._waits.stop()
        self.place += 1
        if not self.guided:
            await self._end()
            self._say_over()
            return
        stop = self.stops[self.place]
        await self._remove()
        replay = stop.replay if keys is None and self.place else replay
        if replay is not None and self.context.run is not None:
            self.replay(self.context.run, *replay)
        self._press(stop.keys if keys is None else keys)

    def _press(self, keys: Sequence[str]) -> None:
        if not self.guided:
            return
        if not keys:
            self._after(BETWEEN_KEYS_S, lambda: self._await(PATIENCE))
            return
        event = events.Key(keys[0], keys[0] if len(keys[0]) == 1 else None)
        self._own.append(event)
        self.post_message(event)
        self._after(BETWEEN_KEYS_S, lambda: self._press(keys[1:]))

    def _await(self, attempts: int) -> None:
        """Show the words once their subject is on the screen, or after enough attempts."""
        if not self.guided:
            return
        if attempts and self.stops[self.place].until not in self.screen_text():
            self._after(BETWEEN_KEYS_S, lambda: self._await(attempts - 1))
        else:
            self.call_later(self._tell)

    async def _tell(self) -> None:
        if not self.guided:
            return
        stop, screen = self.stops[self.place], self.screen
        if not isinstance(screen, BenchScreen):  # a question that has not been answered yet
            self._after(BETWEEN_KEYS_S, self._tell)
            return
        columns = max(20, screen.size.width - 4)
        where = f"{self.place + 1} of {len(self.stops)}"
        lines = hanging(("", ""), stop.text, columns, "strong")
        lines.append(line((f"{where}   left/right: pages   space: hold   any other key: leave the guide", "dim")))
        self._box = GuideBox(lines)
        self._box.set_class(stop.top, "-top")
        await screen.mount(self._box)
        self._after(stop.seconds, self._go_on)

    async def _remove(self) -> None:
        if self._box is not None:
            box, self._box = self._box, None
            await box.remove()

    async def _end(self) -> None:
        self._left = max(0, min(self.place, len(self.stops) - 1))
        self.place = len(self.stops)
        if self._waits is not None:
            self._waits.stop()
        await self._remove()

    def _say_over(self) -> None:
        self.say("the guide has ended: G resumes it; all keys work on the recording; ? shows them, q quits")

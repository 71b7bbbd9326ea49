"""State of the Live screen: a run, the moment that is shown, and the chosen role and stall."""

from collections.abc import Sequence
from pathlib import Path

from engine.core.clock import Clock
from engine.journal.rows import EventRow
from engine.view.events import incident_words, main_stall
from engine.view.player import Player, legible
from engine.view.view_state import ViewState
from tui.widgets import axes

NO_STALL = "no stall in this step so far"


class Playback:
    """A player and the state last read from it: `view` is None before the first read."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.player: Player | None = None
        self.view: ViewState | None = None
        self._held_at_ns: int | None = None  # clock reading at which painting was paused
        self._kind = ""  # of the role in the charts; empty: the step's own
        self._stall_id: int | None = None
        self._version = -1  # of the journal

    def open(self, run: Path, cell: str | None, step: str | None) -> None:
        """Play a run, or a recorded cell of it from `step` on. Raises UserError if the run cannot be read."""
        self.player = Player(run, self._clock, cell, step)

    def close(self) -> None:
        if self.player is not None:
            self.player.close()
        self.player, self.view, self._held_at_ns, self._kind, self._stall_id = None, None, None, "", None

    def show(self, view: ViewState) -> None:
        """Make `view` the moment shown; the role stays chosen in steps of one name, the stall within its step."""
        before = self.view.step if self.view is not None else None
        if before is None or view.step is None:
            self._kind = ""
        elif view.step.id != before.id:
            self._kind, self._stall_id = self._kind if view.step.name == before.name else "", None
        self.view = view

    # Time

    @property
    def replay(self) -> Player | None:
        """The player, if it plays a recording."""
        return self.player if self.player is not None and self.player.replay else None

    @property
    def at_rest(self) -> bool:
        """Whether a replay is paused: nothing changes until a key is pressed."""
        return self.replay is not None and not self.replay.playing

    @property
    def held(self) -> bool:
        return self._held_at_ns is not None

    @property
    def behind_s(self) -> float | None:
        """The time for which painting has been paused; None if it is not."""
        return None if self._held_at_ns is None else (self._clock.monotonic_ns() - self._held_at_ns) / 1e9

    def hold(self) -> None:
        """Pause a replay, or the painting of a live run; or continue."""
        if self.replay is not None:
            self.replay.pause(not self.replay.playing)
        else:
            self._held_at_ns = self._clock.monotonic_ns() if self._held_at_ns is None else None

    def stalls_changed(self) -> bool:
        """Whether a stall of a live run has begun or ended since the last call. Raises UserError."""
        player, view = self.player, self.view
        if player is None or player.replay or view is None or view.series is None:
            return False
        with legible(player.run):
            version = player.reader.version()
            if version == self._version:
                return False
            self._version = version
            sides = [side.series for side in view.interleaved.sides] if view.interleaved is not None else [view.series]
            changed = [] if self.held else [series for series in sides if series.catch_up_events()]
            return bool(changed)

    # Roles and stalls

    def kind_of(self, view: ViewState) -> str:
        return self._kind or view.primary_role

    def choose_role(self, name: str) -> None:
        if self.view is not None and self.view.series is not None:
            kinds = {role.name: role.kind for role in self.view.series.roles.values()}
            self._kind = kinds.get(name, self._kind)

    def next_role(self) -> str:
        """Show the next kind of role in the charts; returns a notice, possibly empty."""
        if self.view is None or self.view.series is None or not self.view.series.rates:
            return "no role has done anything yet"
        kinds = sorted(self.view.series.rates)
        shown = self.kind_of(self.view)
        self._kind = kinds[(kinds.index(shown) + 1) % len(kinds)] if shown in kinds else kinds[0]
        return f"{kinds[0]} is the only role of this step" if len(kinds) == 1 else ""

    @property
    def stall(self) -> EventRow | None:
        stalls = self.view.stalls if self.view is not None else ()
        return next((stall for stall in stalls if stall.id == self._stall_id), None)

    @property
    def stall_or_last(self) -> EventRow | None:
        if self.view is None or not (incidents := self.view.incidents):
            return None
        return self.stall or main_stall(incidents[-1])

    def choose_stall(self, stall: EventRow) -> None:
        self._stall_id = stall.id

    def next_stall(self, by: int) -> str:
        """Choose the next or previous stall of the step; returns its description."""
        if self.view is None or not (incidents := self.view.incidents):
            return NO_STALL
        ids = [{stall.id for stall in incident} for incident in incidents]
        place = next((place for place, stalls in enumerate(ids) if self._stall_id in stalls), None)
        place = ((0 if by > 0 else -1) if place is None else place + by) % len(incidents)
        self.choose_stall(main_stall(incidents[place]))
        return f"{place + 1}/{len(incidents)} {incident_words(incidents[place], self.view.at_ns)}"

    def stall_at(self, moment: float, tolerance: float) -> EventRow | None:
        """The main stall of the incident at a moment of the axis, give or take `tolerance`."""
        view = self.view
        for incident in view.incidents if view is not None else ():
            assert view is not None
            spans = [axes.interval(stall, view.at_ns, view.interleaved) for stall in incident]
            if min(start for start, _ in spans) - tolerance <= moment <= max(end for _, end in spans) + tolerance:
                return main_stall(incident)
        return None

    @property
    def log(self) -> Sequence[EventRow]:
        """The events of the step, the newest first."""
        return tuple(reversed(self.view.events)) if self.view is not None else ()

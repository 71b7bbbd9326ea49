"""Live driven: looking at a run or replaying its cell with the stalls, and a run that stalls under way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from engine.view.step_series import SECOND_NS
from tests.support.driving import drive
from tests.support.growing import Growing
from tui.live.screen import LiveScreen

STALLED = "002-16.3-prebuilt-auto-r1"  # of the recording, with two stalls in l.i1
Act = Callable[[Pilot[Any], LiveScreen], Awaitable[None]]


def live_of(app: Any) -> LiveScreen:
    screen = next(screen for screen in app.screen_stack if isinstance(screen, LiveScreen))
    return screen


def text(pilot: Pilot[Any]) -> str:
    shown: str = pilot.app.screen_text()  # type: ignore[attr-defined]
    return shown


async def still(_: Pilot[Any], __: LiveScreen) -> None:
    """Presses nothing."""


def look(run: Path, act: Act = still, **options: Any) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await act(pilot, live_of(pilot.app))

    drive(script, run, run.parent, **options)


def replay(recording: Path, act: Act, *, at_s: float | None = None, step: str = "l.i1", **options: Any) -> None:
    """Plays the cell with the stalls, with its clock held, from so many seconds into a step on."""

    async def placed(pilot: Pilot[Any], live: LiveScreen) -> None:
        assert live.player is not None and live.view is not None and live.view.step is not None
        if at_s is not None:
            live.player.seek(live.view.step.started_ns + int(at_s * SECOND_NS))
            live.repaint()
        await pilot.pause()
        await act(pilot, live)

    look(recording, placed, replayed=(STALLED, step), **options)


def stalling(live: Growing) -> None:
    """Forty seconds, a stall that is over, and one that lasts."""
    for second in range(40):
        live.second(insert=1000 + 10 * (second % 7), delete=900 + 5 * (second % 3), backend_cpu_ns=600_000_000)
    first = live.stall("delete")
    for _ in range(3):
        live.second(delete=0, in_flight_ns=2 * SECOND_NS)
    live.end_stall(first, "backend 4101 is stopped (SIGSTOP)")
    for _ in range(10):
        live.second()
    live.stall("insert")
    live.second(insert=0, in_flight_ns=SECOND_NS, wait_event="IO:WALSync")
    live.hand.at_ns += SECOND_NS // 2

"""The guided minute: every stop shows what it tells of, and the user's keys end it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from engine.cli.demo import PLANS, RECORDING
from engine.journal.archive import unpack
from engine.view.events import cause, main_stall, stall_seconds
from engine.view.player import Player
from engine.view.step_series import SECOND_NS
from tests.support.screens import until
from tui.demo.guide import GuideBox, GuidedBench, TourStop
from tui.demo.tour import stalled, stops_of
from tui.glyphs import SETS
from tui.live.stall_detail import detail

pytestmark = pytest.mark.slow  # opens the interface

Script = Callable[[Pilot[Any], GuidedBench], Awaitable[None]]


def staying(run: Path) -> tuple[TourStop, ...]:
    """The minute, each stop until enter is pressed."""
    return tuple(replace(stop, seconds=600.0) for stop in stops_of(stalled(run)))


def unpacked(out: Path) -> list[Path]:
    packed = (files("engine.cli").joinpath(name).read_bytes() for name in (RECORDING, PLANS))
    return [unpack(archive, "the demo", out) for archive in packed]


def guided(out: Path, script: Script, stops: Sequence[TourStop] = (), pace: float = 1.0) -> None:
    run, _ = unpacked(out)
    app = GuidedBench(out, run, SETS["ascii"], "live")
    app.context.replayed = stalled(run)[:2]
    app.guide(stops or staying(run), pace)

    async def act() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            await script(pilot, app)

    asyncio.run(act())


def guide_text(app: GuidedBench) -> str:
    boxes = list(app.screen.query(GuideBox))
    return " ".join("".join(text for text, _ in line).strip() for line in boxes[0].lines) if boxes else ""


def test_every_stop_shows_what_it_tells_of(tmp_path: Path) -> None:
    async def script(pilot: Pilot[Any], app: GuidedBench) -> None:
        stops = app.stops
        assert len(stops) == 13
        for place, stop in enumerate(stops):
            await until(pilot, lambda place=place: f"{place + 1} of {len(stops)} " in guide_text(app))  # type: ignore[misc]
            assert stop.text.split(".")[0] in guide_text(app)
            await until(pilot, lambda stop=stop: stop.until in app.screen_text())  # type: ignore[misc]
            assert "internal error" not in app.screen_text()
            await pilot.press("enter")
        await until(pilot, lambda: "the guide has ended" in app.screen_text())
        assert not app.guided and app.current_mode == "history"
        await pilot.press("G")
        for place in range(13, 0, -1):  # from the second recording back into the first, and its replays
            await until(pilot, lambda place=place: f"{place} of {len(stops)} " in guide_text(app))  # type: ignore[misc]
            await until(pilot, lambda place=place: stops[place - 1].until in app.screen_text())  # type: ignore[misc]
            await pilot.press("left")

    guided(tmp_path, script)


def test_any_other_key_ends_it_and_does_what_it_does(tmp_path: Path) -> None:
    async def script(pilot: Pilot[Any], app: GuidedBench) -> None:
        await until(pilot, lambda: "1 of " in guide_text(app))
        await pilot.press("5")
        await until(pilot, lambda: app.current_mode == "history" and "the guide has ended" in app.screen_text())
        assert guide_text(app) == "" and not app.guided

    guided(tmp_path, script)


def test_it_is_resumed_though_it_had_not_begun(tmp_path: Path) -> None:
    async def script(pilot: Pilot[Any], app: GuidedBench) -> None:
        assert guide_text(app) == "" and app.place == -1
        app.pace = 1.0
        await pilot.press("escape", "G")
        await until(pilot, lambda: "1 of 1 " in guide_text(app))

    guided(tmp_path, script, (TourStop(600, "first", until="REPLAY"),), 1000.0)


def test_it_goes_on_by_itself_and_waits_for_what_it_tells_of(tmp_path: Path) -> None:
    stops = (TourStop(0.2, "first", until="REPLAY"), TourStop(0.2, "second", ("5",), until="HISTORY"))

    async def script(pilot: Pilot[Any], app: GuidedBench) -> None:
        await until(pilot, lambda: not app.guided and app.current_mode == "history")
        await until(pilot, lambda: "the guide has ended" in app.screen_text())

    guided(tmp_path, script, stops, 1.0)


def test_space_holds_what_is_told(tmp_path: Path) -> None:
    stops = (TourStop(2.0, "first", until="REPLAY"), TourStop(600, "second", ("5",), until="HISTORY"))

    async def script(pilot: Pilot[Any], app: GuidedBench) -> None:
        await until(pilot, lambda: "1 of 2" in guide_text(app))
        await pilot.press("space")
        await pilot.pause(3.0)
        assert "1 of 2" in guide_text(app)
        await pilot.press("right")
        await until(pilot, lambda: "2 of 2" in guide_text(app))

    guided(tmp_path, script, stops)


def test_what_it_says_of_the_stalls_is_in_the_detail_of_each(tmp_path: Path) -> None:
    run, _ = unpacked(tmp_path)
    cell, step, incidents = stalled(run)
    with Player(run, cell=cell, step=step) as player:
        texts = [stop.text for stop in stops_of((cell, step, incidents))]
        for incident, text in zip((incidents[0], incidents[-1]), texts[1:3], strict=True):
            player.seek((main_stall(incident).ended_ns or 0) + SECOND_NS)
            view = player.look()
            details = " ".join(
                "".join(part for part, _ in line)
                for line in detail(player.reader, view, main_stall(incident), SETS["ascii"], 400)
            )
            assert f"{main_stall(incident).role}, {stall_seconds(main_stall(incident), 2**62):.1f} s" in details
            assert cause(main_stall(incident)) in details and cause(main_stall(incident)) in text


def test_enter_waits_for_what_is_told(tmp_path: Path) -> None:
    second = TourStop(600, "second", ("5", "4", "3"), until="the second")
    stops = (TourStop(600, "first", until="REPLAY"), second, TourStop(600, "third", ("down",)))

    async def script(pilot: Pilot[Any], app: GuidedBench) -> None:
        await until(pilot, lambda: "1 of 3" in guide_text(app))
        await pilot.press("enter")
        await until(pilot, lambda: app.current_mode != "live")
        await pilot.press("enter", "enter")
        await until(pilot, lambda: app.current_mode == "compare")
        app.screen.notify_line("the second")  # type: ignore[attr-defined]
        await until(pilot, lambda: "2 of 3" in guide_text(app))
        assert app.current_mode == "compare", "no key of the second is left out"

    guided(tmp_path, script, stops)

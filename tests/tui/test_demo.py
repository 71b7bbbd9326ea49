"""The guided minute: every stop shows what it tells of, and the user's keys end it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from engine.journal.packed import unpack
from tui.demo.guide import GuideBox, GuidedBench, Stop
from tui.demo.minute import FIRST, MINUTE
from tui.glyphs import SETS

Script = Callable[[Pilot[Any], GuidedBench], Awaitable[None]]


STAYING = tuple(replace(stop, seconds=600.0) for stop in MINUTE)  # until enter is pressed


def guided(out: Path, script: Script, stops: Sequence[Stop], pace: float, size: tuple[int, int] = (80, 24)) -> None:
    run = unpack(files("engine.cli").joinpath("demo.tar.xz").read_bytes(), "the demo", out)
    app = GuidedBench(out, run, SETS["ascii"], "live")
    app.context.replayed = FIRST
    app.guide(stops, pace)

    async def act() -> None:
        async with app.run_test(size=size) as pilot:
            await script(pilot, app)

    asyncio.run(act())


async def until(pilot: Pilot[Any], held: Callable[[], bool]) -> None:
    limit = time.monotonic() + 60
    while not held():
        assert time.monotonic() < limit, pilot.app.screen_text()  # type: ignore[attr-defined]
        await pilot.pause(0.02)


def told(app: GuidedBench) -> str:
    boxes = list(app.screen.query(GuideBox))
    return " ".join("".join(text for text, _ in line).strip() for line in boxes[0].lines) if boxes else ""


@pytest.mark.parametrize("size", [(80, 24)])
def test_every_stop_shows_what_it_tells_of(tmp_path: Path, size: tuple[int, int]) -> None:
    async def script(pilot: Pilot[Any], app: GuidedBench) -> None:
        for place, stop in enumerate(MINUTE):
            await until(pilot, lambda place=place: f"{place + 1} of {len(MINUTE)} " in told(app))  # type: ignore[misc]
            assert stop.text.split(".")[0] in told(app)
            await until(pilot, lambda stop=stop: stop.until in app.screen_text())  # type: ignore[misc]
            assert "internal error" not in app.screen_text()
            await pilot.press("enter")
        await until(pilot, lambda: "the guide has ended" in app.screen_text())
        assert not app.guided and app.current_mode == "history"

    guided(tmp_path, script, STAYING, 1.0, size)


def test_any_other_key_ends_it_and_does_what_it_does(tmp_path: Path) -> None:
    async def script(pilot: Pilot[Any], app: GuidedBench) -> None:
        await until(pilot, lambda: "1 of " in told(app))
        await pilot.press("5")
        await until(pilot, lambda: app.current_mode == "history" and "the guide has ended" in app.screen_text())
        assert told(app) == "" and not app.guided

    guided(tmp_path, script, STAYING, 1.0)


def test_it_goes_on_by_itself_and_waits_for_what_it_tells_of(tmp_path: Path) -> None:
    stops = (Stop(0.2, "first", until="REPLAY"), Stop(0.2, "second", ("5",), until="HISTORY"))

    async def script(pilot: Pilot[Any], app: GuidedBench) -> None:
        await until(pilot, lambda: not app.guided and app.current_mode == "history")
        await until(pilot, lambda: "the guide has ended" in app.screen_text())

    guided(tmp_path, script, stops, 1.0)


def test_enter_while_it_presses_keys_skips_the_words_and_no_key(tmp_path: Path) -> None:
    stops = (Stop(600, "first", until="REPLAY"), Stop(600, "second", ("5", "4", "3")), Stop(600, "third", ("down",)))

    async def script(pilot: Pilot[Any], app: GuidedBench) -> None:
        await until(pilot, lambda: "1 of 3" in told(app))
        await pilot.press("enter")
        await until(pilot, lambda: app.current_mode != "live")
        await pilot.press("enter")
        await until(pilot, lambda: "3 of 3" in told(app))
        assert app.current_mode == "compare", "what the third tells of is where the keys of the second lead"

    guided(tmp_path, script, stops, 1.0)

"""Probes driven: with the answers of `bench` given, opened on a run, and read."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.support.benchcall import Bench
from tests.support.driving import drive
from tui import bench
from tui.probes.screen import UNASKED, ProbesScreen

SECOND = 10**9
NO_BTF = (
    "probes: kernel has no BTF (CONFIG_DEBUG_INFO_BTF); bpftrace 0.27 cannot read tracepoint arguments. runq, sched "
    "and the group filter are off; planner, phases and endpoint count every server that runs this binary."
)


def listed(**states: str) -> list[dict[str, Any]]:
    """Rows as `bench probes list --json` gives them, on a machine that has all probes but for `states`."""
    rows: list[dict[str, Any]] = json.loads(Bench(Path("/nonexistent"))("probes", "list", "--json").stdout)
    return [{**row, "state": states.get(row["probe"], "ready")} for row in rows]


def answered(monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """`bench probes list` answers so, whatever this machine has; all else is asked for only. Returns what was."""
    asked: list[tuple[str, ...]] = []

    async def ask_json(*arguments: str, console: object = None) -> Any:
        return rows

    async def ask(*arguments: str, console: object = None) -> str:
        asked.append(arguments)
        return "done\n"

    monkeypatch.setattr(bench, "ask_json", ask_json)
    monkeypatch.setattr(bench, "ask", ask)
    return asked


Act = Callable[[Pilot[Any], ProbesScreen], Awaitable[None]]


def probes(pilot: Pilot[Any]) -> ProbesScreen:
    screen = pilot.app.screen_stack[0]
    assert isinstance(screen, ProbesScreen)
    return screen


async def until(pilot: Pilot[Any], held: Callable[[], bool]) -> None:
    limit = time.monotonic() + 20
    while not held():
        assert time.monotonic() < limit, text_of(pilot)
        await pilot.pause(0.02)


def text_of(pilot: Pilot[Any]) -> str:
    return pilot.app.screen_text()  # type: ignore[attr-defined, no-any-return]


async def read(pilot: Pilot[Any]) -> ProbesScreen:
    """Waits until all that is wanted has been read."""
    screen = probes(pilot)

    def done() -> bool:
        series = screen._series
        nothing = screen._run is None or screen._trouble
        return bool(
            not screen._reading and (nothing or (screen._listed is not UNASKED and series is not None and series.whole))
        )

    await until(pilot, done)
    await pilot.pause()
    return screen


def shown(run: Path | None, *pressed: str, out: Path | None = None, then: Act | None = None, **options: Any) -> str:
    """Opens Probes on a run, presses keys, and returns the screen."""
    found: list[str] = []

    async def script(pilot: Pilot[Any]) -> None:
        screen = await read(pilot)
        for key in pressed:
            await pilot.press(key)
            await pilot.pause()
            await read(pilot)
        if then is not None:
            await then(pilot, screen)
        found.append(text_of(pilot))

    folder = out or (run.parent if run is not None else Path("/nonexistent"))
    drive(script, run, folder, screen="probes", **options)
    return found[0]


TO_STALL = ("left",) * 9  # from the newest step to l.i1 of the fourth cell, in which there were stalls

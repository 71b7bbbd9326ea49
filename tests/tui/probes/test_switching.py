"""Probes on a run under way: a probe is switched in a running step, and is seen to count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.support.benchcall import LONG
from tests.support.benchcall import Bench as Command
from tests.support.screens import show_probes, text_of, until
from tui.probes.screen import ProbesScreen

pytestmark = pytest.mark.slow  # opens the interface


def test_a_probe_is_switched_on_and_off_in_a_running_step(
    new_folder: Callable[[], Path], build: Callable[[int | str], Any]
) -> None:
    """The engine answers over its socket; that `procsched` is always on needs no privilege to be said."""
    command = Command(new_folder() / "runs")
    run = command.detached("--pg", build(16).label, *LONG)
    try:
        command.await_step("l.i1")

        async def act(pilot: Pilot[Any], screen: ProbesScreen) -> None:
            await until(pilot, lambda: "REC" in text_of(pilot) and "l.i1" in text_of(pilot))
            await pilot.press(*["k"] * 7)
            await until(pilot, lambda: "ready, waiting" in text_of(pilot))
            await pilot.press("space")
            await until(pilot, lambda: "procsched is always on" in text_of(pilot))
            first = screen.moment()
            assert first is not None
            await until(pilot, lambda: (now := screen.moment()) is not None and now.end_ns > first.end_ns)

        clock = __import__("tui.app", fromlist=["Clock"]).Clock()
        show_probes(run, then=act, clock=clock)
    finally:
        command("stop", run.name)


@pytest.mark.outside
def test_a_probe_attached_to_a_running_step_is_seen_to_count(
    new_folder: Callable[[], Path], build: Callable[[int | str], Any]
) -> None:
    command = Command(new_folder() / "runs")
    run = command.detached("--pg", build(16).label, *LONG)
    try:
        command.await_step("l.i1")

        def state(pilot: Pilot[Any]) -> str:
            return next(line for line in text_of(pilot).splitlines() if "planner" in line)

        async def act(pilot: Pilot[Any], screen: ProbesScreen) -> None:
            await until(pilot, lambda: "l.i1" in text_of(pilot).splitlines()[1])
            while screen.row_name() != "planner":
                await pilot.press("j")
            await pilot.press("space")
            await until(pilot, lambda: " on " in state(pilot) and "planner us " in text_of(pilot))
            await pilot.press("space")
            await until(pilot, lambda: " off " in state(pilot))

        show_probes(run, then=act)
    finally:
        command("stop", run.name)

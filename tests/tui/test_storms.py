"""Storms of sizes, interfaces killed and terminals gone: all is borne, and the writer never knows."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.geometry import Size
from textual.pilot import Pilot
from textual.screen import Screen

from engine.journal.reader import JournalReader
from engine.journal.run_lock import is_locked
from engine.view.player import Player
from tests.support.aftermath import contents
from tests.support.journal import CELL, Growing, growing
from tests.support.screens import drive, until
from tests.support.terminal import Terminal

AHEAD_NS = 3600 * 10**9  # of the clock: a written moment is never old, however slowly an interface starts

pytestmark = pytest.mark.nightly("storms last, and are of one kind")

SIZES = ((200, 60), (80, 24), (60, 18), (20, 5), (1, 1), (130, 36), (79, 24), (80, 23), (300, 100), (61, 60), (80, 24))


@pytest.mark.parametrize("screen", ["launch", "live", "compare", "probes", "history"])
@pytest.mark.parametrize("over", ["", "question_mark", "ctrl+p"])
def test_a_screen_slower_than_resizes_settles_on_the_last(
    recording: Path, monkeypatch: pytest.MonkeyPatch, screen: str, over: str
) -> None:
    laid_out: list[Size] = []
    lay_out = Screen._screen_resized  # noqa: SLF001

    def counted(screen: Screen[Any], size: Size) -> None:
        laid_out.append(size)
        lay_out(screen, size)

    async def script(pilot: Pilot[Any]) -> None:
        if over:
            await pilot.press(over)
        app, front = pilot.app, pilot.app.screen
        front.call_later(asyncio.sleep, 0.5)  # it is busy, and finds all of these when it is done
        for size in SIZES:
            app.post_message(events.Resize(Size(*size), Size(*size)))
            await asyncio.sleep(0.03)
            front.call_later(lambda: None)  # two sizes with nothing between them are but one
        await until(pilot, lambda: app.size == front.size == Size(80, 24))
        await asyncio.sleep(1.5)  # in which nothing more is to come
        assert app.size == front.size == Size(80, 24)

    monkeypatch.setattr(Screen, "_screen_resized", counted)
    drive(script, recording, recording.parent, screen=screen)
    assert len(laid_out) < 10 * len(SIZES)  # when it does not settle, hundreds and more


# -- processes of their own


@pytest.fixture
def watchers(tmp_path: Path) -> Iterator[Callable[[Growing], Terminal]]:
    """Starts interfaces on a run, each in a terminal of its own; ends the rest of them."""
    started: list[Terminal] = []

    def watch(live: Growing) -> Terminal:
        command = [sys.executable, "-m", "tui", str(live.run), "--out", str(tmp_path)]
        started.append(Terminal(command, {"XDG_CONFIG_HOME": str(tmp_path)}))
        return started[-1]

    yield watch
    for terminal in started:
        terminal.close()


def test_killed_watchers_do_not_disturb_the_writer(tmp_path: Path, watchers: Callable[[Growing], Terminal]) -> None:
    with growing(tmp_path, start_ns=time.monotonic_ns() + AHEAD_NS) as live:
        live.second()
        terminals = [watchers(live) for _ in range(4)]  # two of them are killed, one leaves, one loses its terminal
        for terminal in terminals:
            terminal.until(b"in flight", patience_s=120)
        live.second(insert=4321)
        for terminal in terminals:
            terminal.until(b"4321", patience_s=120)
        for terminal in terminals[::2]:
            os.kill(terminal.pid, signal.SIGKILL)
        live.second(insert=8765)
        for terminal in terminals[1::2]:
            terminal.until(b"8765", patience_s=120)
        for number, terminal in enumerate(terminals[1::2]):
            if number % 2:
                terminal.write(b"q")
                assert terminal.wait() == 0
            else:
                terminal.hang_up()
        live.second()
        live.end_step()
        live.journal.end_attempt(live.attempt, live.hand.at_ns, "finished")
        assert is_locked(live.run)
    with JournalReader(live.run) as reader:
        (step,) = reader.steps(live.attempt)
        assert step.state == "finished" and len(reader.counts(step.id)) == 8
    with Player(live.run, live.hand.clock, CELL) as player:
        assert player.look().series is not None
    assert set(contents(live.run)) == {"engine.lock", "journal.db", "manifest.json", "manifest.sig"}


def test_a_torrent_of_sizes_in_a_real_terminal(tmp_path: Path, watchers: Callable[[Growing], Terminal]) -> None:
    with growing(tmp_path, start_ns=time.monotonic_ns() + AHEAD_NS) as live:
        live.second()
        terminal = watchers(live)
        terminal.until(b"in flight", patience_s=120)
        for turn in range(40):
            terminal.resize(*SIZES[turn % len(SIZES)])
            terminal.watch(0.02)
        terminal.resize(80, 24)
        live.second(insert=7654)
        terminal.until(b"7654", patience_s=120)
        terminal.write(b"q")
        assert terminal.wait() == 0

"""Properties of every screen: opening the others, help, palette, theme, copy, stopping, leaving."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import textual.timer
from textual.geometry import Size
from textual.pilot import Pilot

from engine.core.errors import UserError
from tests.support.journal import growing
from tests.support.screens import drive, text_of, until
from tui.app import Bench
from tui.marks import STYLES, THEMES, chosen_theme
from tui.screens.bench_screen import BenchScreen
from tui.screens.dialogs import AskScreen, HelpScreen

pytestmark = pytest.mark.slow  # opens the interface

SCREENS = {"1": "launch", "2": "live", "3": "compare", "4": "probes", "5": "history"}
ERROR = "internal error: LookupError: no such thing"


def app_of(pilot: Pilot[Any]) -> Bench:
    assert isinstance(pilot.app, Bench)
    return pilot.app


def test_a_resize_arrives_however_late_its_timer_begins(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = set[asyncio.Task[Any] | None]()

    def clock() -> float:
        """Return the time, a second earlier at the first call of each task."""
        task = asyncio.current_task()
        first = task not in begun
        begun.add(task)
        return time.monotonic() - first

    async def script(pilot: Pilot[Any]) -> None:
        monkeypatch.setattr(textual.timer, "_time", SimpleNamespace(get_time=clock))
        for size in (Size(60, 18), Size(100, 30)):
            await pilot.resize_terminal(*size)
            # The size of the layout: the screen has its own at once.
            await until(pilot, lambda size=size: pilot.app.screen._compositor.size == size)  # type: ignore[misc]  # noqa: SLF001

    drive(script, recording, recording.parent)


def test_each_screen_has_help_and_survives_ctrl_c_and_errors(recording: Path) -> None:
    async def fail() -> None:
        raise LookupError("no such thing")

    async def script(pilot: Pilot[Any]) -> None:
        for key, mode in SCREENS.items():
            await pilot.press(key)
            await pilot.pause()
            assert app_of(pilot).current_mode == mode
            await helped(pilot)
            await pilot.press("ctrl+c")
            await pilot.pause()
            assert "q quits, the run continues; S stops the run" in text_of(pilot)
            assert app_of(pilot).return_code is None
            app_of(pilot).screen.run_worker(fail(), exit_on_error=False)
            await until(pilot, lambda: ERROR in " ".join(text_of(pilot).split()))

    drive(script, recording, recording.parent)


async def helped(pilot: Pilot[Any]) -> None:
    """The help lists every key with its words."""
    below = app_of(pilot).screen
    words = {active.binding.description for active in below.active_bindings.values() if active.binding.id}
    await pilot.press("question_mark")
    await pilot.pause()
    assert isinstance(app_of(pilot).screen, HelpScreen)
    pages = [text_of(pilot)]
    while re.search(r"\d+ more", pages[-1]):
        await pilot.press("space")
        await pilot.pause()
        pages.append(text_of(pilot))
        assert len(pages) < 20
    assert words and not [entry for entry in words if f" {entry}" not in "".join(pages)]
    await pilot.press("escape")
    await pilot.pause()
    assert app_of(pilot).screen is below


def test_the_palette_finds_a_key_by_its_words(recording: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await pilot.press("ctrl+p")
        await pilot.pause()
        await pilot.press(*"zoom")
        await until(pilot, lambda: re.search(r"zoom {20,}z ", text_of(pilot)) is not None)
        await pilot.press("enter")
        await until(pilot, lambda: "no longer than 60 s" in text_of(pilot))

    drive(script, recording, recording.parent)


def test_a_theme_is_shown_at_the_cursor_and_all_say_the_same(recording: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        shown = text_of(pilot)
        for place, theme in enumerate(THEMES):
            await pilot.press("t", "home", *["down"] * place)
            assert app_of(pilot).theme == theme.name
            await pilot.press("enter")
            assert f"theme {theme.name};" in text_of(pilot)
            app_of(pilot).screen.notify_line("")  # type: ignore[attr-defined]
            await pilot.pause()
            assert text_of(pilot) == shown
        await pilot.press("t", "home", "escape")
        assert app_of(pilot).theme == THEMES[-1].name

    drive(script, recording, recording.parent)


def test_without_colour_the_theme_has_none(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def script(pilot: Pilot[Any]) -> None:
        assert app_of(pilot).theme == "bench-mono"

    drive(script, recording, recording.parent)
    for style in STYLES["bench-mono"].values():
        assert style.color is None and style.bgcolor is None


def test_no_state_is_its_colour_alone() -> None:
    """Marks differ from plain text by more than colour in every theme; the words come with glyphs."""
    for theme in (STYLES[theme.name] for theme in THEMES):
        for mark in ("stall", "error", "title", "cursor"):
            style = theme[mark]
            assert style.reverse or style.bold, mark
        assert theme["stall"].reverse and theme["cursor"].reverse


def test_a_theme_is_named_by_the_environment() -> None:
    assert chosen_theme({}) == "bench-dark" and chosen_theme({"PGBED_THEME": "bench-light"}) == "bench-light"
    with pytest.raises(UserError, match=r"unknown theme 'bench-lihgt' \(nearest: bench-light"):
        chosen_theme({"PGBED_THEME": "bench-lihgt"})


def test_y_copies_the_screen(recording: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        shown = text_of(pilot)
        await pilot.press("y")
        await pilot.pause()
        assert app_of(pilot).clipboard == shown
        assert "clipboard" in text_of(pilot)

    drive(script, recording, recording.parent)


def test_stopping_asks_and_no_is_no(tmp_path: Path) -> None:
    with growing(tmp_path) as live:
        live.second()

        async def script(pilot: Pilot[Any]) -> None:
            for key in ("n", "escape", "q"):
                await pilot.press("S")
                await pilot.pause()
                assert isinstance(app_of(pilot).screen, AskScreen)
                assert f"Stop {live.run.name}?" in " ".join(text_of(pilot).replace("|", " ").split())
                await pilot.press(key)
                await pilot.pause()
                assert isinstance(app_of(pilot).screen, BenchScreen) and app_of(pilot).return_code is None
                assert "stopping" not in text_of(pilot)

        drive(script, live.run, tmp_path, clock=live.hand.clock)


def test_stopping_a_run_without_an_engine_says_so(recording: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await pilot.press("S")
        await pilot.pause()
        assert "no engine is running" in " ".join(text_of(pilot).split())
        assert isinstance(app_of(pilot).screen, BenchScreen)  # there is nothing to ask

    drive(script, recording, recording.parent)


def test_stopping_without_a_run_says_so(tmp_path: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await pilot.press("S")
        assert "No run selected" in text_of(pilot)

    drive(script, None, tmp_path)


def test_q_closes_what_lies_over_a_screen_and_then_leaves(recording: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await pilot.press("question_mark", "q")
        await pilot.pause()
        assert isinstance(app_of(pilot).screen, BenchScreen) and app_of(pilot).return_code is None
        await pilot.press("q")
        assert app_of(pilot).return_code is not None

    app = drive(script, recording, recording.parent)
    assert app.return_code == 0


def test_a_worker_failing_at_exit_prints_no_traceback(tmp_path: Path) -> None:
    async def leave(pilot: Pilot[Any]) -> None:
        await pilot.press("q")

    app = drive(leave, None, tmp_path, screen="history")
    assert not app.screen_stack
    app.say("internal error: it was too late", "warning")

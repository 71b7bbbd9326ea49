"""The help of `?`: the keys of a screen, and the meaning of its figures."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.support.screens import drive, text_of
from tui.compare.comparison_table import SHORT
from tui.glossary import FIGURES, GLOSSARY, words_on
from tui.history.text import cell_columns, run_columns
from tui.live.text import COLUMNS, TIMES
from tui.screens.dialogs import _key_lines

pytestmark = pytest.mark.slow  # opens the interface

SCREENS = Path(__file__).parent
PLAIN = {"when", "host", "build", "builds", "kernel", "took", "flags", "load", "state", "tags", "run", "role",
         "pid", "steps", "time", "user", "system", "memory", "heap", "indexes", "client us"}  # fmt: skip


def test_every_column_of_figures_is_explained() -> None:
    columns = [head for head, _ in (*COLUMNS, *TIMES)] + list(SHORT.values())
    columns += [column.title for column in (*run_columns(200, {}), *cell_columns(200, one_run=False))]
    words_of = {column: words_on(f" {column}   p50 ") for column in columns if column not in PLAIN}
    assert len(words_of) > 20
    assert not [column for column, entries in words_of.items() if not entries]


def test_each_screen_has_its_own_words_and_no_entry_is_of_none() -> None:
    seen: set[str] = set()
    for name in ("launch", "live", "compare", "probes", "history"):
        words = words_on((SCREENS / f"{name}.txt").read_text())
        assert len(words) >= 3, name
    for path in SCREENS.glob("*.txt"):
        seen |= {entry.term for entry in words_on(path.read_text())}
    rare = {"bimodal", "withheld", "ETA", "0.75 of a cause", "not done", "A/A",
            "run queue", "waits", "group", "no slower"}  # fmt: skip
    assert {entry.term for entry in FIGURES} - seen <= rare
    assert 40 <= len(GLOSSARY) <= 80 and len({entry.term for entry in GLOSSARY}) == len(GLOSSARY)
    assert all(len(entry.meaning) < 130 and not entry.meaning.endswith(".") for entry in GLOSSARY)


@pytest.mark.parametrize("size", [(80, 24), (130, 36)])
def test_help_turns_from_keys_to_figures_and_back(recording: Path, size: tuple[int, int]) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await pilot.press("question_mark")
        await pilot.pause()
        assert "zoom" in text_of(pilot) and "microseconds" not in text_of(pilot)
        await pilot.press("question_mark")
        await pilot.pause()
        pages = [text_of(pilot)]
        while re.search(r"\d+ more", pages[-1]):
            await pilot.press("space")
            await pilot.pause()
            pages.append(text_of(pilot))
        text = "".join(pages)
        assert "figures on this screen" in text
        assert "microseconds of CPU that one operation" in text and "runq%" in text
        await pilot.press("question_mark")
        await pilot.pause()
        assert "zoom" in text_of(pilot) and "figures on this screen" not in text_of(pilot)

    drive(script, recording, recording.parent, size=size)


@pytest.mark.parametrize(("mode", "first"), [("compare", "b"), ("live", "space"), ("launch", "space")])
def test_important_keys_come_before_common_ones(recording: Path, mode: str, first: str) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        screen = pilot.app.screen
        while screen.unready:  # type: ignore[attr-defined]
            await pilot.pause(0.02)
        pressed = ["".join(line[0][0].split()[:1]) for line in _key_lines(screen)]
        everywhere = pressed.index("everywhere")
        moves = [pressed.index(key) for key in ("up", "down", "left", "right", "pageup", "home") if key in pressed]
        assert pressed[0] == first and len(moves) > 1
        assert not [key for key in pressed[min(moves) : everywhere] if len(key) == 1]

    drive(script, recording, recording.parent, screen=mode, size=(130, 36))

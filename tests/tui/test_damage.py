"""Damage of a run is one line on the screen: nothing of it brings the interface down, nor touches the run."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot

from engine.core.errors import UserError
from engine.journal.reader import JournalReader
from engine.journal.run_lock import is_locked
from engine.journal.writer import create_run
from engine.view.player import Player
from tests.conftest import unpacked
from tests.faults.records import JOURNALS
from tests.support.aftermath import contents, text
from tests.support.journal import Hand, growing
from tests.support.screens import STALLED, drive, until
from tui import MODES
from tui.live.screen import LiveScreen
from tui.live.stall_screen import StallScreen

pytestmark = pytest.mark.slow  # opens the interface

Harm = Callable[[Path], None]


def live_of(pilot: Pilot[Any]) -> LiveScreen:
    return next(screen for screen in pilot.app.screen_stack if isinstance(screen, LiveScreen))


def change(statement: str) -> Harm:
    def of(run: Path) -> None:
        with closing(sqlite3.connect(run / "journal.db")) as journal:
            journal.execute(statement)
            journal.commit()

    return of


def cut_to(part: float) -> Harm:
    return lambda run: os.truncate(run / "journal.db", int((run / "journal.db").stat().st_size * part))


def write(name: str, data: bytes) -> Harm:
    def of(run: Path) -> None:
        (run / name).write_bytes(data)

    return of


def manifest_with(**values: Any) -> Harm:
    def of(run: Path) -> None:
        record = json.loads((run / "manifest.json").read_text())
        (run / "manifest.json").write_text(json.dumps(record | values))

    return of


HARMED: dict[str, tuple[Harm, str]] = {
    "cut in half": (cut_to(0.5), "damaged or truncated"),
    "another database": (write("journal.db", b"SQLite format 3\0" + bytes(9999)), "damaged or truncated"),
    "no journal": (lambda run: (run / "journal.db").unlink(), "its journal.db is missing"),
    "no manifest": (lambda run: (run / "manifest.json").unlink(), "not a run's folder"),
    "manifest cut": (write("manifest.json", b'{"schema": "1'), "manifest.json: cannot be read"),
    "manifest with odd cells": (manifest_with(cells=[{"id": 3}]), "is invalid"),
    "manifest of another schema": (manifest_with(schema="2.0"), "schema 2.0, this pgbed reads 1.0"),
    "no version": (change("DELETE FROM meta"), "schema none"),
}


SIZES = ((80, 24), (60, 18), (30, 8))


@pytest.mark.parametrize("name", HARMED)
def test_a_damaged_run_is_one_line_and_is_left_as_it_is(recording: Path, name: str) -> None:
    """Each is opened in one of the sizes, has keys pressed in another, and goes to the other screens."""
    harm, said = HARMED[name]
    listed = {"no journal": "not start", "no manifest": "no runs yet"}.get(name, "unreadable")
    harm(recording)
    before = contents(recording)
    first = list(HARMED).index(name) % len(SIZES)
    sizes = (*SIZES[first:], *SIZES[:first])

    async def script(pilot: Pilot[Any]) -> None:
        for size in sizes:
            await pilot.resize_terminal(*size)
            await pilot.pause()
            if size == (80, 24):
                assert said in text(pilot)
            elif size == (60, 18):  # shows less, and so may not meet the damage
                assert said in text(pilot) or "/6 cells" in text(pilot)
            assert "Traceback" not in text(pilot)
        keys = ("space", "n", "N", "enter", "escape", "z", "i", "g", "escape", "left_square_bracket", "comma")
        await pilot.press(*keys)
        live_of(pilot).tick()
        live_of(pilot).glance()
        await pilot.pause()
        assert pilot.app.return_code is None
        await pilot.resize_terminal(200, 40)
        for mode, letters in {"compare": "bsr", "probes": "dwl", "history": "sc"}.items():
            await pilot.press(str(MODES.index(mode) + 1))
            wanted = said if mode != "history" or listed == "unreadable" else listed
            await until(pilot, lambda wanted=wanted: wanted in text(pilot))  # type: ignore[misc]
            assert mode != "history" or listed in text(pilot)
            await pilot.press(*letters, "enter", "escape")
            assert "internal error" not in text(pilot)

    drive(script, recording, recording.parent, size=sizes[0])
    assert contents(recording) == before


@given(st.sampled_from([*JOURNALS.values()]), st.randoms(use_true_random=False))
def test_a_damaged_journal_is_looked_at_anywhere_or_refused(
    tmp_path_factory: pytest.TempPathFactory, damage: Callable[[Path, random.Random], None], chance: random.Random
) -> None:
    run = unpacked("two-builds", tmp_path_factory.mktemp("damaged") / "run")
    damage(run / "journal.db", chance)
    with suppress(UserError), Player(run, Hand().clock) as player:
        player.look()
    with suppress(UserError), Player(run, Hand().clock, STALLED) as player:
        player.pause(False)
        for _ in range(3):
            player.seek(chance.randrange(2**44))
            player.look()
            player.seek_stall(chance.choice((-1, 1)))


def test_events_and_steps_of_an_unknown_kind_are_shown(recording: Path) -> None:
    shown: list[str] = []

    async def script(pilot: Pilot[Any]) -> None:
        await pilot.press("i", "enter")
        shown.append(text(pilot))

    change("UPDATE event SET kind = 'moonrise'")(recording)
    change("UPDATE step SET kind = 'moonlight'")(recording)
    drive(script, recording, recording.parent)
    assert "damaged manifest or" not in shown[0] and "moonrise" in shown[0]


def test_a_run_that_has_no_journal_yet_is_shown_once_it_has(tmp_path: Path) -> None:
    with growing(tmp_path / "made") as live:
        live.second()
        record = json.loads((live.run / "manifest.json").read_text())
        run = tmp_path / "new"
        create_run(run, record)

        async def script(pilot: Pilot[Any]) -> None:
            assert "its journal.db is missing" in text(pilot)
            with closing(sqlite3.connect(live.run / "journal.db")) as journal:
                journal.execute("VACUUM INTO ?", (str(run / "journal.db"),))
            live_of(pilot).tick()
            await pilot.pause()
            assert "l.i1" in text(pilot) and "missing" not in text(pilot)

        drive(script, run, tmp_path, clock=live.hand.clock)


def test_a_dead_engine_is_said_and_its_run_is_left_as_it_is(tmp_path: Path) -> None:
    with growing(tmp_path) as live:
        live.second()
        live.stall()
        before = contents(live.run)

    async def script(pilot: Pilot[Any]) -> None:
        assert "DIED" in text(pilot) and "the engine has exited; r in Launch resumes the run" in text(pilot)
        assert "s so far" not in text(pilot)

    for size in ((80, 24), (60, 18)):
        drive(script, live.run, tmp_path, clock=live.hand.clock, size=size)
    assert not is_locked(live.run)
    assert {name: contents(live.run)[name] for name in before if name != "journal.db"} == {
        name: before[name] for name in before if name != "journal.db"
    }
    with JournalReader(live.run) as reader:
        assert reader.attempts()[-1].state == "running"


@pytest.mark.parametrize("replayed", [None, (STALLED, "l.i1")], ids=["live", "replay"])
def test_a_run_deleted_under_it_is_said(recording: Path, replayed: tuple[str, str | None] | None) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        shutil.rmtree(recording)
        live_of(pilot).repaint()
        await pilot.pause()
        assert "the run's folder no longer exists" in text(pilot)
        for key in ("space", "n", "enter", "escape", "z", "i", "m", "g", "escape", "right_square_bracket", "full_stop"):
            await pilot.press(key)
            await pilot.pause()
        await pilot.resize_terminal(60, 18)
        await pilot.pause()
        assert "the run's folder no longer exists" in text(pilot)
        await pilot.resize_terminal(80, 24)
        for key in "134525":
            await pilot.press(key)
            await pilot.pause()
            assert pilot.app.return_code is None
        await pilot.press("2")
        await pilot.pause()
        assert "the run's folder no longer exists" in text(pilot)

    drive(script, recording, recording.parent, replayed=replayed)
    assert not recording.exists()


def test_a_run_deleted_under_the_detail_of_a_stall_is_said(recording: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await pilot.press("n", "enter")
        await pilot.pause()
        assert isinstance(pilot.app.screen, StallScreen)
        shutil.rmtree(recording)
        await pilot.press("n", "N", "down", "up")
        await pilot.pause()
        assert "the run's folder no longer exists" in text(pilot)

    drive(script, recording, recording.parent, replayed=(STALLED, "l.i1"))


def test_a_journal_cut_under_it_is_said(recording: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        cut_to(0.3)(recording)
        (recording / "journal.db").write_bytes(b"?" * 8192)
        live_of(pilot).repaint()  # of pages that were read before it may show the same
        await pilot.press("n", "enter", "i")
        live_of(pilot).watch_run()
        await pilot.pause()
        assert "damaged or truncated" in text(pilot)

    drive(script, recording, recording.parent)


def test_values_that_nobody_understands_are_said_beside_live(recording: Path) -> None:
    spoil = change("UPDATE event SET data = 'nonsense'")

    async def probes(pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: "table event: cannot be read" in text(pilot))

    spoil(recording)
    drive(probes, recording, recording.parent, screen="probes")

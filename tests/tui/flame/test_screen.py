"""The flame graph in the terminal: behind `f` on Compare and Probes, its keys, and missing stacks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from engine.journal.manifest import read_manifest
from engine.tracing import stacks
from tests.support.journal import make_run
from tests.support.screens import (
    NEW,
    OLD,
    STALLED,
    TO_STALL,
    check_screen,
    drive,
    on_line,
    place_of,
    read,
    replay,
    text_of,
    until,
)
from tui.flame.screen import Asked, FlameScreen
from tui.live.screen import LiveScreen

pytestmark = pytest.mark.slow  # opens the interface

EXEC = "PostgresMain;exec_simple_query;ExecModifyTable"
STACKS = {
    OLD: {f"{EXEC};ExecDelete": 40, f"{EXEC};index_getnext": 20, "PostgresMain;pg_plan_query;get_actual_range": 40},
    NEW: {f"{EXEC};ExecDelete": 40, f"{EXEC};index_getnext": 60, "PostgresMain;ReadCommand;pq_recv_[k]": 10},
}  # fmt: skip

Act = Callable[[Pilot[Any], FlameScreen], Awaitable[None]]


def sampled(run: Path, of: tuple[str, ...] = (OLD, NEW), *, flat: bool = False) -> None:
    for cell in read_manifest(run).cells:
        if cell.subject.build in of:
            folded = STACKS[cell.subject.build]
            if flat:
                folded = {line.rpartition(";")[2]: count for line, count in folded.items()}
            stacks.write_folded(run / "cells" / cell.id, "l.i1", "delete", folded)


def opened(recording: Path, act: Act, size: tuple[int, int] = (80, 24), glyphs: str = "braille") -> str:
    """Compare, l.i1, `f`, the role delete."""
    shown: list[str] = []

    async def script(pilot: Pilot[Any]) -> None:
        await on_line(pilot, "l.i1", "rate_per_s")
        await pilot.press("f", "down", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, FlameScreen))
        await act(pilot, await read(pilot, FlameScreen))
        await read(pilot, FlameScreen)  # another role is read anew
        shown.append(text_of(pilot))

    drive(script, recording, recording.parent, screen="compare", size=size, glyphs=glyphs)
    return shown[0]


def test_two_builds_are_drawn_against_each_other(recording: Path) -> None:
    sampled(recording)

    async def act(pilot: Pilot[Any], screen: FlameScreen) -> None:
        await pilot.press("down", "down", "down", "down")
        screen.notify_line("")
        await pilot.pause()
        check_screen(pilot.app, "flame")  # type: ignore[arg-type]

    opened(recording, act)


def test_keys_and_the_mouse_move_zoom_and_find(recording: Path) -> None:
    sampled(recording)

    async def act(pilot: Pilot[Any], screen: FlameScreen) -> None:
        rows = screen.boxes
        await pilot.press("down", "down", "down")
        assert screen.boxes is rows, "an arrow lays nothing out anew"
        await pilot.press("enter")
        assert screen.zoomed.name == "ExecModifyTable"
        await pilot.press("down", "right")
        assert screen.chosen.name == "ExecDelete"  # the wider one is further left
        await pilot.press("left")
        assert screen.chosen.name == "index_getnext"
        await pilot.press("u")
        assert screen.zoomed.name == "exec_simple_query"
        await pilot.press("escape")
        assert screen.zoomed is screen.root
        await pilot.press("slash", *"recv", "enter")
        await pilot.pause()
        assert screen.chosen.name == "pq_recv_[k]"
        assert "recv: 1 frames, 9.1% of all samples" in " ".join(text_of(pilot).split())
        await pilot.press("slash", *["backspace"] * 4, *"exec", "enter")
        await pilot.pause()
        names = []
        for _ in range(3):
            names.append(screen.chosen.name)
            await pilot.press("n")
        assert set(names) == {"exec_simple_query", "ExecModifyTable", "ExecDelete"}
        await pilot.press("slash", *["backspace"] * 4, *"nowhere", "enter")
        await pilot.pause()
        assert "no function has nowhere in its name" in text_of(pilot)
        await pilot.press("w")
        assert any(box.frame.name == "pg_plan_query" for row in screen.boxes for box in row)  # gone in the other
        x, y = place_of(pilot, "ReadCommand") if "ReadCommand" in text_of(pilot) else place_of(pilot, "exec_simple")
        await pilot.click(offset=(x, y))
        chosen = screen.chosen.name
        assert chosen in ("ReadCommand", "exec_simple_query")
        await pilot.click(offset=(x, y), times=2)
        await pilot.pause()
        assert screen.zoomed.name == chosen
        await pilot.press("o")
        await until(pilot, lambda: "run it with --probes offcpu" in " ".join(text_of(pilot).split()))
        for cell in read_manifest(recording).cells:
            stacks.write_folded(recording / "cells" / cell.id, "l.i1", "delete", {"[asleep];lock": 2_500_000}, "offcpu")
        await pilot.press("o", "o")
        await until(pilot, lambda: "s off the CPU of" in text_of(pilot))

    opened(recording, act)


def test_functions_are_listed_and_lead_to_their_frames(recording: Path) -> None:
    sampled(recording)

    async def act(pilot: Pilot[Any], screen: FlameScreen) -> None:
        await pilot.press("v")
        shown = text_of(pilot)
        assert shown.index("index_getnext") < shown.index("ExecDelete")  # what changed most comes first
        await pilot.press("down", "up", "enter")
        await pilot.pause()
        assert not screen.by_function
        assert screen.chosen.name in ("index_getnext", "get_actual_range")
        assert {frame.name for frame in screen.matches} == {screen.chosen.name}
        await pilot.press("v", "slash", *["backspace"] * 20, *"exec", "enter")
        await pilot.pause()
        functions = [function.name for function in screen.functions]
        chosen = []
        for key in ("n", "n", "n", "N", "N", "N"):
            await pilot.press(key)
            chosen.append(functions[screen.cursor])
        assert "ExecDelete" in chosen and all("exec" in name.lower() for name in chosen), chosen
        assert chosen[3] == chosen[1] and chosen[4] == chosen[0]
        assert screen.by_function
        zoomed, side, cursor = screen.zoomed, screen.side, screen.cursor
        for key in ("w", "u", "backspace"):
            await pilot.press(key)
            assert (screen.zoomed, screen.side, screen.cursor) == (zoomed, side, cursor), "the graph is not to be seen"
            assert "a key of the graph" in text_of(pilot)
        await pilot.resize_terminal(40, 14)  # too narrow for a graph
        await pilot.pause()
        assert "index_" in text_of(pilot)

    opened(recording, act)


def test_p_writes_the_page_of_what_is_shown(recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sampled(recording)
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)

    async def act(pilot: Pilot[Any], _: FlameScreen) -> None:
        await pilot.press("p")
        await until(pilot, lambda: any(here.glob("*.html")))

    opened(recording, act)
    (page,) = here.iterdir()
    assert page.name == f"{recording.name}-l.i1-delete-diff.html"
    assert f"of {OLD}" not in page.read_text() and "get_actual_range" in page.read_text()


def test_a_side_without_stacks_leaves_the_other_one_and_says_why(recording: Path) -> None:
    sampled(recording, (NEW,))

    async def act(pilot: Pilot[Any], screen: FlameScreen) -> None:
        await pilot.press("down", "w")

    shown = " ".join(opened(recording, act).split())
    assert (
        f"no stacks of {OLD} were sampled: its cells are finished, and the probe `stacks` was not on in them" in shown
    )
    assert "index_getnext" in shown


def test_without_any_stacks_it_is_one_clear_line(recording: Path) -> None:
    async def act(pilot: Pilot[Any], screen: FlameScreen) -> None:
        await pilot.press("down", "enter", "u", "v", "w", "n", "d", "slash", *"x", "enter")

    assert "no stacks were recorded in this run; run it with --probes" in " ".join(opened(recording, act).split())


def test_without_frame_pointers_functions_are_compared(recording: Path) -> None:
    sampled(recording, flat=True)

    async def act(pilot: Pilot[Any], screen: FlameScreen) -> None:
        await pilot.press("v", "v")

    shown = " ".join(opened(recording, act).split())
    assert "innermost functions only" in shown and "base other change" in shown


def test_names_of_a_foreign_record_are_shown_as_they_stand(tmp_path: Path) -> None:
    hostile = "[/red]\x1b]0;x\x07\u202e"
    run = make_run(tmp_path / "r", repeats=1)
    for cell in read_manifest(run).cells:
        stacks.write_folded(run / "cells" / cell.id, "l.i1", "insert", {f"main;{hostile}": 3})

    async def script(pilot: Pilot[Any]) -> None:
        asked = Asked(run, "l.i1", ("insert",), "16.3", "17.0")
        await pilot.app.push_screen(FlameScreen(asked))
        await read(pilot, FlameScreen)
        await pilot.press("down", "down")
        assert text_of(pilot).replace("\n", "").isprintable()
        assert "[/red]" in text_of(pilot)
        await pilot.resize_terminal(60, 18)
        await pilot.pause()
        assert "FLAME" in text_of(pilot)

    drive(script, run, tmp_path, screen="compare", size=(130, 30))


def test_a_stalls_detail_leads_to_the_stacks_of_its_role(recording: Path) -> None:
    sampled(recording)

    async def check(pilot: Pilot[Any], _: LiveScreen) -> None:
        await pilot.press("n", "enter", "f")
        await until(pilot, lambda: isinstance(pilot.app.screen, FlameScreen))
        screen = pilot.app.screen
        assert isinstance(screen, FlameScreen) and screen.asked.cell == STALLED
        while screen.role != "delete":
            await pilot.press("d")
        await until(pilot, lambda: "index_getnext" in text_of(pilot))
        await pilot.press("escape")
        assert " STALL  " in text_of(pilot)

    replay(recording, check, at_s=12)


def test_probes_show_what_functions_took_and_lead_to_the_graph(recording: Path) -> None:
    sampled(recording)
    seen: list[str] = []

    async def script(pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: "planner" in text_of(pilot) and "plannings" in text_of(pilot))
        await pilot.press(*TO_STALL)
        screen: Any = pilot.app.screen
        for _ in range(9):
            if screen.row_name() == "stacks":
                break
            await pilot.press("k")
        for _ in range(6):
            if screen.series is not None and screen.series.role == "delete":
                break
            await pilot.press("d")
            await pilot.pause(0.1)
        await until(pilot, lambda: "ExecDelete" in text_of(pilot))
        seen.append(text_of(pilot))
        await pilot.press("f")
        await until(pilot, lambda: isinstance(pilot.app.screen, FlameScreen) and "exec_simple" in text_of(pilot))

    drive(script, recording, recording.parent, screen="probes")
    assert "f opens the flame graph" in seen[0] and "with calls" in seen[0]

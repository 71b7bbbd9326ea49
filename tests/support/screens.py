"""The application without a terminal: it is opened, its keys are pressed, and its screens are read as plain text.

PGBED_UPDATE_SCREENS=1 writes the expected screens anew.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from textual.binding import Binding
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input

from engine.core.clock import Clock
from engine.view.step_series import SECOND_NS
from tests.support import benchcall
from tests.support.journal import Growing, make_run
from tui import bench
from tui.app import Bench
from tui.compare.screen import CompareScreen
from tui.flame.screen import FlameScreen
from tui.glyphs import SETS
from tui.history.screen import HistoryScreen
from tui.launch.item_panel import Panel
from tui.launch.screen import LaunchScreen
from tui.live.screen import LiveScreen
from tui.probes.screen import UNASKED, ProbesScreen
from tui.widgets.key_row import KeyRow

EXPECTED = Path(__file__).parents[1] / "tui" / "screens"
ANSWERS = EXPECTED.parent / "recordings" / "answers"
STOPPED = Clock(monotonic_ns=lambda: 12_140_000_000_000, wall_ns=lambda: 1_795_180_800_000_000_000)
PATIENCE_S = 200
# Of the recording: its name, its builds, the cell whose l.i1 has two stalls, and the way there from the newest step.
NAME = "20261120-131303-14.10_prebuilt-16.3_prebuilt"
OLD, NEW = "14.10-prebuilt", "16.3-prebuilt"
STALLED = "002-16.3-prebuilt-auto-r1"
TO_STALL = ("left",) * 9
NO_BTF = (
    "probes: kernel has no BTF (CONFIG_DEBUG_INFO_BTF); bpftrace 0.27 cannot read tracepoint arguments. runq, sched "
    "and the group filter are off; planner, phases and endpoint count every server that runs this binary."
)

S = TypeVar("S", bound=Screen[Any])
Script = Callable[[Pilot[Any]], Awaitable[Any]]
Act = Callable[[Pilot[Any], S], Awaitable[Any]]


# -- what all screens share


_parse, _parsed = Stylesheet._parse_rules, dict[tuple[object, ...], list[RuleSet]]()  # noqa: SLF001


def _parse_once(sheet: Stylesheet, *source: Any, **details: Any) -> list[RuleSet]:
    """Parse rules once for a theme: each of hundreds of applications would parse all of them for each screen."""
    key = (*sheet._variables.items(), *source, *details.items())  # noqa: SLF001
    if key not in _parsed:
        _parsed[key] = _parse(sheet, *source, **details)
    return _parsed[key]


Stylesheet._parse_rules = _parse_once  # type: ignore[assignment]  # noqa: SLF001


def drive(
    script: Script,
    run: Path | None,
    out: Path,
    *,
    screen: str = "live",
    size: tuple[int, int] = (80, 24),
    glyphs: str = "braille",
    clock: Clock = STOPPED,
    replayed: tuple[str, str | None] | None = None,
) -> Bench:
    """Run the application with a script of key presses; return it as it was at the end."""
    app = Bench(out, run, SETS[glyphs], screen, clock)
    app.context.replayed = replayed

    async def act() -> None:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            for _ in range(50):  # a screen begins without its last row
                if any(row.keys for row in app.screen.query(KeyRow)):
                    break
                await pilot.pause()
            await script(pilot)

    asyncio.run(act())
    return app


def check_screen(app: Bench, name: str) -> None:
    """Compare the screen in front with `screens/NAME.txt`."""
    path, shown = EXPECTED / f"{name}.txt", app.screen_text()
    if os.environ.get("PGBED_UPDATE_SCREENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(shown)
    expected = path.read_text().splitlines()
    differences = list(difflib.unified_diff(expected, shown.splitlines(), "expected", "shown", lineterm="", n=1))
    assert not differences, "\n".join(differences)


def text_of(pilot: Pilot[Any]) -> str:
    shown: str = pilot.app.screen_text()  # type: ignore[attr-defined]
    return shown


def words(pilot: Pilot[Any]) -> str:
    """The text of a box over the screen, however it is folded."""
    return " ".join(" ".join(row.split("│")[1] for row in text_of(pilot).splitlines() if row.count("│") > 1).split())


async def until(pilot: Pilot[Any], condition: Callable[[], bool]) -> None:
    """Wait for something that a process or a worker brings about."""
    limit = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < limit, text_of(pilot)
        await asyncio.sleep(0.05)  # a pause of the pilot has every widget answer
    await pilot.pause()


async def typed(pilot: Pilot[Any], text: str) -> None:
    """Type a line where one is asked for."""
    await until(pilot, lambda: bool(pilot.app.screen.query(Input)))
    pilot.app.screen.query_one(Input).value = text
    await pilot.press("enter")
    await pilot.pause()


def shown_keys(screen: Screen[Any]) -> list[tuple[str, Binding]]:
    """The keys of the last row as they can be clicked, with their bindings."""
    bound = {active.binding.action: active.binding for active in screen.active_bindings.values()}
    return [(key.key, bound[key.action]) for key in screen.query_one(KeyRow).keys]


def place_of(pilot: Pilot[Any], words: str) -> tuple[int, int]:
    """Column and row of words on the screen."""
    rows = text_of(pilot).splitlines()
    return next((row.index(words), y) for y, row in enumerate(rows) if words in row)


def row_with(text: str, *words: str) -> str:
    """The one line that has all words."""
    lines = [line for line in text.splitlines() if all(word in line for word in words)]
    assert len(lines) == 1, (words, text)
    return lines[0]


def notice(app: Bench) -> str:
    lines = app.screen.query_one("#notice").lines  # type: ignore[attr-defined]
    return " ".join("".join(text for text, _ in line).strip() for line in lines)


def screen_of(app: Any, kind: type[S]) -> S:
    """The application's screen of a class, in front or not."""
    stacks = app._screen_stacks.values()  # noqa: SLF001
    return next(screen for stack in stacks for screen in stack if isinstance(screen, kind))


async def read(pilot: Pilot[Any], kind: type[S]) -> S:
    """Wait until a screen has read everything it shows."""
    screen = screen_of(pilot.app, kind)
    await until(pilot, lambda: _complete(screen))
    return screen


def _complete(screen: Screen[Any]) -> bool:
    match screen:
        case CompareScreen():
            return not screen.busy and (screen.comparison is not None or bool(screen.problem))
        case FlameScreen():
            return screen.graph is not None or bool(screen.problem)
        case HistoryScreen():
            return not screen.reading and not screen.listing.unread()
        case ProbesScreen():
            series = screen.series
            listed = screen.listed is not UNASKED and series is not None and series.whole
            return not screen.reading and (screen.watched_run is None or bool(screen.trouble) or listed)
        case LaunchScreen():
            return bool(screen.checks) and bool(screen.offer.builds)
    return True


def _show(
    kind: type[S],
    run: Path | None,
    out: Path,
    *keys: str,
    then: Act[S] | None = None,
    held_to: str = "",
    ready: bool = True,
    **options: Any,
) -> str:
    """Open a screen, press keys, run a script, compare with a file; return the text that is shown at the end."""
    shown: list[str] = []

    async def script(pilot: Pilot[Any]) -> None:
        screen = await read(pilot, kind) if ready else screen_of(pilot.app, kind)
        for key in keys:
            await pilot.press(key)
            await pilot.pause()
            await read(pilot, kind)
        if then is not None:
            await then(pilot, screen)
        await pilot.pause()
        if held_to:
            check_screen(pilot.app, held_to)  # type: ignore[arg-type]
        shown.append(text_of(pilot))

    drive(script, run, out, **options)
    return shown[0]


# -- Compare


async def compared(pilot: Pilot[Any]) -> CompareScreen:
    """Wait until the comparison is there, or what went wrong."""
    return await read(pilot, CompareScreen)


async def on_line(pilot: Pilot[Any], step: str, metric: str) -> CompareScreen:
    """Move to a line of the table."""
    screen = await compared(pilot)
    while screen.chosen is not None and (screen.chosen[1].step, screen.chosen[1].metric) != (step, metric):
        before = screen.cursor
        await pilot.press("down")
        assert screen.cursor != before, f"no line {step} {metric}"
    return screen


def show_compare(run: Path, script: Script = compared, **options: Any) -> str:
    return _show(
        CompareScreen, run, run.parent, then=lambda pilot, _: script(pilot), ready=False, screen="compare", **options
    )


def printed(*arguments: str) -> str:
    """The output of the command on a terminal that knows UTF-8."""
    return subprocess.run(
        [sys.executable, "-m", "engine", *arguments],
        env=os.environ | {"PYTHONUTF8": "1", "COLUMNS": "80", "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


# -- History


def dated_run(out: Path, name: str, **values: Any) -> Path:
    """A run whose folder was last changed at a known time."""
    run = make_run(out / name, **values)
    os.utime(run, (1_795_000_000, 1_795_000_000))
    return run


def folder_of_runs(recording: Path) -> Path:
    """A folder with the recording, a run with a failed cell, one that was cut short, and one that is damaged."""
    folder = recording.parent
    dated_run(folder, "20261119-100000-16.3-17.0", repeats=2, failed={1: "disk full"}, configs=("auto", "cx9a2"))
    dated_run(folder, "20261118-100000-16.3-18.1", builds=("16.3", "18.1"), repeats=3, unfinished=(4, 5))
    damaged = folder / "20261117-100000-damaged"
    (damaged / "cells").mkdir(parents=True)
    (damaged / "manifest.json").write_text("{")
    os.utime(damaged, (1_794_800_000, 1_794_800_000))
    return folder


def show_history(out: Path, *keys: str, run: Path | None = None, **options: Any) -> str:
    return _show(HistoryScreen, run, out, *keys, screen="history", **options)


# -- Launch


def show_launch(
    act: Act[LaunchScreen], out: Path, size: tuple[int, int] = (80, 24), glyphs: str = "braille", *, ready: bool = True
) -> Bench:
    """Open Launch, by default wait for its first answers, and run a script."""

    async def script(pilot: Pilot[Any]) -> None:
        screen = screen_of(pilot.app, LaunchScreen)
        if ready:
            await read(pilot, LaunchScreen)
            screen.query_one("#builds", Panel).focus()
            await pilot.pause()
        await act(pilot, screen)

    return drive(script, None, out, screen="launch", size=size, glyphs=glyphs)


async def estimated(pilot: Pilot[Any], screen: LaunchScreen) -> None:
    """Wait for the plan's estimate, or for the plan's errors."""
    await until(pilot, lambda: screen.estimate is not None or bool(screen.trouble))


# -- Live


async def unmoved(_: Pilot[Any], __: LiveScreen) -> None:
    """Press nothing."""


def show_live(run: Path, act: Act[LiveScreen] = unmoved, **options: Any) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await act(pilot, screen_of(pilot.app, LiveScreen))

    drive(script, run, run.parent, **options)


def replay(
    recording: Path, act: Act[LiveScreen], *, at_s: float | None = None, step: str = "l.i1", **options: Any
) -> None:
    """Play the cell with the stalls, with its clock held, from `at_s` seconds into a step on."""

    async def placed(pilot: Pilot[Any], live: LiveScreen) -> None:
        assert live.player is not None and live.view is not None and live.view.step is not None
        if at_s is not None:
            live.player.seek(live.view.step.started_ns + int(at_s * SECOND_NS))
            live.repaint()
        await pilot.pause()
        await act(pilot, live)

    show_live(recording, placed, replayed=(STALLED, step), **options)


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


# -- Probes


def listed(**states: str) -> list[dict[str, Any]]:
    """Rows of `bench list probes --json` on a machine that has all probes but for `states`."""
    rows: list[dict[str, Any]] = json.loads(benchcall.Bench(Path("/nonexistent"))("list", "probes", "--json").stdout)
    return [{**row, "state": states.get(row["probe"], "ready")} for row in rows]


def answered(monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Let `bench list probes` give these rows; return the other commands, which are only noted."""
    calls: list[tuple[str, ...]] = []

    async def ask_json(*arguments: str, console: object = None) -> Any:
        return rows

    async def ask(*arguments: str, console: object = None) -> str:
        calls.append(arguments)
        return "done\n"

    monkeypatch.setattr(bench, "ask_json", ask_json)
    monkeypatch.setattr(bench, "ask", ask)
    return calls


def show_probes(run: Path | None, *keys: str, out: Path | None = None, **options: Any) -> str:
    folder = out or (run.parent if run is not None else Path("/nonexistent"))
    return _show(ProbesScreen, run, folder, *keys, screen="probes", **options)

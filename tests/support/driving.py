"""The application without a terminal, and its screens as plain text.

PGBED_UPDATE_SCREENS=1 writes what a screen should be like anew.
"""

from __future__ import annotations

import asyncio
import difflib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from textual.binding import Binding
from textual.pilot import Pilot
from textual.screen import Screen

from engine.core.clock import Clock
from tui.app import Bench
from tui.glyphs import SETS
from tui.widgets.key_row import KeyRow

HERE = Path(__file__).parents[1] / "tui"
STOPPED = Clock(monotonic_ns=lambda: 12_140_000_000_000, wall_ns=lambda: 1_795_180_800_000_000_000)

Script = Callable[[Pilot[Any]], Awaitable[None]]


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
    """Runs the application without a terminal, and a script of key presses in it; returns it as it was at the end."""
    app = Bench(out, run, SETS[glyphs], screen, clock)
    app.context.replayed = replayed
    app.context.show_cost = False

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


def shown_keys(screen: Screen[Any]) -> list[tuple[str, Binding]]:
    """The keys of the last row as they can be clicked, and what each is bound to."""
    bound = {active.binding.action: active.binding for active in screen.active_bindings.values()}
    return [(each.key, bound[each.action]) for each in screen.query_one(KeyRow).keys]


def place_of(pilot: Pilot[Any], words: str) -> tuple[int, int]:
    """Where words stand on the screen: column and row."""
    rows = pilot.app.screen_text().splitlines()  # type: ignore[attr-defined]
    return next((row.index(words), y) for y, row in enumerate(rows) if words in row)


def check_screen(app: Bench, name: str) -> None:
    """Holds the screen in front against `screens/NAME.txt`."""
    path = HERE / "screens" / f"{name}.txt"
    shown = app.screen_text()
    if os.environ.get("PGBED_UPDATE_SCREENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(shown)
    expected = path.read_text().splitlines()
    differences = list(difflib.unified_diff(expected, shown.splitlines(), "expected", "shown", lineterm="", n=1))
    assert not differences, "\n".join(differences)

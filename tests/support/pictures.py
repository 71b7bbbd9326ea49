"""Pictures of the screens, with colours: SVG files, drawn over the recording that `bench demo` plays.

python -m tests.support.pictures pictures                        # the README's
python -m tests.support.pictures FOLDER launch-130x36 flame-80x24    # others, to be looked at
"""

from __future__ import annotations

import argparse
import asyncio
import re
import tempfile
import time
from importlib.resources import files
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from engine.cli.demo import RECORDING
from engine.journal.archive import unpack
from tui.app import Bench
from tui.demo.tour import QUERIES, stalled
from tui.glyphs import SETS

PATIENCE_S = 60.0
README = ("live-110x40", "compare-100x30", "compare-100x30-light", "slices-100x30")
GLYPHS = "braille"
FIRST = ""
# A picture: the screen that is opened, the step that is replayed of the cell with stalls (`FIRST`: the one that has
# them), keys, and the words awaited before each of them and at the end.
Picture = tuple[str, str, tuple[tuple[str, str], ...], str]


def _at(seconds: str) -> tuple[tuple[str, str], ...]:
    """Keys that pause a replay at a time of its step."""
    return (("space", "REPLAY"), ("g", "REPLAY"), *((key, "Go to a time") for key in (*seconds, "enter")))


PICTURES: dict[str, Picture] = {
    "launch": ("launch", FIRST, (), "preflight"),
    "live": ("live", FIRST, _at("20"), "lock"),
    "closing": ("live", QUERIES, _at("8"), "so far"),
    "stall": ("live", FIRST, (*_at("20"), ("enter", "lock")), "LOCK TABLE"),
    "compare": ("compare", FIRST, (), "every cell"),
    "slices": ("compare", FIRST, (("end", "every cell"), ("l", "qr100")), "blocks"),
    "flame": ("compare", FIRST, (("end", "every cell"), ("f", "qr100"), ("enter", "which role")), "takes more"),
    "history": ("history", FIRST, (), "finished"),
}


async def taken(pilot: Pilot[Any], picture: Picture) -> str:
    """Presses the keys, and draws the screen then."""
    app = pilot.app
    _, _, keys, end = picture

    async def seen(words: str) -> None:
        limit = time.monotonic() + PATIENCE_S
        while words not in app.screen_text():  # type: ignore[attr-defined]
            if time.monotonic() > limit:
                raise SystemExit(f"'{words}' is not to be seen:\n{app.screen_text()}")  # type: ignore[attr-defined]
            await pilot.pause(0.1)

    for key, before in keys:
        await seen(before)
        await pilot.press(key)
        await pilot.pause(0.3)
    await seen(end)
    await pilot.pause(0.5)
    return without_buttons(app.export_screenshot(title="bench"))


def without_buttons(svg: str) -> str:
    """The picture without the buttons of a window, which a terminal need not have."""
    return re.sub(r'<circle cx="\d+" cy="0" r="7" fill="#\w+"/>', "", svg)


def draw(name: str, size: tuple[int, int], theme: str, to: Path) -> None:
    """One picture, in a folder of its own for the recording."""
    screen, step, _, _ = picture = PICTURES[name]
    with tempfile.TemporaryDirectory() as folder:
        run = unpack(files("engine.cli").joinpath(RECORDING).read_bytes(), "the recording", Path(folder))
        app = Bench(Path(folder), run, SETS[GLYPHS], screen)
        cell, with_stalls, _ = stalled(run)
        app.context.replayed = (cell, step or with_stalls) if screen == "live" else None

        async def act() -> None:
            async with app.run_test(size=size) as pilot:
                app.theme = f"bench-{theme or 'dark'}"
                to.write_text(await taken(pilot, picture), encoding="utf-8")

        asyncio.run(act())
    print(f"{to}: {to.stat().st_size:,} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where they are written")
    parser.add_argument("pictures", nargs="*", default=README, help="NAME-COLUMNSxROWS[-light] [default: the README's]")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    for picture in asked.pictures:
        name, size, *theme = picture.split("-")
        columns, rows = map(int, size.split("x"))
        draw(name, (columns, rows), "".join(theme), asked.folder / f"{picture}.svg")


if __name__ == "__main__":
    main()

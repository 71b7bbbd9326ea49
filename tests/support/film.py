"""The moving picture of the first page: the guided minute of `bench demo` as one SVG whose frames follow each other.

    python -m tests.support.film pictures/demo.svg

Each stop of the guide is a frame, drawn once it shows what it tells of, and stays for SECONDS.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from engine.cli.demo import PLANS, RECORDING
from engine.journal.archive import unpack
from tests.support.pictures import GLYPHS, without_buttons
from tui.demo.guide import GuideBox, GuidedBench
from tui.demo.tour import stalled, stops_of
from tui.glyphs import SETS

SIZE = (100, 30)
SECONDS = 5.0
PATIENCE_S = 60.0
MOST_BYTES = 1_000_000
STILL = 4  # the frame that is seen where nothing moves: Compare
STAYS_S = 3600.0  # a stop, until its frame is drawn
FONT = re.compile(r"@font-face \{.*?\n    \}\n", re.DOTALL)  # fetched from elsewhere, which a picture in a page may not
SEEN = """
#frame-{number} {{ animation: frames {seconds:g}s step-end {begin:g}s infinite; }}"""
FRAMES = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}"><style>
@keyframes frames {{ 0% {{ visibility: visible }} {share:.4f}% {{ visibility: hidden }} }}
.frame {{ visibility: hidden }}
#frame-{still} {{ visibility: visible }}{seen}
</style>
{frames}
</svg>
"""


def frames() -> list[str]:
    """The screen at each stop of the guide, as SVG."""
    drawn: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        packed = (files("engine.cli").joinpath(name).read_bytes() for name in (RECORDING, PLANS))
        run, _ = [unpack(archive, "the recording", Path(folder)) for archive in packed]
        app = GuidedBench(Path(folder), run, SETS[GLYPHS], "live")
        cell, step, _ = of = stalled(run)
        app.context.replayed = (cell, step)
        stops = tuple(replace(stop, seconds=STAYS_S) for stop in stops_of(of))
        app.guide(stops)

        def guide_text() -> str:
            boxes = list(app.screen.query(GuideBox))
            return " ".join(text for line in boxes[0].lines for text, _ in line) if boxes else ""

        async def shown(pilot: Pilot[Any], number: int, words: str) -> None:
            limit = time.monotonic() + PATIENCE_S
            while f"{number} of {len(stops)} " not in guide_text() or words not in app.screen_text():
                if time.monotonic() > limit:
                    raise SystemExit(f"'{words}' is not to be seen:\n{app.screen_text()}")
                await pilot.pause(0.1)
            await pilot.pause(0.5)

        async def act() -> None:
            async with app.run_test(size=SIZE) as pilot:
                for number, stop in enumerate(stops, 1):
                    await shown(pilot, number, stop.until)
                    drawn.append(without_buttons(app.export_screenshot(title="bench demo")))
                    await pilot.press("enter")

        asyncio.run(act())
    return drawn


def film(drawn: Sequence[str]) -> str:
    """One SVG of several of the same size, shown one after the other, for ever."""
    box = re.search(r'viewBox="([^"]*)"', drawn[0])
    assert box is not None
    length_s = SECONDS * len(drawn)
    seen = "".join(
        SEEN.format(number=number, seconds=length_s, begin=(number - len(drawn)) * SECONDS)
        for number in range(len(drawn))
    )
    inner = "\n".join(
        f'<g class="frame" id="frame-{number}">{FONT.sub("", svg)}</g>' for number, svg in enumerate(drawn)
    )
    return FRAMES.format(box=box[1], share=100 / len(drawn), still=STILL, seen=seen, frames=inner)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("to", type=Path, help="file to write")
    to = parser.parse_args().to
    text = film(frames())
    if len(text) > MOST_BYTES:
        raise SystemExit(f"{len(text):,} bytes, more than {MOST_BYTES:,}")
    to.write_text(text, encoding="utf-8")
    print(f"{to}: {len(text):,} bytes")


if __name__ == "__main__":
    main()

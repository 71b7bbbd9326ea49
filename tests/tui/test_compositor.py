"""What is drawn again of a screen: the same as the framework draws, and no more rows than have changed."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from textual._compositor import ChopsUpdate, Compositor
from textual.app import App, ComposeResult
from textual.containers import Horizontal, Vertical
from textual.geometry import Region
from textual.screen import Screen
from textual.widgets import Static

from tui.compositor import FrugalCompositor
from tui.marks import line
from tui.widgets.lines import Lines

ROWS, COLUMNS = 12, 40


class Counted(Lines):
    """Lines that say which of them were drawn."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.drawn: list[int] = []

    def render_line(self, y: int) -> Any:
        self.drawn.append(y)
        return super().render_line(y)


class Overlapping(Screen[None]):
    CSS = """
    Overlapping { layers: below above; }
    #left { width: 50%; } #left, #right { height: 1fr; }
    #framed { border: round white; height: 5; }
    #over { layer: above; offset: 10 4; width: 15; height: 3; background: blue; }
    """

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield Counted(id="left")
            with Vertical(id="right"):
                yield Static("framed\n[b]text[/b]", id="framed")
                yield Static("\n".join("abcdefgh" * 5 for _ in range(30)), id="clipped")
        yield Static("over the others", id="over")


class Shown(App[None]):
    def on_mount(self) -> None:
        self.push_screen(Overlapping())


def on_screen(update: ChopsUpdate) -> dict[tuple[int, int], tuple[str, object]]:
    """By row and column, what an update puts there."""
    found: dict[tuple[int, int], tuple[str, object]] = {}
    for y, x1, x2 in update.spans:
        for x, strip in update.chops[y].items():
            for offset, (char, style) in enumerate(
                (char, segment.style) for segment in strip or () for char in segment.text
            ):
                if x1 <= x + offset < x2:
                    found[y, x + offset] = char, style
    return found


def test_it_draws_what_the_framework_draws() -> None:
    async def act() -> None:
        app, chance = Shown(), random.Random(1)
        async with app.run_test(size=(COLUMNS, ROWS)) as pilot:
            await pilot.pause()
            screen = app.screen
            lines = screen.query_one(Counted)
            lines.show([line(f"line {number} of them") for number in range(ROWS)])
            await pilot.pause()
            both: list[Compositor] = [Compositor(), FrugalCompositor()]
            for each in both:
                each.reflow(screen, screen.size)
            for _ in range(60):
                regions = {
                    Region(
                        chance.randrange(COLUMNS),
                        chance.randrange(ROWS),
                        chance.randrange(1, 30),
                        chance.randrange(1, 5),
                    )
                    for _ in range(chance.randrange(1, 4))
                }
                updates = []
                for each in both:
                    each._dirty_regions = {region.intersection(screen.size.region) for region in regions}
                    updates.append(each.render_partial_update())
                framework, frugal = updates
                assert framework is not None and frugal is not None
                assert on_screen(frugal) == on_screen(framework) and on_screen(frugal)
            lines.drawn.clear()
            both[1]._dirty_regions = {Region(0, 0, COLUMNS, 1), Region(0, ROWS - 1, COLUMNS, 1), Region(0, 7, 5, 1)}
            both[1].render_partial_update()
            assert set(lines.drawn) >= {0, 7, ROWS - 1}
            both[1]._dirty_regions = {Region(0, 7, 5, 1), Region(30, 0, 2, ROWS)}
            lines.drawn.clear()
            both[1].render_partial_update()
            assert lines.drawn == [7]
            assert both[1].render_partial_update() is None

    asyncio.run(act())

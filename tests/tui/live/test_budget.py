"""The steps of a run with a time budget on the Live screen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from engine.core.model import INTERIM_ANALYSES
from engine.view.player import Player
from engine.view.view_state import ViewState
from tests.support.journal import Growing, interleaved
from tests.support.screens import show_live, text_of
from tui.glyphs import SETS
from tui.live import budget
from tui.live.screen import LiveScreen
from tui.marks import Line

BLOCK = SETS["block"]
STEPS = {
    "l.i0": {"state": "known", "width": 0.004, "by_end": 0.004},
    "l.x": {"state": "withheld", "width": 0.2, "by_end": 0.2},
    "l.i1": {},
    "qr100": {"width": 0.0183, "by_end": 0.0114, "seconds": 21},
}


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Growing]:
    """The first of five pairs of an adaptive run."""
    plan: dict[str, Any] = {"minutes": 10.0, "interim_analyses": INTERIM_ANALYSES, "repeats": 9}
    with interleaved(tmp_path, **plan) as live:
        data = {"repeats": 5, "text": "decided", "pairs": 0, "pair_s": 104.0, "steps": STEPS}
        live.journal.add_event("plan", live.hand.at_ns, data, ended_ns=live.hand.at_ns)
        live.journal.commit()
        yield live


def seen(live: Growing) -> ViewState:
    with Player(live.run, live.hand.clock) as player:
        return player.look()


def words(lines: list[Line]) -> list[str]:
    return ["".join(text for text, _ in line) for line in lines]


def test_the_budget_line_shows_width_and_remaining_gain(live: Growing) -> None:
    view = seen(live)
    full = " qr100 ±1.8%, ±1.1% by the end; decided 1 of 4; 5 pairs of 1m44s left"
    assert words(budget.summary(view, 80, BLOCK)) == [full]
    assert words(budget.summary(view, 80, SETS["ascii"])) == [full.replace("±", "+-")]
    assert words(budget.summary(view, 50, BLOCK)) == [" qr100 ±1.8%, ±1.1% by the end; decided 1 of 4"]
    assert words(budget.summary(replace(view, step=None), 80, BLOCK)) == [" decided 1 of 4; 5 pairs of 1m44s left"]
    assert budget.summary(replace(view, state="finished"), 80, BLOCK) == []
    unplanned = replace(view, allocation=None)
    assert budget.summary(unplanned, 80, BLOCK) == budget.rows(unplanned, BLOCK) == []


def test_each_step_is_known_withheld_or_so_wide(live: Growing) -> None:
    assert words(budget.rows(seen(live), BLOCK))[1:] == [
        "l.i0       decided",
        "l.x        withheld",
        "l.i1       undecided",
        "qr100      ±1.8%, ±1.1% by the end",
    ]


def test_the_end_of_the_run_is_that_of_pairs_as_they_will_be(live: Growing) -> None:
    for side in live.sides:
        live.journal.end_attempt(side.attempt, live.hand.at_ns + 30 * 10**9, "finished")
    live.journal.commit()
    assert seen(live).left_s == pytest.approx(4 * 104.0)


def test_a_pair_that_failed_is_not_to_come(live: Growing) -> None:
    for side, state in zip(live.sides, ("failed", "finished"), strict=True):
        live.journal.end_attempt(side.attempt, live.hand.at_ns + 30 * 10**9, state)
    live.journal.commit()
    assert words(budget.summary(seen(live), 80, BLOCK))[0].endswith("; 4 pairs of 1m44s left")


@pytest.mark.parametrize("size", [(80, 24), (130, 40)])
def test_it_is_on_the_screen(live: Growing, size: tuple[int, int]) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        live.block(1000, 900)
        screen.tick()
        await pilot.pause()
        shown = text_of(pilot)
        assert "qr100 ±1.8%, ±1.1% by the end; decided 1 of 4; 5 pairs of 1m44s left" in shown
        assert ("l.x        withheld" in shown) == (size[0] > 110)
        assert shown.splitlines()[-1].startswith(" space")

    show_live(live.run, check, clock=live.hand.clock, size=size)

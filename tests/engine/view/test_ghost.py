"""The base's curve behind another: aligned by work, or by time, and the part still to come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from engine.journal.reader import JournalReader
from engine.journal.rows import ChartSecond, RoleRow, StepRow
from engine.view.ghost import BaseCurve
from engine.view.player import Player
from engine.view.step_series import SECOND_NS, StepSeries
from tests.support.screens import STOPPED

NOTHING: Mapping[str, Any] = {}
STALLED = "002-16.3-prebuilt-auto-r1"


def series(
    rows: Sequence[int], *, work: int = 1000, started_s: int = 0, id: int = 1, plan: Mapping[str, Any] = NOTHING
) -> StepSeries:
    """A step that did so much in each second."""
    step = StepRow(id, 1, 0, "l.i1", "write", "running", started_s * SECOND_NS, None, work, dict(plan), None)
    step_series = StepSeries(cast("JournalReader", None), step)
    step_series.roles = {1: RoleRow(1, 1, 1, "insert", 1, 2)}
    for second, count in enumerate(rows, 1):
        step_series.take([ChartSecond(1, (started_s + second) * SECOND_NS, SECOND_NS, count, count, 0, 0)])
    return step_series


def test_the_ghost_is_the_base_at_the_same_work() -> None:
    base = series([100, 100, 50, 50, 50, 50])
    live = series([50, 50, 0, 50, 50, 50], started_s=1000)
    ghost = BaseCurve(base, live, "insert")
    ghost.catch_up()
    assert ghost.past.until == live.rates["insert"].until
    # 50, 100, 100, 150, 200, 250 rows: the base did the first 200 at 100 a second, then 50.
    assert ghost.past.value == pytest.approx([100, 100, 100, 100, 100, 50])


def test_what_is_to_come_is_laid_at_the_pace_kept_so_far() -> None:
    base = series([100, 100, 20, 100])
    live = series([50, 50, 50, 50], started_s=1000)  # half as fast: it is where the base was after 2 s
    ahead = BaseCurve(base, live, "insert").ahead(1004 * SECOND_NS)
    assert ahead.until == [1006 * SECOND_NS, 1008 * SECOND_NS]
    assert ahead.length == [2 * SECOND_NS, 2 * SECOND_NS] and ahead.value == [20, 100]


def test_the_ghost_is_the_base_after_the_same_time() -> None:
    queries = {"primary_metric": {"role": "query", "unit": "queries/s", "by": "rate"}}
    for work, plan in ((0, {}), (300, queries)):  # of a query step rows are inserted besides, at a rate
        base, live = (
            series([100, 20, 100], work=work, plan=plan),
            series([50, 50], work=work, started_s=1000, plan=plan),
        )
        ghost = BaseCurve(base, live, "insert")
        ghost.catch_up()
        assert ghost.past.value == pytest.approx([100, 20])
        assert ghost.ahead(1002 * SECOND_NS).value == [100]


def test_a_base_that_did_less_ends_early_and_grows() -> None:
    base, live = series([100, 100]), series([80])
    ghost = BaseCurve(base, live, "insert")
    ghost.catch_up()
    assert len(ghost.past.until) == 1
    for second in (2, 3):
        live.take([ChartSecond(1, second * SECOND_NS, SECOND_NS, 80, 80, 0, 0)])
    ghost.catch_up()
    assert ghost.past.value == pytest.approx([100, 100])
    assert not ghost.ahead(3 * SECOND_NS).until


def test_the_ghost_of_a_recording_is_a_cell_of_the_base(recording: Path) -> None:
    with Player(recording, STOPPED, STALLED, "l.i1") as player:
        player.playing = False
        player.seek(2**62)
        view = player.look()
        player.seek((view.series or pytest.fail()).newest_ns)
        view = player.look()
        assert view.step is not None and view.step.name == "qr100"
        assert len(view.relatives) > 1 and view.relatives == tuple(sorted(view.relatives))
        assert view.relatives[0] <= (view.relative or 0) <= view.relatives[-1] and view.relative_before is not None
        ghost = player.ghost(view, "query")
        assert ghost is not None and ghost.past.until
        assert player.ghost(view, "query") is ghost
    with Player(recording, STOPPED, "001-14.10-prebuilt-auto-r1", "l.i1") as player:
        view = player.look()
        assert view.step is not None and len(view.relatives) <= 2, "the base is not compared with its own cell"
        ghost = player.ghost(view, "insert")
        assert ghost is not None and ghost.base.step.id != view.step.id
        assert player.schedule()[0].state == "finished" and "l.i1" in player.schedule()[0].rates

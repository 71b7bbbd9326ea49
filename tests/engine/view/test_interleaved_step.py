"""Interleaved cells at a moment: rates in active time, the ratio so far, and which side is looked at."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.analysis.statistics.slice_estimates import Slices, log_ratio
from engine.journal.reader import JournalReader
from engine.journal.rows import SliceRow
from engine.results.slice_ratio import LogRatio, half_width_at_every_moment
from engine.view.interleaved_step import InterleavedStep, reach_words, so_far_words
from engine.view.player import Player
from engine.view.slice_series import MOST_POINTS, MOST_SUMS, SliceSeries, SoFar
from engine.view.step_series import SECOND_NS
from engine.view.view_state import ViewState
from tests.support.journal import COUNTED_NS, WARM_NS, interleaved
from tests.support.totals import SLICE_NS

OPS = (420.0, 400.0)  # of a slice: the other is 4.8% slower


def noisy(block: int) -> tuple[float, float]:
    """Work of the sides in a block: each has its own ups and downs."""
    return OPS[0] + 20 * math.sin(block), OPS[1] + 20 * math.cos(3 * block)


def seen(view: ViewState) -> InterleavedStep:
    assert view.interleaved is not None
    return view.interleaved


def known(view: ViewState) -> SoFar:
    so_far = seen(view).compared.so_far
    assert so_far is not None
    return so_far


def analysed(run: Path, steps: list[int], blocks: int, together: int = 1) -> LogRatio:
    """The analysis of the first blocks, several of which count as one."""

    def part(rows: list[SliceRow], name: str) -> Any:
        return np.array([getattr(row, name) for row in rows[: 2 * blocks]]).reshape(-1, 2 * together)

    with JournalReader(run) as reader:
        sides = [reader.slices(step) for step in steps]
    return log_ratio(*(Slices(part(rows, "ops"), part(rows, "counted_ns")) for rows in sides))


def test_all_builds_are_seen_and_another_than_the_base_shown(tmp_path: Path) -> None:
    with interleaved(tmp_path) as live, Player(live.run, live.hand.clock) as player:
        assert player.look().interleaved is None  # no slice is known yet
        for _ in range(30):
            live.block(*OPS)
        view = player.look()
        state = seen(view)
        assert [side.name for side in state.sides] == ["16.3", "17.0"]
        assert view.cell is not None and view.step is not None
        assert state.shown.name == state.compared.name == view.cell.subject.name == "17.0"
        assert state.shown.step.id == view.step.id == live.steps[1]
        assert [side.rate_per_s for side in state.sides] == [10 * ops / 0.5 for ops in OPS]  # of its roles' seconds
        assert state.sides[0].so_far is None
        assert known(view).ratio == pytest.approx(400 / 420)
        assert (state.planned_s, state.shown.active_s) == (12, pytest.approx(3))
        assert view.fraction == pytest.approx(0.25)


def test_the_ratio_so_far_equals_the_analysiss(tmp_path: Path) -> None:
    with interleaved(tmp_path) as live, Player(live.run, live.hand.clock) as player:
        for count in range(1, 41):
            live.block(*noisy(count))
            ratio = known(player.look())
            expected = analysed(live.run, live.steps, count)
            half = half_width_at_every_moment(expected, 120)  # 12 s, of which a block has 0.1 s
            assert ratio.ratio == pytest.approx(math.exp(expected.theta))
            assert (ratio.high is None) == (half is None) == (count < 20)
            if half is not None:
                bounds = [math.exp(expected.theta - half), math.exp(expected.theta + half)]
                assert [ratio.low, ratio.high] == pytest.approx(bounds)


def test_a_block_counts_once_it_is_whole(tmp_path: Path) -> None:
    with interleaved(tmp_path) as live, Player(live.run, live.hand.clock) as player:
        live.block(*OPS)
        for place, side in enumerate((0, 1, 1, 0)):
            values = (live.hand.at_ns, live.hand.at_ns + WARM_NS, COUNTED_NS, 100, 0, 0, 100, 0, 0, 0, 0, 0, 0, 0)
            live.journal.add_slice(SliceRow(live.steps[side], 1, place, *values))
            live.journal.commit()
            live.hand.at_ns += SLICE_NS
            assert seen(player.look()).blocks == (1 if place < 3 else 2)
        assert known(player.look()).ratio == pytest.approx(500 / 520)


def test_time_stands_still_while_another_is_driven(tmp_path: Path) -> None:
    with interleaved(tmp_path) as live, Player(live.run, live.hand.clock) as player:
        start_ns = live.hand.at_ns
        live.block(*OPS, slow_ns=2 * SECOND_NS)  # a statement of the base's takes so long, in both of its slices
        live.block(*OPS)
        slices = seen(player.look()).slices
        base, other = slices.lanes
        own_ns = SLICE_NS + 2 * SECOND_NS
        assert base.active_at(start_ns - 1) == 0
        assert base.active_at(start_ns + SECOND_NS) == SECOND_NS
        assert base.active_at(start_ns + own_ns + SLICE_NS) == own_ns  # paused
        assert other.active_at(start_ns + own_ns) == 0
        assert base.active_at(live.hand.at_ns) == 2 * own_ns + 2 * SLICE_NS
        assert slices.rates[0].until == [2 * own_ns, 2 * own_ns + 2 * SLICE_NS]
        assert slices.rates[0].value == pytest.approx(
            [2 * 420e9 / (2 * COUNTED_NS + 4 * SECOND_NS), 420e9 / COUNTED_NS]
        )
        assert slices.rates[1].value == pytest.approx([400e9 / COUNTED_NS] * 2)


def test_what_a_server_does_is_told_by_its_active_time(tmp_path: Path) -> None:
    with interleaved(tmp_path) as live, Player(live.run, live.hand.clock) as player:
        for _ in range(10):
            live.block(*OPS)
        live.journal.add_sample(live.steps[1], live.hand.at_ns, SECOND_NS, "server", {"cpu_ns": 400_000_000})
        live.journal.commit()
        view = player.look()
        assert view.rate_per_s == 8000  # 4000 in half a second
        assert view.machine.server_cpu_percent == pytest.approx(80)
        assert view.machine.server_cpu_us_per_op == pytest.approx(100)
        live.hand.at_ns += SECOND_NS // 2  # work is known as of the last tick
        assert player.look().fraction == pytest.approx(1 / 12)


def test_the_side_that_is_looked_at_can_be_another(tmp_path: Path) -> None:
    with interleaved(tmp_path, builds=("16.3", "17.0", "18.0")) as live, Player(live.run, live.hand.clock) as player:
        for _ in range(5):
            live.block(420, 400, 410)
        names = []
        for side in (1, 2, 0, 1):
            view = player.look()
            assert [role.backend_pid for role in view.roles] == [4100 + side]
            names.append((seen(view).shown.name, seen(view).compared.name))
            player.other_side(view)
        assert names == [("17.0", "17.0"), ("18.0", "18.0"), ("16.3", "17.0"), ("17.0", "17.0")]


def test_what_probes_report_of_every_side_is_known(tmp_path: Path) -> None:
    with interleaved(tmp_path) as live, Player(live.run, live.hand.clock) as player:
        for attempt, text in zip([side.attempt for side in live.sides], ("of the base", "of the other"), strict=True):
            live.journal.add_event("probe", live.hand.at_ns, {"text": text}, ended_ns=live.hand.at_ns, attempt=attempt)
        live.journal.commit()
        player.look()
        assert [event.data["text"] for event in player.notices()] == ["of the base", "of the other"]


def test_of_steps_that_take_turns_the_one_that_runs_is_shown(tmp_path: Path) -> None:
    with interleaved(tmp_path, begun=False) as live, Player(live.run, live.hand.clock) as player:
        live.begin(0, "l.i0", "load")
        live.hand.at_ns += SECOND_NS
        view = player.look()
        assert view.cell is not None and (view.cell.subject.name, view.doing) == ("17.0", "starting the server")
        live.end_step(0)
        live.begin(1, "l.i0", "load")
        for side, name in ((1, "l.i0"), (0, "l.x")):
            if name == "l.x":
                live.end_step(1)
                live.begin(0, "l.x", "index", 1)
            view = player.look()
            assert view.cell is not None and view.step is not None
            assert (view.cell, view.step.name, view.interleaved) == (live.sides[side].cell, name, None)
            live.hand.at_ns += SECOND_NS


def test_of_a_cell_that_failed_what_goes_on_is_shown(tmp_path: Path) -> None:
    with interleaved(tmp_path) as live, Player(live.run, live.hand.clock) as player:
        for _ in range(5):
            live.block(*OPS)
        live.journal.end_attempt(live.sides[1].attempt, live.hand.at_ns, "failed", "disk full")
        view = player.look()
        assert (seen(view).shown.name, seen(view).compared.name, view.doing) == ("16.3", "17.0", "")
        assert view.cells_failed == 1


def test_a_replay_shows_what_was_known_then(tmp_path: Path) -> None:
    then = []
    with interleaved(tmp_path) as live:
        with Player(live.run, live.hand.clock) as player:
            for count in range(1, 31):
                live.block(*noisy(count))
                if count % 5 == 0:
                    then.append((live.hand.at_ns, player.look()))
        for side in (0, 1):
            live.end_step(side)
    with Player(live.run, live.hand.clock, live.sides[1].cell.id) as player:
        player.pause(False)
        for t_ns, view in [*then, *reversed(then)]:
            player.seek(t_ns)
            later = player.look()
            assert (seen(later).blocks, known(later), later.roles) == (seen(view).blocks, known(view), view.roles)
            assert later.fraction == view.fraction or later.fraction == 1.0
        assert seen(later).shown.name == "17.0"
        player.other_side(later)
        again = player.look()
        assert (again.at_ns, seen(again).shown.name) == (later.at_ns, "16.3")
        assert again.cell == live.sides[0].cell and known(again) == known(later)


def test_a_long_step_costs_no_more_than_a_short_one(tmp_path: Path) -> None:
    with interleaved(tmp_path) as live, JournalReader(live.run) as reader:
        steps = [reader.step(step) for step in live.steps]
        for step in steps:
            step.plan["seconds"] = 300
        count = 2 * MOST_SUMS + 500
        for block in range(count):
            live.block(*noisy(block))
        slices = SliceSeries(reader, steps, 50.0)
        slices.catch_up()
        assert MOST_POINTS / 4 < len(slices.rates[0].until) < MOST_POINTS
        assert 100 < len(slices.courses[1].until) < 400
        ratio, expected = slices.so_far(1, count), analysed(live.run, live.steps, count, together=3)
        half = half_width_at_every_moment(LogRatio(expected.theta, expected.variance, count), 3000)
        assert ratio is not None and ratio.high is not None and half is not None
        assert ratio.ratio == pytest.approx(math.exp(expected.theta))
        assert ratio.high / ratio.ratio == pytest.approx(math.exp(half))


@pytest.mark.parametrize(
    ("ops", "blocks", "said"),
    [
        ((400, 380), 20, "17.0 / 16.3: -5.0% [-5.0, -5.0] so far"),
        ((400, 404), 20, "17.0 / 16.3: +1.0% [+1.0, +1.0] so far"),
        ((400, 380), 19, "17.0 / 16.3: -5.0%, no interval yet"),
        ((0, 380), 19, ""),
    ],
)
def test_the_ratio_in_words(tmp_path: Path, ops: tuple[float, float], blocks: int, said: str) -> None:
    with interleaved(tmp_path) as live, Player(live.run, live.hand.clock) as player:
        for _ in range(blocks):
            live.block(*ops)
        state = seen(player.look())
        assert so_far_words(state, state.compared) == said
        assert so_far_words(state, state.compared, ended=True) == said.replace(" so far", "").replace(" yet", "")
        assert reach_words(state)[0] == f"this pair of clusters, {2 if blocks == 20 else 1.5:.0f} of 12 s"


def test_both_bounds_are_told_which_are_alike_in_logs_only(tmp_path: Path) -> None:
    with interleaved(tmp_path) as live, Player(live.run, live.hand.clock) as player:
        for _ in range(20):
            live.block(400, 280)
        state = seen(player.look())
    side = replace(state.compared, so_far=SoFar(0.716, 0.351, 1.461, 20))
    assert so_far_words(state, side) == "17.0 / 16.3: -28.4% [-64.9, +46.1] so far"


def test_index_builds_longer_than_slices_are_drawn_and_compared(tmp_path: Path) -> None:
    """Builds of 1.5 and 3 s of 3000 rows each, of which no slice sees the end; seconds have their rows at once."""
    with interleaved(tmp_path, begun=False) as live, Player(live.run, live.hand.clock) as player:
        for side in range(2):
            live.begin(side, "l.x", "index", roles=("index", "query"))
        for second in range(1, 13):
            for _ in range(5):
                live.block(0, 0)
            for side, every in enumerate((3, 6)):
                if second % every == 0:
                    row = live.sides[side].roles["index"]
                    live.add_second(row, SECOND_NS // 2, 1, 3000, 100, 1)
            live.journal.commit()
            view = player.look()
            state = seen(view)
            if second == 5:
                assert [side.rate_per_s for side in state.sides] == [2000, None] and state.compared.so_far is None
                assert so_far_words(state, state.compared) == ""
        rates = [list(zip(rate.until, rate.value, strict=True)) for rate in state.rates]
        assert rates[0] == [(1.5e9 * build, 2000) for build in range(1, 5)]
        assert rates[1] == [(3e9, 1000), (6e9, 1000)]
        assert [side.rate_per_s for side in state.sides] == [2000, 1000]
        assert so_far_words(state, state.compared, ended=True) == "17.0 / 16.3: -50.0%, no interval"


def test_what_is_counted_after_the_last_query_is_no_drop(tmp_path: Path) -> None:
    with interleaved(tmp_path) as live, Player(live.run, live.hand.clock) as player:
        for _ in range(30):
            live.block(*OPS)
        live.block(20, 400)
        assert seen(player.look()).rates[0].value[-1] == pytest.approx(20e9 / COUNTED_NS), "it may be a stall"
        for side in range(2):
            live.end_step(side)
        rates = seen(player.look()).rates
        assert [len(rate.until) for rate in rates] == [30, 31]
        assert min(rates[0].value) == pytest.approx(420e9 / COUNTED_NS)


def test_a_stall_up_to_the_end_of_a_step_stays_in_the_line(tmp_path: Path) -> None:
    with interleaved(tmp_path) as live, Player(live.run, live.hand.clock) as player:
        for _ in range(60):
            live.block(*OPS)
        for _ in range(30):
            live.block(10, 400)
        for side in range(2):
            live.end_step(side)
        counts = [len(seen(player.look()).rates[0].until) for _ in range(4)]
        assert counts[0] > 80 and set(counts) == {counts[0]}

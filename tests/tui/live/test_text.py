"""Figures of the Live screen that are easily wrong."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest

from engine.journal.reader import JournalReader
from engine.journal.totals import sla
from engine.observe.stall_snapshot import StallSnapshot
from engine.postgres.activity import Doing
from engine.view.events import event_words
from engine.view.player import Player
from engine.view.step_series import SECOND_NS
from engine.view.view_state import MachineLoad, RoleLine, SlaProgress, ViewState
from probes.snapshot import take
from tests.support.journal import Growing, growing
from tests.support.screens import STOPPED
from tui.compare import cells_text
from tui.glyphs import SETS
from tui.history.text import title
from tui.live import text as live_text
from tui.live.stall_detail import detail
from tui.marks import Line
from tui.widgets import axes
from tui.widgets.scaled_chart import scale

pytestmark = pytest.mark.slow  # opens the interface

CELL = "002-17.0-auto-r1"


def words(lines: list[Line]) -> str:
    return "\n".join("".join(text for text, _ in line) for line in lines)


def seen(live: Growing) -> ViewState:
    with Player(live.run, live.hand.clock) as player:
        return player.look()


def head(view: ViewState) -> str:
    lines = [live_text.progress(view, SETS["ascii"], None), live_text.rates(view, "insert", "")]
    return words(lines)


@pytest.mark.parametrize("state", ["interrupted", "failed"])
def test_an_abandoned_step_shows_its_progress_and_no_time_left(tmp_path: Path, state: str) -> None:
    with growing(tmp_path) as live:
        for _ in range(3):
            live.second(insert=10_000)
        live.end_step(state=state)
        live.journal.end_attempt(live.attempt, live.hand.at_ns, state, "")
    view = seen(live)
    assert view.fraction == pytest.approx(0.3) and view.eta_s is None
    assert "30%" in head(view) and "ETA" not in head(view)


def test_a_step_is_not_all_done_before_its_last_row(tmp_path: Path) -> None:
    with growing(tmp_path) as live:
        live.second(insert=99_900)
        assert " 99%" in head(seen(live))
        live.second(insert=100)
        assert "100%" in head(seen(live))


def test_what_was_last_known_is_not_told_as_what_is(tmp_path: Path) -> None:
    with growing(tmp_path) as live:
        live.second(insert=1234)
        live.hand.at_ns += 2 * SECOND_NS
        assert seen(live).rate_per_s == 1234 and "no figures" not in head(seen(live))
        live.hand.at_ns += 2 * SECOND_NS
        view = seen(live)
        assert view.rate_per_s is None and not view.roles and view.machine == MachineLoad()
        assert "? no figures for 4s" in head(view) and "1234" not in head(view).split("med60")[0]
        live.second(insert=1234)
        assert seen(live).silent_s is None


def test_so_far_is_said_only_while_it_may_change(tmp_path: Path) -> None:
    with growing(tmp_path, work=50_000) as live:
        for _ in range(5):
            live.second(insert=10_000)
        live.second(insert=0)
        live.end_step()
        live.journal.end_attempt(live.attempt, live.hand.at_ns, "finished", "")
    assert "so far" not in head(seen(live)) and "(0.250)" in head(seen(live))


def test_no_digit_is_ever_cut_from_a_figure() -> None:
    role = RoleLine("delete", 1, 4_194_303, 1234567.0, 6400.0, 12_345_678.9, 6400.0, None, "Lock:" + "x" * 30,
                    1_000_000, 360_000_000, 3_600_000_000, 3600.0, False)  # fmt: skip
    server = MachineLoad(12800.0, 12_345_678.9, 12800.0, 512)
    rows = words(
        live_text.role_table(ViewState("", "running", 1, 0, 0, roles=(role,), machine=server), 80)
    ).splitlines()
    assert all(len(row) <= 80 for row in rows[:2])
    assert rows[1].split() == [
        "delete", "4194303", "1.23M", "6400", "12.3M", "6400", "xxxxxxxxxxxx", "1000", "360k", "3.60M", "3600",
    ]  # fmt: skip
    assert rows[2].split()[:5] == ["server", "x512", "12.8k", "12.3M", "12.8k"]


def test_a_title_leaves_out_what_says_least_but_not_the_time(tmp_path: Path) -> None:
    with growing(tmp_path) as live:
        live.second(insert=10_000)
        view = seen(live)
    full = words([live_text.title(view, 200)])
    _, _, build, step, repeat, length = [part.strip() for part in full.replace("REC", "|").split("|")]
    assert build.endswith(" auto") and repeat.startswith("repeat ") and ":" in length
    narrow = words([live_text.title(view, len(full) - 1)])
    assert " auto" not in narrow and {step, repeat, length} <= set(narrow.replace(" | ", "|").strip().split("|"))
    least = words([live_text.title(view, 20)])
    assert least.replace("REC", "").strip() == f"{build.removesuffix(' auto')} | {step} | {length}"


def test_no_quantile_lies_above_the_longest_there_was(tmp_path: Path) -> None:
    with growing(tmp_path) as live:
        live.second(max_us=391)  # in the bucket of 400
        insert = seen(live).roles[0]
    assert insert.p50_us == insert.p99_us == insert.max_us == 391


def test_a_window_is_never_wider_than_the_step(tmp_path: Path) -> None:
    with growing(tmp_path) as live, JournalReader(live.run) as reader:
        step = reader.steps(live.attempt)[0]
    start = step.started_ns
    for length_s, places, said in ((40, [0], "0-45s"), (200, [2, 0], "0-5m00s"), (2000, [1, 2, 0], "0-45m00s")):
        at_ns = start + length_s * SECOND_NS
        axis = axes.of_step(step, at_ns)
        window = 0
        for place in places:
            window = axes.narrower(axis, window)
            assert window == place
        assert axes.words(axis, 0) == said
        for place, (name, seconds) in enumerate(axes.WINDOWS):
            shown = axes.window(axis, seconds)
            assert shown.end - shown.start <= axis.end - axis.start
            if shown != axis:
                assert axes.words(axis, place) == name


@pytest.mark.parametrize(
    ("begun_s", "done", "length_s"),
    [(1, 1_000, 10), (4, 50_000, 10), (4, 25_000, 20), (20, 50_000, 45), (120, 24_000, 600)],
)
def test_the_axis_of_a_step_has_its_expected_length(tmp_path: Path, begun_s: int, done: int, length_s: int) -> None:
    with growing(tmp_path) as live:
        for _ in range(begun_s):
            live.second(insert=done // begun_s)  # of 100,000 rows
        view = seen(live)
    axis = axes.of(view)
    assert (axis.end - axis.start) / SECOND_NS == length_s


def test_the_axis_does_not_go_to_and_fro_with_the_speed(tmp_path: Path) -> None:
    lengths = []
    with growing(tmp_path) as live:
        for second in range(24):
            live.second(insert=3300 if second % 2 else 3366)  # for 100,000 rows about thirty seconds
            axis = axes.of(seen(live))
            lengths.append((axis.end - axis.start) / SECOND_NS)
    assert sum(one != other for one, other in pairwise(lengths)) <= 4, lengths


def test_a_checkpoint_is_not_told_by_its_end_before_that(tmp_path: Path) -> None:
    with growing(tmp_path) as live:
        live.second()
        id = live.journal.add_event(
            "checkpoint", live.hand.at_ns, {"cause": "wal"}, attempt=live.attempt, step=live.step
        )
        for _ in range(9):
            live.second()
        live.journal.update_event(id, live.hand.at_ns, {"cause": "wal", "buffers": 812, "total_s": 9, "sync_s": 6})
        live.second()
        live.end_step()
        live.journal.end_attempt(live.attempt, live.hand.at_ns, "finished", "")
    with Player(live.run, live.hand.clock, CELL) as player:
        player.playing = False
        player.seek(live.hand.at_ns - 5 * SECOND_NS)
        view = player.look()
        assert event_words(view.events[-1], view.at_ns) == "checkpoint begins: wal"
        assert "ckpt running 5s" in words([live_text.states(view)])
        player.seek(live.hand.at_ns)
        view = player.look()
        assert "wrote 812 buffers in 9s" in event_words(view.events[-1], view.at_ns)
        assert "ckpt 1x, 1s ago" in words([live_text.states(view)])


def test_a_chart_has_its_upper_edge_and_its_foot_beside_it() -> None:
    assert words(scale((60_000.0, 30_000.0, 0.0), 4)).splitlines() == ["   60k", "", "", "     0"]
    assert words(scale((100.0, 10.0, 1.0), 2, "max ms")).splitlines() == ["   100", "max ms"]
    assert words(scale((100.0, 10.0, 1.0), 4, "max ms")).splitlines() == ["   100", "max ms", "    10", "     1"]
    assert words(scale((80.0, 40.0, 0.0), 5)).splitlines() == ["    80", "", "    40", "", "     0"]
    assert len(scale((100.0, 50.0, 0.0), 1)) == 1


def test_the_causes_of_a_stall_are_told_to_their_end(tmp_path: Path) -> None:
    cause = "process 4100 of the insert backend is stopped (state T: SIGSTOP or a debugger), and so was its client"
    frames = [f"function_number_{number}" for number in range(12)]
    with growing(tmp_path) as live:
        live.second()
        stall = live.stall("insert", (cause,))
        live.second(insert=0)
        record = live.stall_record((cause,)) | {"snapshot": {"kernel": frames, "notes": [cause.replace("4100", "1")]}}
        live.journal.update_event(stall, live.hand.at_ns, record)
        live.journal.commit()
        with Player(live.run, live.hand.clock) as player:
            view = player.look()
            lines = detail(player.reader, view, view.stalls[0], SETS["ascii"], 80)
    text = words(lines)
    assert max(map(len, text.splitlines())) <= 80
    flat = " ".join(text.split())
    assert cause in flat and cause.replace("4100", "1") in flat and " < ".join(frames) in flat


def test_whoever_blocks_a_stalled_backend_is_shown(tmp_path: Path) -> None:
    holders = ((4321, Doing("client backend", "client backend, idle in transaction")), (4322, Doing("", "")))
    here = take(os.getpid())
    snapshot = StallSnapshot(1, here, here, "Lock:relation", holders).record()
    with growing(tmp_path) as live:
        live.second()
        stall = live.stall("insert", ("a lock",))
        live.second(insert=0)
        live.journal.update_event(stall, live.hand.at_ns, live.stall_record(("a lock",)) | {"snapshot": snapshot})
        live.journal.commit()
        with Player(live.run, live.hand.clock) as player:
            view = player.look()
            text = words(detail(player.reader, view, view.stalls[0], SETS["ascii"], 80))
    assert max(map(len, text.splitlines())) <= 80
    assert "blocked by 4321 (client backend, idle in transaction), 4322" in " ".join(text.split())


def test_no_quantile_of_a_cell_lies_above_its_longest() -> None:
    figures = {"statements": 3, "service_p50_us": 43_775, "service_p99_us": 46_335, "max_s": 0.0461}
    assert "p50 43.8k us, p99 46.1k us, max 46.1 ms" in words([cells_text.role_line("index", figures)])


def test_a_filter_is_seen_beside_a_long_name() -> None:
    text = words([title("cells of 20261120-141235-14.10_prebuilt-16.3_prebuilt", "step=l.i1", "date", "", 80)])
    assert "  filter: step=l.i1" in text and text.endswith("sort date ") and len(text) == 80
    assert "cells of 20261120-141235" in text


def test_the_sla_of_a_finished_step_is_the_verdicts_one(recording: Path) -> None:
    with JournalReader(recording) as reader:
        steps = {
            attempt.cell: step for attempt in reader.attempts() for step in reader.steps(attempt.id) if step.totals
        }
    for cell, step in steps.items():
        assert step.totals is not None
        judged = sla(step.kind, step.totals)
        assert step.name == "qr100" and judged is not None and step.ended_ns is not None
        with Player(recording, STOPPED, cell, "qr100") as player:
            player.playing = False
            player.seek(step.ended_ns)
            at_end = player.look().sla
        assert at_end is not None and at_end.passed == judged.passed
        assert at_end.fraction == judged.achieved_per_s / judged.target_per_s


def test_a_missed_sla_is_never_rounded_up_to_a_kept_one() -> None:
    view = ViewState("", "running", 1, 0, 0, sla=SlaProgress(0.9499, False))
    assert "x SLA 94%" in words([live_text.progress(view, SETS["ascii"], None)])

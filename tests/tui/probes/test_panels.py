"""Probes: what its figures are made of, from the frames read to the words, bars and strips shown."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.journal.rows import EventRow, ProbeFrame, StepRow
from engine.view import probe_series
from engine.view.probe_frames import Wanted, look
from engine.view.probe_series import HeatColumn, ProbeSeries, Sums
from probes import buckets
from tests.support.journal import make_run
from tests.support.screens import NO_BTF
from tests.support.totals import SECOND_NS
from tui.glyphs import SETS
from tui.probes import panels as probe_panels
from tui.probes import probe_status
from tui.probes import text as probe_text
from tui.probes.screen import UNASKED

BRAILLE = SETS["braille"]


def test_reading_on_brings_what_reading_at_once_does(recording: Path) -> None:
    first = look(recording, Wanted())
    assert first.places is not None and len(first.places) == 24
    place = first.places[14]
    at_end = look(recording, Wanted(step=place.step, probe="sched", role="delete", newest_step=24))
    assert at_end.places is None and at_end.end_ns == place.step.ended_ns
    assert ("planner", "insert") in at_end.roles and ("sched", "client:insert") in at_end.roles
    assert {frame.probe for frame in at_end.fresh} == {"sched", "stacks", "planner", "procsched"}
    at_once, bit_by_bit = (ProbeSeries(place.step, "sched", "delete") for _ in range(2))
    at_once.take(at_end.frames)
    frames = at_end.frames
    for middle in range(0, len(frames), 3):
        bit_by_bit.take(frames[max(0, middle - 2) : middle + 3])
    assert at_once.within(0, 2**62) == bit_by_bit.within(0, 2**62) == list(frames)
    sums = at_once.sums(2**62)
    assert bit_by_bit.sums(frames[4].t_ns) == Sums().add(frames[:5])
    assert bit_by_bit.sums(2**62) == sums == Sums().add(frames)
    assert bit_by_bit.sums(frames[4].t_ns) == Sums().add(frames[:5])  # a replay went back
    assert place.step.totals is not None
    totals = place.step.totals.probes["delete"]["sched"]
    assert sorted(sums.histograms["runq_us"].items()) == [(bucket, count) for bucket, count in totals["runq_us"]]
    assert sums.figures["max_us"] == totals["max_us"] and sums.figures["oncpu_us"] == totals["oncpu_us"]


@given(st.dictionaries(st.integers(0, 40), st.integers(1, 10**6), max_size=20), st.floats(0.01, 1))
def test_a_quantile_is_that_of_the_probes(histogram: dict[int, int], q: float) -> None:
    assert probe_series.quantile_us(histogram, q) == buckets.quantile(histogram, q)


@given(st.dictionaries(st.integers(0, 40), st.integers(0, 10**6), max_size=30), st.integers(1, 12))
def test_grouping_loses_no_count_and_fits(histogram: dict[int, int], rows: int) -> None:
    groups = probe_text.grouped(histogram, rows)
    assert len(groups) <= rows
    assert sum(count for _, _, count in groups) == sum(histogram.values())
    assert groups == sorted(groups) and all(high < low for (_, high, _), (low, _, _) in pairwise(groups))


@given(
    st.dictionaries(st.integers(0, 32), st.integers(1, 10**9), min_size=1, max_size=12),
    st.integers(30, 100),
    st.booleans(),
    st.booleans(),
)
def test_bars_fit_and_every_bucket_is_seen(histogram: dict[int, int], cells: int, log: bool, stalled: bool) -> None:
    marked = {max(histogram): "12:31:07"} if stalled else {}
    lines = probe_text.bars(histogram, marked, cells, 20, log=log, glyphs=BRAILLE)
    texts = ["".join(text for text, _ in line) for line in lines]
    assert len(texts) == len(histogram)
    assert all(BRAILLE.levels[-1] in text and len(text) <= cells for text in texts)
    assert any("12:31:07" in text for text in texts) == stalled


STEP = StepRow(1, 1, 0, "l.i1", "write", "running", 0, None, 0, {}, None)


def frame(t_s: float, plan: list[list[int]], **values: Any) -> ProbeFrame:
    return ProbeFrame(1, round(t_s * SECOND_NS), SECOND_NS, "planner", "delete", {"plan_us": plan, **values}, {})


def stall(from_s: float, until_s: float | None) -> EventRow:
    ended = None if until_s is None else round(until_s * SECOND_NS)
    return EventRow(1, 1, 1, "stall", round(from_s * SECOND_NS), ended, "delete", {})


def test_a_bucket_that_a_stall_filled_tells_its_time() -> None:
    frames = [frame(second, [[8, 100]]) for second in range(1, 10)] + [frame(10, [[8, 3], [16, 7]])]
    histogram = Sums().add(frames).histograms["plan_us"]
    at = probe_text.stalled_buckets(frames, "plan_us", histogram, [stall(9.2, 9.9)], 0)
    assert at == {16: "00:00:09"} == probe_text.stalled_buckets(frames[9:], "plan_us", histogram, [stall(9.2, 9.9)], 0)
    assert probe_text.stalled_buckets(frames, "plan_us", histogram, [stall(20, None)], 0) == {}


AXIS = (0, 10 * SECOND_NS)


def laid(frames: list[ProbeFrame], cells: int, until_s: float = 10) -> Any:
    series = ProbeSeries(STEP, "planner", "delete")
    for one in frames:  # as they come
        series.take([one])
        series.columns("plan_us", AXIS, cells, one.t_ns)
    columns = series.columns("plan_us", AXIS, cells, round(until_s * SECOND_NS))
    at_once = ProbeSeries(STEP, "planner", "delete")
    at_once.take(frames)
    assert columns == at_once.columns("plan_us", AXIS, cells, round(until_s * SECOND_NS))
    return columns


def test_the_strip_leaves_gaps_and_marks_stalls() -> None:
    frames = [frame(second, [[8, 100]]) for second in (1, 2, 3)] + [frame(8, [[14, 1]])]
    stalled = probe_text.stalled_columns(AXIS, 10 * SECOND_NS, [stall(7, 8)], 10)
    (row,) = probe_text.strip(laid(frames, 10), stalled, 1, BRAILLE)
    text = "".join(part for part, _ in row)
    assert text == f"{BRAILLE.levels[1] * 3}    {BRAILLE.levels[-1]}  "
    assert (BRAILLE.levels[-1], "stall") in row
    wide = probe_text.stalled_columns(AXIS, 10 * SECOND_NS, [stall(7, 8)], 60)
    foot = probe_text.axis_line(AXIS, wide, 60, BRAILLE)
    assert "".join(part for part, _ in foot)[42:48] == "!" * 6


def test_the_strip_ends_at_the_moment() -> None:
    frames = [frame(second, [[8, 100]]) for second in range(1, 11)]
    assert [column is not None for column in laid(frames, 10, 4)] == [True] * 4 + [False] * 6


def test_a_heat_map_has_a_row_for_each_band_of_buckets() -> None:
    frames = [frame(second, [[8, 100], [9, 5]]) for second in range(1, 10)] + [frame(10, [[14, 1]])]
    lines = probe_text.strip(laid(frames, 40), set(), 5, BRAILLE)
    texts = ["".join(part for part, _ in line) for line in lines]
    assert [text[:10].strip() for text in texts] == ["8k-16k", "256-512", "128-256"]
    assert all(len(text) == 40 for text in texts)
    assert texts[0][10:36].strip() == "" and texts[0][39] != " " and texts[2][39] == " "


def test_figures_without_buckets_have_bars_if_there_is_room() -> None:
    columns = [HeatColumn(peak=peak) if peak is not None else None for peak in (8.0, 4.0, None, 0.0, 3.0)]
    texts = ["".join(part for part, _ in line) for line in probe_text.strip(columns, {1}, 4, BRAILLE)]
    full, half = BRAILLE.levels[-1], BRAILLE.levels[len(BRAILLE.levels) // 2]
    assert [text[0] for text in texts] == [full] * 4 and [text[1] for text in texts] == [" ", " ", full, full]
    assert {text[2] for text in texts} == {" "} and [text[3] for text in texts] == [*"   ", BRAILLE.levels[1]]
    assert [text[4] for text in texts] == [" ", " ", half, full]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (NO_BTF, "no BTF"),
        ("probes: bpftrace not found on PATH. Enter the dev shell or install bpftrace >= 0.17.", "no bpftrace"),
        ("probes: bpftrace 0.17 only runs as root (0.25 and later accept capabilities). Re-run with sudo", "no root"),
        ("probes: missing CAP_BPF; bpftrace 0.27 needs CAP_BPF, CAP_PERFMON", "no root"),
        ("probes: kernel 5.4 is older than bpftrace 0.25 supports (6.1)", "kernel too old"),
        ("probes: bpftrace 0.12 is too old, need >= 0.17", "bpftrace too old"),
        ("probes: kernel without uprobes (CONFIG_UPROBE_EVENTS); planner, phases and endpoint are off", "no uprobes"),
        ("probes: the kernel's tracing file system is not mounted; as root: mount -t tracefs", "no tracefs"),
        ("probes: tracepoint sched:sched_switch not offered by this kernel; runq and sched are off", "no tracepoint"),
        ("procsched: this kernel keeps no per-task run-queue time (schedstat is all zero)", "no schedstat"),
        ("planner: standard_planner: the binary is stripped of its symbols", "no symbol"),
        ("something else", "not here"),
    ],
)
def test_a_refusal_comes_down_to_two_words(text: str, words: str) -> None:
    assert probe_status.reason(text) == words


def one(probe: str = "planner", state: str = "ready", **values: Any) -> dict[str, Any]:
    return {"probe": probe, "state": state, "needs": ["bpftrace"], "cost": "1%", "question": "?", **values}


def said(kind: str, text: str, ended_s: int = 0) -> EventRow:
    return EventRow(1, 1, None, kind, 0, ended_s * SECOND_NS, None, {"probe": "planner", "text": text})


def state(fresh: list[ProbeFrame], events: list[EventRow], observers: tuple[str, ...] = (), **values: Any) -> Any:
    (row,) = probe_status.probe_rows([one(**values)], observers, fresh, events, None)
    return row


def test_how_a_probe_stands() -> None:
    assert state([], []).state == "off"
    assert state([frame(1, [[8, 50]])], []).state == "on"
    assert state([frame(1, [[8, 50]])], []).events_per_s == 50
    assert state([], [], ("planner:window",)).state == "off until window"
    assert state([], [], ("planner:stalls",)).state == "off until stall"
    assert state([], [], probe="procsched", state="always on").state == "always"
    assert state([], [], state=NO_BTF).state == "no BTF"
    assert state([], [], state=NO_BTF).remarks == (NO_BTF,)
    failed = state([], [said("probe", "planner: no symbol pg_plan_query in the binary")], ("planner",))
    assert failed.state == "no symbol" and "pg_plan_query" in failed.remarks[-1]
    gap = state([frame(1, [[8, 1]])], [said("probe_gap", "it was started again", 3)])
    assert gap.state == "on" and gap.remarks == ("planner: no figures for 3 s: it was started again",)
    lossy = ProbeFrame(1, SECOND_NS, SECOND_NS, "planner", "insert", {"n": 3}, {"lost_events": 12})
    row = state([lossy], [])
    assert row.state == "lost 12 events" and "BPFTRACE_PERF_RB_PAGES" in row.remarks[-1]


def test_what_has_not_been_asked_yet_is_not_told_as_empty_words() -> None:
    rows = probe_status.probe_rows(UNASKED, (), (), (), None)
    ((remark, _),) = probe_text.remarks(rows, 0, 100, 2, BRAILLE)[0]
    assert remark.strip() == "procsched: looking up its needs and cost"


def test_a_measured_cost_is_told_before_what_is_known_of_it() -> None:
    def cost(*names: str, ratio: float, **values: Any) -> dict[str, Any]:
        return {"metric": "server_cpu_us_per_op", "probes": names, "ratio": ratio, "low": None, "high": None, **values}

    assert probe_status.cost_words(one()) == "1%"
    both = cost("planner", "sched", ratio=1.05)
    assert probe_status.cost_words(one(measured=[both])) == "+5.0% with 1 more"
    alone = cost("planner", ratio=1.012, low=0.99, high=1.034)
    assert probe_status.cost_words(one(measured=[both, alone])) == "+1.2% (-1..+3) here"
    other = {**alone, "metric": "rate_per_s"}
    assert probe_status.cost_words(one(measured=[other])) == "1%"


def test_what_the_figures_leave_of_a_tall_screen_has_the_strip() -> None:
    probe, figures = "procsched", {"oncpu_us": 250_000, "runq_us": 500_000}
    series = ProbeSeries(STEP, probe, "delete")
    frames = [ProbeFrame(1, n * SECOND_NS, SECOND_NS, probe, "delete", figures, {}) for n in range(1, 11)]
    half = {**figures, "runq_us": 250_000}
    series.take([*frames[:5], *(replace(frame, data=half) for frame in frames[5:])])
    cell = SimpleNamespace(step=STEP, cell=None, session=SimpleNamespace(wall=lambda _: 0))
    at = probe_panels.Moment(cell, probe, series, (), (), 10 * SECOND_NS, 10 * SECOND_NS, 0, False, False, False)  # type: ignore[arg-type]
    for columns, height in ((80, 24), (200, 50)):
        panels, strip = probe_panels.panels_and_strip(at, columns, height, 9, BRAILLE)
        bars, least = probe_panels.room(height, 9)
        assert len(panels) + len(strip) == bars + 1 + least + 2
        assert height == 24 or len(panels) == 3
    texts = ["".join(part for part, _ in row).rstrip() for row in strip]
    full = BRAILLE.levels[-1]
    chart = texts[1:-1]  # between its heading and its axis
    assert len(chart) > 20 and all(full in row for row in chart)
    # The first half of the time is twice as tall.
    assert len(chart[0]) < len(chart[-1]) and chart[0].count(full) * 2 == chart[-1].count(full)


@given(st.integers(24, 80), st.integers(8, 10))
def test_the_parts_fill_the_screen_and_no_more(height: int, probes: int) -> None:
    bars, strip = probe_panels.room(height, probes)
    assert bars >= probe_panels.BAR_ROWS and strip >= 1
    taken = 1 + 1 + probes + 1 + bars + 2 + strip + probe_panels.REMARK_ROWS + 1
    assert taken <= max(height, 24 + probes - 8)


def test_a_steps_last_fraction_does_not_tower_over_seconds(recording: Path) -> None:
    first = look(recording, Wanted())
    assert first.places is not None
    step = first.places[14].step
    series = ProbeSeries(step, "procsched", "insert")
    lengths = [SECOND_NS, SECOND_NS, 7_500_000]
    ends = [step.started_ns + sum(lengths[: place + 1]) for place in range(3)]
    counted = [{"runq_us": us} for us in (80_000, 80_000, 5_000)]
    series.take(
        ProbeFrame(step.id, t_ns, dt_ns, "procsched", "insert", data, {})
        for t_ns, dt_ns, data in zip(ends, lengths, counted, strict=True)
    )
    columns = series.columns("runq_us", (step.started_ns, ends[-1]), 40, ends[-1])
    peaks = [column.peak for column in columns if column is not None]
    assert max(peaks) == pytest.approx(85_000 / 1.0075) and len(peaks) == 40
    assert series.sums(2**62).figures["runq_us"] == 165_000


def test_a_step_shows_its_config_where_configs_are_compared(tmp_path: Path) -> None:
    view = look(make_run(tmp_path / "r", builds=("18.6",), configs=("small", "large"), repeats=1), Wanted())
    assert view.places is not None
    place = view.places[-1]
    at = probe_panels.Moment(place, "sched", None, (), (), place.step.started_ns, 0, 0, False, False, False)
    titled, small = probe_panels.title(at, "", 80), probe_panels.small(at, ())[0]
    for shown in (titled, small):
        assert " qr100 large r1 " in "".join(part for part, _ in shown) + " "

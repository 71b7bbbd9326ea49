"""Probes: how each stands, what it counted, and switching one in a running step."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from driving import check_screen, drive
from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot

from engine.journal import EventRow, JournalReader, ProbeFrame, StepRow
from engine.writer import JournalWriter
from probes import buckets
from tui import bench
from tui.app import Bench
from tui.glyphs import SETS
from tui.probes import reel as probe_reel
from tui.probes import states as probe_states
from tui.probes import text as probe_text
from tui.probes import view as probe_view
from tui.probes.reading import Wanted, look
from tui.probes.reel import Reel, Sums
from tui.probes.screen import ProbesScreen

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchcall import LONG
from benchcall import Bench as Command

SECOND = 10**9
BRAILLE = SETS["braille"]
NO_BTF = (
    "probes: kernel has no BTF (CONFIG_DEBUG_INFO_BTF); bpftrace 0.27 cannot read tracepoint arguments. runq, sched "
    "and the group filter are off; planner, phases and endpoint count every server that runs this binary."
)


def listed(**states: str) -> list[dict[str, Any]]:
    """Rows as `bench probes list --json` gives them, on a machine that has all probes but for `states`."""
    rows: list[dict[str, Any]] = json.loads(
        subprocess.run(
            [sys.executable, "-m", "engine", "probes", "list", "--json", "--out", "/nonexistent"],
            capture_output=True,
            check=True,
        ).stdout
    )
    return [{**row, "state": states.get(row["probe"], "ready")} for row in rows]


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """The probes of a machine that has them all."""
    return listed(procsched="always on")


def answered(monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """`bench probes list` answers so, whatever this machine has; all else is asked for only. Returns what was."""
    asked: list[tuple[str, ...]] = []

    async def ask_json(*arguments: str, told: object = None) -> Any:
        return rows

    async def ask(*arguments: str, told: object = None) -> str:
        asked.append(arguments)
        return "done\n"

    monkeypatch.setattr(bench, "ask_json", ask_json)
    monkeypatch.setattr(bench, "ask", ask)
    return asked


Act = Callable[[Pilot[Any], ProbesScreen], Awaitable[None]]


def probes(pilot: Pilot[Any]) -> ProbesScreen:
    screen = pilot.app.screen_stack[0]
    assert isinstance(screen, ProbesScreen)
    return screen


async def until(pilot: Pilot[Any], held: Callable[[], bool]) -> None:
    limit = time.monotonic() + 20
    while not held():
        assert time.monotonic() < limit, text_of(pilot)
        await pilot.pause(0.02)


def text_of(pilot: Pilot[Any]) -> str:
    return pilot.app.screen_text()  # type: ignore[attr-defined, no-any-return]


async def read(pilot: Pilot[Any]) -> ProbesScreen:
    """Waits until all that is wanted has been read."""
    screen = probes(pilot)

    def done() -> bool:
        reel = screen._reel
        nothing = screen._run is None or screen._trouble
        return bool(not screen._reading and (nothing or (screen._asked and reel is not None and reel.whole)))

    await until(pilot, done)
    await pilot.pause()
    return screen


def shown(run: Path | None, *pressed: str, out: Path | None = None, then: Act | None = None, **options: Any) -> str:
    """Opens Probes on a run, presses keys, and returns the screen."""
    found: list[str] = []

    async def script(pilot: Pilot[Any]) -> None:
        screen = await read(pilot)
        for key in pressed:
            await pilot.press(key)
            await pilot.pause()
            await read(pilot)
        if then is not None:
            await then(pilot, screen)
        found.append(text_of(pilot))

    folder = out or (run.parent if run is not None else Path("/nonexistent"))
    drive(script, run, folder, screen="probes", **options)
    return found[0]


TO_STALL = ("left",) * 9  # from the newest step to l.i1 of the fourth cell, in which there were stalls


# -- screens


@pytest.mark.parametrize(
    ("name", "size", "glyphs", "pressed"),
    [
        ("probes-80x24", (80, 24), "braille", TO_STALL),
        ("probes-130x36", (130, 36), "braille", TO_STALL),
        ("probes-60x18", (60, 18), "braille", ()),
        ("probes-ascii-80x24", (80, 24), "ascii", TO_STALL),
        ("probes-sched-80x24", (80, 24), "braille", (*TO_STALL, "k", "k", "d", "l")),
        ("probes-procsched-80x24", (80, 24), "braille", (*TO_STALL, "k", "k", "k", "k", "k")),
    ],
)
def test_screen(
    recording: Path, monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]],
    name: str, size: tuple[int, int], glyphs: str, pressed: tuple[str, ...],
) -> None:  # fmt: skip
    answered(monkeypatch, rows)

    async def check(pilot: Pilot[Any], screen: ProbesScreen) -> None:
        screen.notify_line("")
        screen.paint()
        await pilot.pause()
        check_screen(pilot.app, name)  # type: ignore[arg-type]

    shown(recording, *pressed, size=size, glyphs=glyphs, then=check)


def test_without_colour_the_screen_says_the_same(
    recording: Path, monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]]
) -> None:
    answered(monkeypatch, rows)
    coloured = shown(recording, *TO_STALL)
    monkeypatch.setenv("NO_COLOR", "1")
    assert shown(recording, *TO_STALL) == coloured


def test_the_ascii_screen_is_ascii(
    recording: Path, monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]]
) -> None:
    answered(monkeypatch, rows)
    assert shown(recording, *TO_STALL, glyphs="ascii").isascii()
    assert shown(recording, *TO_STALL, "k", "k", size=(130, 40), glyphs="ascii").isascii()


# -- what is told


def test_what_this_machine_has_is_asked_of_bench(recording: Path) -> None:
    text = shown(recording)
    assert all(name in text for name in ("procsched", "planstats", "runq", "sched", "stacks", "planner", "endpoint"))
    assert "always" in text and "How long do statements take to plan?" in text


def test_histograms_are_those_of_the_journal(recording: Path, monkeypatch: pytest.MonkeyPatch, rows: Any) -> None:
    answered(monkeypatch, rows)
    with JournalReader(recording) as reader:
        step = next(step for step in reader.steps(reader.attempts()[3].id) if step.name == "l.i1")
        assert step.totals is not None
        whole = step.totals.probes["insert"]["planner"]
    text = shown(recording, *TO_STALL)
    assert f"max {whole['max_us']}" in text or "max" in text
    for bucket, count in whole["plan_us"]:
        assert f"{probe_text.bucket_words(bucket, bucket)} " in text and probe_text.short(count) in text


def test_a_probe_that_cannot_be_had_says_why_and_what_to_do(
    recording: Path, monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]]
) -> None:
    without = [row | {"state": NO_BTF} if row["probe"] in ("runq", "sched", "stacks") else row for row in rows]
    answered(monkeypatch, without)
    # Of a recorded step it is told what was, wherever one looks from.
    text = shown(recording)
    assert "no BTF" in next(line for line in text.splitlines() if "runq" in line)
    assert " on " in next(line for line in text.splitlines() if line.startswith(" sched "))
    assert "CONFIG_DEBUG_INFO_BTF" in shown(recording, "k", "k", "k")


def test_no_run_no_step_and_a_run_that_is_gone_are_one_line(
    recording: Path, monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]]
) -> None:
    answered(monkeypatch, rows)
    assert "no run is looked at: choose one in History (5)" in shown(None)

    async def remove(pilot: Pilot[Any], screen: ProbesScreen) -> None:
        shutil.rmtree(recording)
        screen.look()
        await until(pilot, lambda: bool(screen._trouble))
        await pilot.press("space", "d", "w", "l", "left", "right", "j", "k")

    assert "not a run directory" in " ".join(shown(recording, then=remove).split())


@pytest.mark.parametrize("damage", ["truncated", "newer"])
def test_a_run_that_cannot_be_read_is_one_line(
    recording: Path, monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]], damage: str
) -> None:
    answered(monkeypatch, rows)
    if damage == "truncated":
        with (recording / "journal.db").open("r+b") as journal:
            journal.truncate(20_000)
    else:
        manifest = json.loads((recording / "manifest.json").read_text())
        (recording / "manifest.json").write_text(json.dumps(manifest | {"schema": [2, 0]}))
    text = shown(recording, "space", "d", "w", "left")
    assert ("damaged or truncated" if damage == "truncated" else "journal schema 2") in " ".join(text.split())


# -- keys


def test_every_key_of_the_last_row_does_something(
    recording: Path, monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]]
) -> None:
    answered(monkeypatch, rows)

    async def act(pilot: Pilot[Any], screen: ProbesScreen) -> None:
        keys = [(key, binding) for key, binding in screen.shown_keys() if binding.id != "app.leave"]
        assert [key for key, _ in keys] == ["space", "d", "w", "l", "x", "left", "question_mark"]
        for key, binding in keys:
            screen.notify_line("")
            before = (pilot.app.screen, text_of(pilot))
            await pilot.press(key)
            await pilot.pause()
            await read(pilot)
            assert before != (pilot.app.screen, text_of(pilot)), binding
            if len(pilot.app.screen_stack) > 1:
                await pilot.press("escape")

    shown(recording, *TO_STALL, then=act)


def test_the_keys_fit_into_the_last_row(recording: Path, monkeypatch: pytest.MonkeyPatch, rows: Any) -> None:
    answered(monkeypatch, rows)
    last = shown(recording).splitlines()[23]
    assert last.endswith("q quit") and len(last) <= 80


def test_the_window_is_that_before_the_moment(recording: Path, monkeypatch: pytest.MonkeyPatch, rows: Any) -> None:
    answered(monkeypatch, rows)
    whole, minute, seconds = (shown(recording, *TO_STALL, *["w"] * times) for times in range(3))
    assert "whole step" in whole and "last 60 s" in minute and "last 10 s" in seconds

    def plannings(text: str) -> str:
        return next(line for line in text.splitlines() if line.startswith(" planner us "))

    assert plannings(whole) == plannings(minute) != plannings(seconds)


def test_steps_and_roles_are_gone_through(recording: Path, monkeypatch: pytest.MonkeyPatch, rows: Any) -> None:
    answered(monkeypatch, rows)

    async def act(pilot: Pilot[Any], _: ProbesScreen) -> None:
        async def after(*keys: str) -> str:
            for key in keys:
                await pilot.press(key)
                await pilot.pause()
                await read(pilot)
            return text_of(pilot).splitlines()[0]

        assert "qr100 16.3-prebuilt r3" in await after()
        assert "l.i1 16.3-prebuilt r3" in await after("left")
        assert "qr100 16.3-prebuilt r3" in await after("right", "right")
        assert "l.i1 14.10-prebuilt r2" in await after(*TO_STALL)
        for role in ("delete", "monitor", "server", "insert"):
            assert f"role {role} " in await after("d")
        assert "role server " in await after("D")
        assert "l.i0 14.10-prebuilt r1" in await after(*["left"] * 15)
        assert "this is the first step" in text_of(pilot)

    shown(recording, then=act)


def test_a_probe_is_switched_only_where_a_run_is_under_way(
    recording: Path, monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]]
) -> None:
    asked = answered(monkeypatch, rows)
    assert "no run is under way here" in shown(recording, "space")
    assert asked == []
    with JournalWriter.open(recording):
        shown(recording, "j", "space", "k", "space")
    run = str(recording)
    assert asked == [("probes", "on", "phases", run), ("probes", "off", "planner", run)]


def test_measuring_the_cost_asks_first_and_never_beside_a_run(
    recording: Path, monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]]
) -> None:
    asked = answered(monkeypatch, rows)
    shown(recording, "x", "n")
    assert asked == []
    assert "has what planner costs here" in shown(recording, "x", "y")
    out = str(recording.parent)
    assert asked == [("probes", "cost", "--probe", "planner", "--out", out, "--pg", "16.3-prebuilt")]
    with JournalWriter.open(recording):
        assert "on a quiet machine" in shown(recording, "x")
    assert "no cell can go without" in shown(recording, *["k"] * 5, "x")
    assert len(asked) == 1


def test_a_replay_shows_what_was_known_at_its_moment(
    recording: Path, monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]]
) -> None:
    answered(monkeypatch, rows)
    with JournalReader(recording) as reader:
        step = next(step for step in reader.steps(reader.attempts()[3].id) if step.name == "l.i1")
        frames = reader.probe_frames(step.id, 0, step.started_ns + 5 * SECOND)
    seen = [frame for frame in frames if (frame.probe, frame.role) == ("planner", "insert")]
    counted = sum(count for frame in seen for _, count in frame.data["plan_us"])
    position = (step.id, step.started_ns + 5 * SECOND)
    monkeypatch.setattr(Bench, "position", lambda _: position)

    async def replay(pilot: Pilot[Any], screen: ProbesScreen) -> None:
        pilot.app.replayed = ("a cell", None)  # type: ignore[attr-defined]
        screen.look()
        await read(pilot)
        screen.look()
        await until(pilot, lambda: "REPLAY 00:00:05" in text_of(pilot))
        await until(pilot, lambda: f" planner us  {probe_text.short(counted)}" in text_of(pilot))

    text = shown(recording, then=replay)
    assert "!" not in text.splitlines()[20]  # no stall was known by then


def test_a_probe_is_switched_on_and_off_in_a_running_step(
    new_folder: Callable[[], Path], build: Callable[[int | str], Any]
) -> None:
    """The engine answers over its socket; that `procsched` is always on needs no privilege to be said."""
    command = Command(new_folder() / "runs")
    run = command.detached("--pg", build(16).label, *LONG)
    try:
        command.await_step("l.i1")

        async def act(pilot: Pilot[Any], screen: ProbesScreen) -> None:
            await until(pilot, lambda: "REC" in text_of(pilot) and "l.i1" in text_of(pilot))
            await pilot.press(*["k"] * 7)
            await until(pilot, lambda: "ready, waiting" in text_of(pilot))
            await pilot.press("space")
            await until(pilot, lambda: "procsched is always on" in text_of(pilot))
            first = screen._moment()
            assert first is not None
            await until(pilot, lambda: (now := screen._moment()) is not None and now.end_ns > first.end_ns)

        clock = __import__("tui.app", fromlist=["Clock"]).Clock()
        shown(run, then=act, clock=clock)
    finally:
        command("stop", run.name)


@pytest.mark.outside
def test_a_probe_attached_to_a_running_step_is_seen_to_count(
    new_folder: Callable[[], Path], build: Callable[[int | str], Any]
) -> None:
    command = Command(new_folder() / "runs")
    run = command.detached("--pg", build(16).label, *LONG)
    try:
        command.await_step("l.i1")

        def state(pilot: Pilot[Any]) -> str:
            return next(line for line in text_of(pilot).splitlines() if "planner" in line)

        async def act(pilot: Pilot[Any], screen: ProbesScreen) -> None:
            await until(pilot, lambda: "l.i1" in text_of(pilot).splitlines()[0])
            while screen._row_name() != "planner":
                await pilot.press("j")
            await pilot.press("space")
            await until(pilot, lambda: " on " in state(pilot) and "planner us " in text_of(pilot))
            await pilot.press("space")
            await until(pilot, lambda: " off " in state(pilot))

        shown(run, then=act)
    finally:
        command("stop", run.name)


# -- reading


def test_reading_on_brings_what_reading_at_once_does(recording: Path) -> None:
    first = look(recording, Wanted())
    assert first.places is not None and len(first.places) == 24
    place = first.places[14]
    whole = look(recording, Wanted(step=place.step, probe="sched", role="delete", newest_step=24))
    assert whole.places is None and whole.end_ns == place.step.ended_ns
    assert ("planner", "insert") in whole.roles and ("sched", "client:insert") in whole.roles
    assert {frame.probe for frame in whole.fresh} == {"sched", "stacks", "planner", "procsched"}
    at_once, bit_by_bit = (Reel(place.step, "sched", "delete") for _ in range(2))
    at_once.take(whole.frames)
    frames = whole.frames
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


# -- pure


@given(st.dictionaries(st.integers(0, 40), st.integers(1, 10**6), max_size=20), st.floats(0.01, 1))
def test_a_quantile_is_that_of_the_probes(histogram: dict[int, int], q: float) -> None:
    assert probe_reel.quantile_us(histogram, q) == buckets.quantile(histogram, q)


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


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0, 0, "0"),
        (1, 1, "1-2"),
        (7, 7, "64-128"),
        (11, 11, "1k-2k"),
        (12, 13, "2k-8k"),
        (21, 21, "1M-2M"),
        (0, 1, "0-2"),
    ],
)
def test_buckets_are_named_by_their_values(low: int, high: int, words: str) -> None:
    assert probe_text.bucket_words(low, high) == words


STEP = StepRow(1, 1, 0, "l.i1", "write", "running", 0, None, 0, {}, None)


def frame(t_s: float, plan: list[list[int]], **values: Any) -> ProbeFrame:
    return ProbeFrame(1, round(t_s * SECOND), SECOND, "planner", "delete", {"plan_us": plan, **values}, {})


def stall(from_s: float, until_s: float | None) -> EventRow:
    ended = None if until_s is None else round(until_s * SECOND)
    return EventRow(1, 1, 1, "stall", round(from_s * SECOND), ended, "delete", {})


def test_a_bucket_that_a_stall_filled_tells_its_time() -> None:
    frames = [frame(second, [[8, 100]]) for second in range(1, 10)] + [frame(10, [[8, 3], [16, 7]])]
    histogram = Sums().add(frames).histograms["plan_us"]
    at = probe_text.stalled_buckets(frames, "plan_us", histogram, [stall(9.2, 9.9)], 0)
    assert at == {16: "00:00:09"} == probe_text.stalled_buckets(frames[9:], "plan_us", histogram, [stall(9.2, 9.9)], 0)
    assert probe_text.stalled_buckets(frames, "plan_us", histogram, [stall(20, None)], 0) == {}


AXIS = (0, 10 * SECOND)


def laid(frames: list[ProbeFrame], cells: int, until_s: float = 10) -> Any:
    reel = Reel(STEP, "planner", "delete")
    for one in frames:  # as they come
        reel.take([one])
        reel.columns("plan_us", AXIS, cells, one.t_ns)
    columns = reel.columns("plan_us", AXIS, cells, round(until_s * SECOND))
    at_once = Reel(STEP, "planner", "delete")
    at_once.take(frames)
    assert columns == at_once.columns("plan_us", AXIS, cells, round(until_s * SECOND))
    return columns


def test_the_strip_leaves_gaps_and_marks_stalls() -> None:
    frames = [frame(second, [[8, 100]]) for second in (1, 2, 3)] + [frame(8, [[14, 1]])]
    stalled = probe_text.stalled_columns(AXIS, 10 * SECOND, [stall(7, 8)], 10)
    (row,) = probe_text.strip(laid(frames, 10), stalled, 1, BRAILLE)
    text = "".join(part for part, _ in row)
    assert text == f"{BRAILLE.levels[1] * 3}    {BRAILLE.levels[-1]}  "
    assert (BRAILLE.levels[-1], "stall") in row
    wide = probe_text.stalled_columns(AXIS, 10 * SECOND, [stall(7, 8)], 60)
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
    assert probe_states.reason(text) == words


def one(probe: str = "planner", state: str = "ready", **values: Any) -> dict[str, Any]:
    return {"probe": probe, "state": state, "needs": ["bpftrace"], "cost": "1 %", "question": "?", **values}


def said(kind: str, text: str, ended_s: int = 0) -> EventRow:
    return EventRow(1, 1, None, kind, 0, ended_s * SECOND, None, {"probe": "planner", "text": text})


def state(fresh: list[ProbeFrame], events: list[EventRow], observers: tuple[str, ...] = (), **values: Any) -> Any:
    (row,) = probe_states.probe_rows([one(**values)], observers, fresh, events, None)
    return row


def test_how_a_probe_stands() -> None:
    assert state([], []).state == "off"
    assert state([frame(1, [[8, 50]])], []).state == "on"
    assert state([frame(1, [[8, 50]])], []).events_per_s == 50
    assert state([], [], ("planner:window",)).state == "off till window"
    assert state([], [], ("planner:stalls",)).state == "off till stall"
    assert state([], [], probe="procsched", state="always on").state == "always"
    assert state([], [], state=NO_BTF).state == "no BTF"
    assert state([], [], state=NO_BTF).remarks == (NO_BTF,)
    failed = state([], [said("probe", "planner: no symbol pg_plan_query in the binary")], ("planner",))
    assert failed.state == "no symbol" and "pg_plan_query" in failed.remarks[-1]
    gap = state([frame(1, [[8, 1]])], [said("probe_gap", "it was started again", 3)])
    assert gap.state == "on" and gap.remarks == ("planner: no figures for 3 s: it was started again",)
    lossy = ProbeFrame(1, SECOND, SECOND, "planner", "insert", {"n": 3}, {"lost_events": 12})
    row = state([lossy], [])
    assert row.state == "lost 12 events" and "BPFTRACE_PERF_RB_PAGES" in row.remarks[-1]


def test_a_measured_cost_is_told_before_what_is_known_of_it() -> None:
    def cost(*names: str, ratio: float, **values: Any) -> dict[str, Any]:
        return {"metric": "dbms_cpu_us_per_op", "probes": names, "ratio": ratio, "low": None, "high": None, **values}

    assert probe_states.cost_words(one()) == "1 %"
    both = cost("planner", "sched", ratio=1.05)
    assert probe_states.cost_words(one(measured=[both])) == "+5.0% with 1 more"
    alone = cost("planner", ratio=1.012, low=0.99, high=1.034)
    assert probe_states.cost_words(one(measured=[both, alone])) == "+1.2% (-1..+3) here"
    other = {**alone, "metric": "rate_per_s"}
    assert probe_states.cost_words(one(measured=[other])) == "1 %"


@given(st.integers(24, 80), st.integers(8, 10))
def test_the_parts_fill_the_screen_and_no_more(height: int, probes: int) -> None:
    room = probe_view.room(height, probes)
    assert room.bars >= probe_view.BAR_ROWS and room.strip >= 1
    taken = 1 + 1 + probes + 1 + room.bars + 2 + room.strip + probe_view.REMARK_ROWS + 1
    assert taken <= max(height, 24 + probes - 8)

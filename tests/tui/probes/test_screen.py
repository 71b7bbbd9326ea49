"""Probes: how each stands, its counts, and the keys."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from engine.core.format import short
from engine.journal.reader import FAR_NS, JournalReader
from engine.journal.writer import JournalWriter
from engine.view.probe_series import Sums
from tests.support.screens import NO_BTF, TO_STALL, answered, check_screen, listed, read, show_probes, text_of, until
from tests.support.totals import SECOND_NS
from tui.probes import text as probe_text
from tui.probes.screen import ProbesScreen

pytestmark = pytest.mark.slow  # opens the interface


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """The probes of a machine that has them all."""
    return listed(procsched="always on")


# -- screens


@pytest.mark.parametrize(
    ("name", "pressed"),
    [
        ("probes", TO_STALL),
        ("probes-sched", (*TO_STALL, "k", "k", "d", "l")),
        ("probes-procsched", (*TO_STALL, "k", "k", "k", "k", "k")),
    ],
)
def test_screen(
    recording: Path, monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]], name: str, pressed: tuple[str, ...]
) -> None:
    answered(monkeypatch, rows)

    async def check(pilot: Pilot[Any], screen: ProbesScreen) -> None:
        screen.notify_line("")
        screen.draw()
        await pilot.pause()
        check_screen(pilot.app, name)  # type: ignore[arg-type]

    show_probes(recording, *pressed, then=check)


# -- the text


def test_what_this_machine_has_is_asked_of_bench(recording: Path) -> None:
    text = show_probes(recording)
    assert all(name in text for name in ("procsched", "planstats", "runq", "sched", "stacks", "planner", "endpoint"))
    assert "always" in text and "How long do statements take to plan?" in text


def test_histograms_are_those_of_the_journal(recording: Path, monkeypatch: pytest.MonkeyPatch, rows: Any) -> None:
    answered(monkeypatch, rows)
    with JournalReader(recording) as reader:
        step = next(step for step in reader.steps(reader.attempts()[3].id) if step.name == "l.i1")
        assert step.totals is not None
        planner = step.totals.probes["insert"]["planner"]
    text = show_probes(recording, *TO_STALL)
    assert f"max {planner['max_us']}" in text or "max" in text
    for bucket, count in planner["plan_us"]:
        assert f"{probe_text.bucket_words(bucket, bucket)} " in text and short(count) in text


def test_a_probe_that_cannot_be_had_says_why_and_what_to_do(
    recording: Path, monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]]
) -> None:
    without = [
        row | {"state": NO_BTF} if row["probe"] in ("runq", "sched", "offcpu", "stacks") else row for row in rows
    ]
    answered(monkeypatch, without)
    # Of a recorded step the past is shown, from wherever one looks.
    text = show_probes(recording)
    assert "no BTF" in next(line for line in text.splitlines() if "runq" in line)
    assert " on " in next(line for line in text.splitlines() if line.startswith(" sched "))
    assert "CONFIG_DEBUG_INFO_BTF" in show_probes(recording, *"kkk", "k")


def test_a_probe_without_data_leads_to_those_with_some(
    recording: Path, monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]]
) -> None:
    answered(monkeypatch, rows)
    text = " ".join(show_probes(recording, *TO_STALL, "j", "j").split())
    said = "no data from endpoint for this step, only from planner, procsched, sched, stacks; up, down choose a probe"
    assert said in text


def test_no_run_no_step_and_a_run_that_is_gone_are_one_line(
    recording: Path, monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]]
) -> None:
    answered(monkeypatch, rows)
    assert "No run selected: choose one in History (5); bench demo" in show_probes(None)

    async def remove(pilot: Pilot[Any], screen: ProbesScreen) -> None:
        shutil.rmtree(recording)
        screen.look()
        await until(pilot, lambda: bool(screen.trouble))
        await pilot.press("space", "d", "w", "l", "left", "right", "j", "k")

    assert "not a run's folder" in " ".join(show_probes(recording, then=remove).split())


# -- keys


def test_the_window_is_that_before_the_moment(recording: Path, monkeypatch: pytest.MonkeyPatch, rows: Any) -> None:
    answered(monkeypatch, rows)
    shown: list[str] = []

    async def act(pilot: Pilot[Any], _: ProbesScreen) -> None:
        while len(shown) < 3:
            shown.append(text_of(pilot))
            await pilot.press("w")
            await pilot.pause()
            await read(pilot, ProbesScreen)

    show_probes(recording, *TO_STALL, then=act)
    step_text, minute, seconds = shown
    assert "whole step" in step_text and "last 60 s" in minute and "last 10 s" in seconds

    def plannings(text: str) -> str:
        return next(line for line in text.splitlines() if line.startswith(" planner us "))

    assert plannings(step_text) == plannings(minute) != plannings(seconds)


def test_steps_and_roles_are_gone_through(recording: Path, monkeypatch: pytest.MonkeyPatch, rows: Any) -> None:
    answered(monkeypatch, rows)

    async def act(pilot: Pilot[Any], _: ProbesScreen) -> None:
        async def after(*keys: str) -> str:
            for key in keys:
                await pilot.press(key)
                await pilot.pause()
                await read(pilot, ProbesScreen)
            return text_of(pilot).splitlines()[1]

        assert "qr100 16.3-prebuilt r3" in await after()
        assert "l.i1 16.3-prebuilt r3" in await after("left")
        assert "qr100 16.3-prebuilt r3" in await after("right", "right")
        assert "l.i1 14.10-prebuilt r2" in await after(*TO_STALL)
        for role in ("delete", "monitor", "server", "insert"):
            assert f"role {role} " in await after("d")
        assert "role server " in await after("D")
        assert "l.i0 14.10-prebuilt r1" in await after(*["left"] * 15)
        assert "this is the first step" in text_of(pilot)

    show_probes(recording, then=act)


async def act_during_a_reading(pilot: Pilot[Any], screen: ProbesScreen, turns: int, *actions: str) -> None:
    """Act when the event loop has turned so often since a reading began, and wait until all is read."""
    screen.look()
    for _ in range(turns):
        await asyncio.sleep(0)
    for action in actions:
        await pilot.app.run_action(action, screen)
    await read(pilot, ProbesScreen)


def test_a_step_chosen_during_a_reading_has_its_own_roles(
    recording: Path, monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]]
) -> None:
    answered(monkeypatch, rows)
    monkeypatch.setattr(ProbesScreen, "LOOK_S", 3600.0)  # nothing else begins a reading

    async def act(pilot: Pilot[Any], screen: ProbesScreen) -> None:
        for turns in range(10):
            assert "query" in {role for _, role in screen.roles}
            await act_during_a_reading(pilot, screen, turns, "step(-1)")
            roles = {role for _, role in screen.roles}
            assert "insert" in roles and "query" not in roles
            await act_during_a_reading(pilot, screen, turns, "step(1)")

        for action in ("role(1)", "flame"):
            await act_during_a_reading(pilot, screen, 0, "step(-1)", action)
            assert "this step has not been read yet" in text_of(pilot)

    # The chosen probe and role are those of both steps.
    show_probes(recording, *TO_STALL[1:], "j", "k", "d", "D", then=act)


def test_a_choice_taken_back_during_a_reading_loses_no_frames(
    recording: Path, monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]]
) -> None:
    answered(monkeypatch, rows)
    monkeypatch.setattr(ProbesScreen, "LOOK_S", 3600.0)

    async def act(pilot: Pilot[Any], screen: ProbesScreen) -> None:
        def sums() -> Sums:
            assert screen.series is not None
            return screen.series.sums(FAR_NS)

        before = sums()
        assert before.figures
        for away, back in (("move(1)", "move(-1)"), ("role(1)", "role(-1)"), ("step(-1)", "step(1)")):
            for turns in range(10):
                await act_during_a_reading(pilot, screen, turns, away, back)
                assert sums() == before, (away, turns)

    show_probes(recording, *TO_STALL, then=act)


def test_a_probe_is_switched_only_where_a_run_is_under_way(
    recording: Path, monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]]
) -> None:
    asked = answered(monkeypatch, rows)
    assert "no run in progress" in show_probes(recording, "space")
    assert asked == []
    with JournalWriter.open(recording):
        show_probes(recording, "j", "space", "k", "space")
    run = str(recording)
    assert asked == [("probes", "on", "phases", run), ("probes", "off", "planner", run)]


def test_measuring_the_cost_asks_first_and_never_beside_a_run(
    recording: Path, monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]]
) -> None:
    asked = answered(monkeypatch, rows)
    show_probes(recording, "x", "n")
    assert asked == []
    assert "has what planner costs here" in show_probes(recording, "x", "y")
    out = str(recording.parent)
    assert asked == [("probes", "cost", "--probe", "planner", "--out", out, "--pg", "16.3-prebuilt")]
    with JournalWriter.open(recording):
        assert "on a quiet machine" in show_probes(recording, "x")
    assert "no cells without it to compare" in show_probes(recording, *["k"] * 5, "x")
    assert len(asked) == 1


def test_a_replay_shows_what_was_known_at_its_moment(
    recording: Path, monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]]
) -> None:
    answered(monkeypatch, rows)
    with JournalReader(recording) as reader:
        step = next(step for step in reader.steps(reader.attempts()[3].id) if step.name == "l.i1")
        frames = reader.probe_frames(step.id, 0, step.started_ns + 5 * SECOND_NS)
    seen = [frame for frame in frames if (frame.probe, frame.role) == ("planner", "insert")]
    counted = sum(count for frame in seen for _, count in frame.data["plan_us"])

    async def replay(pilot: Pilot[Any], screen: ProbesScreen) -> None:
        context = pilot.app.context  # type: ignore[attr-defined]
        context.replayed, context.position = ("a cell", None), (step.id, step.started_ns + 5 * SECOND_NS)
        screen.look()
        await read(pilot, ProbesScreen)
        screen.look()
        await until(pilot, lambda: "REPLAY 00:00:05" in text_of(pilot))
        await until(pilot, lambda: f" planner us  {short(counted)}" in text_of(pilot))

    text = show_probes(recording, then=replay)
    assert "!" not in text.splitlines()[20]  # no stall was known by then

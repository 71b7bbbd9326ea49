"""A workload that the engine has never heard of (`tests.support.toy`), from its plan to its comparison."""

from __future__ import annotations

import json
import os
import signal
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from textual.pilot import Pilot

from engine.journal.manifest import read_manifest
from engine.journal.reader import JournalReader
from engine.journal.rows import EventRow, StepRow
from engine.plan.command_line import command
from tests.support.benchcall import STALL_END_S, Bench, ended_stalls, wait_for
from tests.support.screens import estimated, show_launch
from tui.launch import choices, plan_fields
from tui.launch.plan_edits import with_build, with_option, with_workload
from tui.launch.screen import LaunchScreen

WARM_TICKS = 8  # the seconds after which a stall is looked for, and some more
REGISTERED = {"PGBED_WORKLOADS": "toy=tests.support.toy"}


@pytest.fixture
def toy(bench: Bench) -> Bench:
    return Bench(bench.out, REGISTERED)


def warm(bench: Bench, step: StepRow) -> bool:
    with JournalReader(bench.run) as reader:
        return len(reader.role_seconds(reader.roles(step.id)[0].id)) >= WARM_TICKS


def causes(stall: EventRow) -> list[str]:
    return [cause["name"] for cause in stall.data.get("causes", ())]


def blamed(bench: Bench, step: StepRow) -> bool:
    """Whether a stall, over or not, is put down to a signal."""
    with JournalReader(bench.run) as reader:
        return any("stopped" in causes(event) for event in reader.events(step.id) if event.kind == "stall")


def test_it_is_planned_run_watched_and_compared(toy: Bench, label: str, tmp_path: Path) -> None:
    plan = tmp_path / "toy.toml"
    entries = {"builds": [label], "workload": "toy", "repeats": 2, "allow_concurrent": True}
    plan.write_text(tomli_w.dumps({**entries, "questions": 300, "clients": 2}))
    planned = json.loads(toy("--plan", str(plan), "--estimate").stdout)
    assert planned["steps"] == ["ask"] and planned["cell_count"] == 2
    assert planned["plan"] == tomllib.loads(plan.read_text())
    done = toy("--plan", str(plan), "--plain")
    assert done.returncode == 0, done.stderr
    assert "toy 300 questions, 2 clients: ask" in done.stdout
    (step,) = {found["step"]: found for found in toy.comparison()["cells"]}.values()  # type: ignore[attr-defined]
    assert step["kind"] == "ask" and step["ops"] == 600 and step["rate_per_s"] > 0
    assert step["roles"]["ask"]["statements"] == 600
    assert toy.comparison()["units"] == {"ask": "questions/s"}
    told = toy("compare").stdout
    assert "questions/s ratio" in told and "Every cell (questions/s)" in told and "queries/s" not in told
    assert "Response time of ask statements" in told
    bare = Bench(toy.out)  # a run is read without its workload
    assert bare("compare").stdout == told


def test_a_stall_of_it_is_seen_and_explained(toy: Bench, label: str) -> None:
    words = ("--workload", "toy", "--questions", "1000000000", "--answer", "late")
    toy.detached("--pg", label, "--repeats", "1", *words)
    step = toy.await_step("ask")
    assert step.primary_metric is not None and step.primary_metric.unit == "questions/s"
    wait_for(lambda: warm(toy, step), "some seconds of the step")
    assert "questions/s" in toy("watch", "--once").stdout
    backend = toy.backend(step, "ask")
    os.kill(backend, signal.SIGSTOP)
    try:
        wait_for(lambda: "STALL ask" in toy("watch", "--once").stdout, "the stall to be told")
        wait_for(lambda: blamed(toy, step), "the signal to be its cause")
    finally:
        os.kill(backend, signal.SIGCONT)
    wait_for(
        lambda: "stopped" in [name for stall in ended_stalls(toy, step) for name in causes(stall)],
        "its end",
        STALL_END_S,
    )
    assert toy("stop").returncode == 0


def test_runs_of_it_that_differ_in_what_counts_are_not_compared(toy: Bench, label: str, tmp_path: Path) -> None:
    runs = []
    for answer in ("one", "two"):
        words = ("--pg", label, "--repeats", "1", "--workload", "toy", "--questions", "50", "--answer", answer)
        assert toy("run", *words, "--plain").returncode == 0
        runs.append(str(toy.run))
        said = {"name": "toy", "title": "50 questions", "clients": 1, "identity": {"answer": answer}}
        assert said.items() <= read_manifest(toy.run).workload.items()
    done = toy("compare", *runs)
    assert done.returncode == 2 and "cannot be compared: answer is one in the one and two in the other" in done.stderr


def test_options_of_another_workload_are_refused_in_one_line(toy: Bench, label: str) -> None:
    for words, told in (
        (("--workload", "toy", "--rows", "5000"), "workload toy has no option --rows"),
        (("--questions", "5"), "workload insert has no option --questions"),
        (("--workload", "toys"), "unknown workload 'toys' (nearest: toy"),
    ):
        done = toy("run", "--pg", label, *words, "--dry-run")
        (line,) = done.stderr.strip().splitlines()
        assert done.returncode == 2 and told in line
    assert Bench(toy.out)("run", "--pg", label, "--workload", "toy", "--dry-run").returncode == 2


def test_the_screen_offers_it(toy: Bench, label: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in REGISTERED.items():
        monkeypatch.setenv(name, value)

    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        passed = [screen.plan]
        for _ in screen.offer.workloads:
            greater = plan_fields.load(passed[-1], screen.offer)[0].greater
            passed.append(greater() if greater is not None else passed[-1])
        assert "toy" in [plan.workload for plan in passed]
        plan = with_workload(with_build(screen.plan, label, screen.offer.labels), "toy")
        screen.change(with_option(plan, "questions", 70))
        assert [item.name for item in plan_fields.load(screen.plan, screen.offer)] == [
            "workload",
            "questions",
            "answer",
        ]
        assert [item.name for item in choices.steps(screen.plan, screen.offer)] == ["ask"]
        assert command(screen.plan) == f"bench --pg {label} --workload toy --questions 70"
        await estimated(pilot, screen)
        assert screen.estimate is not None and screen.estimate["steps"] == ["ask"]

    show_launch(act, toy.out)

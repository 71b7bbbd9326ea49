"""A workload that the engine has never heard of (`tests.support.toy`), from its plan to its comparison."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from textual.pilot import Pilot

from engine.journal.manifest import read_manifest
from engine.plan.command_line import command
from tests.support.benchcall import Bench
from tests.support.screens import estimated, show_launch
from tui.launch import choices, plan_fields
from tui.launch.plan_edits import with_build, with_option, with_workload
from tui.launch.screen import LaunchScreen

REGISTERED = {"PGBED_WORKLOADS": "toy=tests.support.toy"}


@pytest.fixture
def toy(bench: Bench) -> Bench:
    return Bench(bench.out, REGISTERED)


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
    (step,) = {cell["step"]: cell for cell in toy.comparison()["cells"]}.values()  # type: ignore[attr-defined]
    assert step["kind"] == "ask" and step["ops"] == 600 and step["rate_per_s"] > 0
    assert step["roles"]["ask"]["statements"] == 600
    assert toy.comparison()["units"] == {"ask": "questions/s"}
    text = toy("compare", "--all").stdout
    assert "questions/s ratio" in text and "Every cell (questions/s)" in text and "queries/s" not in text
    assert "Response time of ask statements" in text
    bare = Bench(toy.out)  # a run is read without its workload
    assert bare("compare", "--all").stdout == text


def test_runs_of_it_that_differ_in_what_counts_are_not_compared(toy: Bench, label: str, tmp_path: Path) -> None:
    runs = []
    for answer in ("one", "two"):
        words = ("--pg", label, "--repeats", "1", "--workload", "toy", "--questions", "50", "--answer", answer)
        assert toy("run", *words, "--plain").returncode == 0
        runs.append(str(toy.run))
        said = {"name": "toy", "title": "50 questions", "clients": 1, "identity": {"answer": answer}}
        assert said.items() <= read_manifest(toy.run).workload.items()
    done = toy("compare", *runs)
    assert done.returncode == 2 and "cannot be compared: different answer (one, two)" in done.stderr


def test_options_of_another_workload_are_refused_in_one_line(toy: Bench, label: str) -> None:
    for words, message in (
        (("--workload", "toy", "--rows", "5000"), "workload toy has no option --rows"),
        (("--questions", "5"), "workload insert has no option --questions"),
        (("--workload", "toys"), "unknown workload 'toys' (nearest: toy"),
    ):
        done = toy("run", "--pg", label, *words, "--dry-run")
        (line,) = done.stderr.strip().splitlines()
        assert done.returncode == 2 and message in line
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

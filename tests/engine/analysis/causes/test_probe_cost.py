"""The cost of probes: bare and probed cells in pairs, judged like two builds, kept for this host."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from engine.analysis.causes import probe_cost
from engine.analysis.causes.probe_cost import Cost
from engine.cli.probes import _usual
from engine.core.model import Build
from engine.journal.reader import JournalReader
from engine.plan import planfile
from engine.results.ratio import CPU, RATE
from tests.support.benchcall import SMALL, Bench
from workloads import workload
from workloads.api.options import checked

COST = Cost("", ("sched", "stacks"), "16.3", "l.i1", "rate_per_s", 0.99, 0.98, 1.0, 8, "a run")


def test_a_newer_cost_of_the_same_probes_replaces_the_older(tmp_path: Path) -> None:
    here = replace(COST, host=platform.node())
    probe_cost.keep(tmp_path, [here])
    probe_cost.keep(tmp_path, [replace(here, ratio=0.97, run="a newer run"), replace(here, step="l.i2")])
    assert [(cost.step, cost.ratio) for cost in probe_cost.known(tmp_path)] == [("l.i1", 0.97), ("l.i2", 0.99)]


def test_figures_of_another_host_are_not_shown(tmp_path: Path) -> None:
    probe_cost.keep(tmp_path, [replace(COST, host="elsewhere")])
    assert probe_cost.known(tmp_path) == ()


def test_a_damaged_file_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / probe_cost.FILE).write_text('[{"host": 1')
    assert probe_cost.known(tmp_path) == ()


def test_too_few_pairs_are_said_without_an_interval() -> None:
    (line,) = probe_cost.lines([replace(COST, low=None, high=None, pairs=1)])
    assert line.split() == ["l.i1", "throughput", "0.990", "1", "pairs,", "16.3"]


@pytest.mark.outside
@pytest.mark.first
def test_bare_and_probed_cells_alternate_and_are_compared(
    new_folder: Callable[[], Path], build: Callable[[int | str], Build]
) -> None:
    bench = Bench(new_folder() / "runs")
    options = f"--probe sched --pg {build(16).label} --steps l.i1 --pairs 2 --json --allow-concurrent".split()
    done = bench("probes", "cost", *options, *SMALL[:4])
    assert done.returncode == 0, done.stderr
    costs = json.loads(done.stdout)
    assert {(cost["step"], cost["metric"]) for cost in costs} == {("l.i1", metric) for metric in (RATE, CPU)}
    assert all(cost["probes"] == ["sched"] and cost["ratio"] for cost in costs)
    assert {cost["pairs"] for cost in costs} == {bench.undrifted_pairs(2)}
    with JournalReader(bench.run) as reader:
        variants = [cell.subject.control for cell in reader.manifest.cells]
        probed = [
            {step.totals.observers for step in reader.steps(attempt.id) if step.totals} for attempt in reader.attempts()
        ]
    assert variants == ["", "probed", "probed", ""]
    assert probed == [{()}, {("sched",)}, {("sched",)}, {()}]
    listed = bench("list", "probes").stderr
    assert "measured here (bench probes cost), with probes against without:" in listed and "16.3" in listed


@pytest.mark.parametrize(("name", "steps"), [("insert", "l.i0 l.x l.i1"), ("pgbench-select", "init select.c1")])
def test_any_workload_has_steps_to_measure_with(name: str, steps: str) -> None:
    request = planfile.request({"builds": ["16.3"], "workload": name, **_usual(name)})
    chosen = workload(name)
    plan = chosen.plan(checked(chosen.options, request.options))
    assert [step.name for step in chosen.steps(plan.record)][: len(steps.split())] == steps.split()

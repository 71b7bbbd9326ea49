"""`bench confirm`: what it measures again, what it says, and its exit codes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from engine.cli import confirm
from engine.cli.main import main
from engine.core.model import Build, Cell
from engine.host import environment
from engine.journal.manifest import read_manifest
from engine.journal.runs import runs_in
from engine.journal.totals import StepTotals
from engine.plan import planfile
from engine.results.comparison import LATENCIES
from tests.support.journal import ENVIRONMENT, make_run
from workloads import histogram, workload
from workloads.options import checked

SLOWER = {("17.0", "l.i1"): 0.9}


def bench(*words: str | Path) -> Result:
    return CliRunner().invoke(main, ["confirm", *map(str, words)])


@pytest.mark.parametrize(
    ("second", "code", "said"),
    [
        (SLOWER, 1, "17.0 l.i1 confirmed: slower, -10."),
        ({}, 0, "17.0 l.i1 not confirmed: same, "),
        ({("17.0", "l.i1"): 1.1}, 0, "17.0 l.i1 not confirmed: faster, +"),
    ],
)
def test_the_verdict_has_both_ratios_and_the_exit_code_of_a_gate(
    second: dict[tuple[str, str], float], code: int, said: str, tmp_path: Path
) -> None:
    first = make_run(tmp_path / "first", effects=SLOWER, repeats=6)
    other = make_run(tmp_path / "other", effects=second, repeats=6, seed=2)
    result = bench(first, other)
    assert result.exit_code == code, result.output
    (line,) = (line for line in result.stdout.splitlines() if line.startswith("17.0"))
    assert line.startswith(said) and "; first slower, -10." in line


def tail(factor: float) -> Callable[[Cell, str, StepTotals], StepTotals]:
    """Each hundredth query of 17.0 takes so many times as long, which its rate hardly shows."""

    def change(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        if step != "qr100" or cell.subject.build != "17.0":
            return totals
        query = totals.roles["query"]
        (fast, slow), longer_us = query.histogram, round(3000 * factor)
        found = replace(query, histogram=(fast, (histogram.index(longer_us), slow[1])), max_ns=1000 * longer_us)
        return replace(totals, roles=totals.roles | {"query": found})

    return change


@pytest.mark.parametrize(
    ("first", "second", "code", "said"),
    [
        (1.1, 1.1, 1, "17.0 qr100 longest response confirmed: slower, +10.0% ["),
        (1.1, 1.0, 0, "17.0 qr100 longest response not confirmed: same, "),
        (0.9, 1.1, 0, "17.0 qr100 longest response not confirmed: slower, +10.0% ["),
    ],
)
def test_a_response_time_that_was_named_is_judged_again(
    first: float, second: float, code: int, said: str, tmp_path: Path
) -> None:
    runs = [
        make_run(tmp_path / name, repeats=5, change=tail(factor), noise=0.0005, seed=seed)
        for seed, (name, factor) in enumerate({"first": first, "second": second}.items())
    ]
    result = bench(*runs)
    assert result.exit_code == code and said in result.stdout, result.output
    steps = json.loads(bench(*runs, "--json").stdout)["steps"]
    metrics = {step["first"]["metric"] for step in steps}
    assert "latency_max_us" in metrics and metrics <= LATENCIES.keys(), "the rate was not named"
    assert {step["second"]["metric"] for step in steps} == metrics


def test_a_step_named_faster_that_is_slower_now_is_not_confirmed_to_be_slower(tmp_path: Path) -> None:
    first = make_run(tmp_path / "first", effects={("17.0", "l.i1"): 1.1}, repeats=6)
    result = bench(first, make_run(tmp_path / "other", effects=SLOWER, repeats=6, seed=2))
    assert "17.0 l.i1 not confirmed: slower, -10." in result.stdout
    assert result.exit_code == 0, result.output


def test_cells_that_failed_are_the_reason_of_exit_code_1(tmp_path: Path) -> None:
    first = make_run(tmp_path / "first", effects=SLOWER, repeats=6)
    result = bench(first, make_run(tmp_path / "other", repeats=6, seed=2, failed={1: "no space"}))
    assert result.exit_code == 1 and "17.0 l.i1 not confirmed: same" in result.stdout
    assert "? 17.0 l.i1: not measured in 1 of 6 cells: failed: no space" in result.stdout


def test_a_run_of_another_workload_confirms_nothing(tmp_path: Path) -> None:
    first = make_run(tmp_path / "first", effects=SLOWER, repeats=6)
    result = bench(first, make_run(tmp_path / "other", effects=SLOWER, repeats=6, clients=2))
    assert result.exit_code == 2 and "cannot be compared: clients is 1 in the one and 2 in the other" in result.stderr


@pytest.mark.parametrize("entries", [{"environment": ENVIRONMENT | {"host": None}}, {"created": "yesterday"}])
def test_a_record_without_machine_or_time_is_no_obstacle(entries: dict[str, Any], tmp_path: Path) -> None:
    here = ENVIRONMENT | {"host": {"machine": environment.machine_id()}}
    runs = [make_run(tmp_path / name, effects=SLOWER, repeats=6, environment=here) for name in ("first", "other")]
    path = runs[0] / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))
    result = bench(*runs)
    assert result.exit_code == 1 and "17.0 l.i1 confirmed" in result.stdout


def test_as_json_it_has_both_ratios(tmp_path: Path) -> None:
    first = make_run(tmp_path / "first", effects=SLOWER, repeats=6)
    other = make_run(tmp_path / "other", effects=SLOWER, repeats=6, seed=2)
    (step,) = json.loads(bench(first, other, "--json").stdout)["steps"]
    assert step["confirmed"] is True and step["first"]["verdict"] == step["second"]["verdict"] == "slower"


def test_a_run_that_named_nothing_has_nothing_to_confirm(tmp_path: Path) -> None:
    result = bench(make_run(tmp_path / "run"))
    assert result.exit_code == 0 and "there is nothing to confirm" in result.stderr


def test_what_failed_otherwise_is_not_taken_back(tmp_path: Path) -> None:
    crashed = dict.fromkeys(range(1, 12, 4), "the server ended")  # all those of 17.0
    run = make_run(tmp_path / "run", failed=crashed | {cell + 1: "too" for cell in crashed}, repeats=6)
    result = bench(run)
    assert result.exit_code == 1, result.output
    assert "nothing to confirm" in result.stderr and "gate: failed: 17.0 " in result.stderr
    first = make_run(tmp_path / "first", effects=SLOWER, repeats=6, failed={1: "the server ended"})
    result = bench(first, make_run(tmp_path / "other", repeats=6, seed=2))
    assert result.exit_code == 1, result.output
    assert "17.0 l.i1 not confirmed: same" in result.stdout and "? in the first run, and not meas" in result.stdout


def test_a_run_of_which_nothing_is_known_is_no_confirmation(tmp_path: Path) -> None:
    result = bench(make_run(tmp_path / "run", repeats=1))
    assert result.exit_code == 2 and "nothing is known of any step" in result.stderr


def test_a_run_does_not_confirm_itself(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", effects=SLOWER, repeats=6)
    result = bench(run, run)
    assert result.exit_code == 2 and "cannot confirm itself" in result.stderr


def test_what_was_named_is_measured_again_and_what_it_needs(
    tmp_path: Path, servers: dict[str, Build], new_folder: Callable[[], Path]
) -> None:
    out = new_folder()
    prefix = next(iter(servers.values())).prefix
    entries = {
        "builds": [f"old={prefix}", f"new={prefix}"],
        "rows": 2000,
        "rows_written": 1000,
        "query_seconds": 1,
        "overrides": ["shared_buffers=32MB"],
        "interleave": "cells",
        "repeats": 1,
        "tolerate": ["3%", "qr100=5%", "l.i1=1%"],
        "allow_concurrent": True,
    }
    run = make_run(
        tmp_path / "first", builds=("old", "new"), effects={("new", "l.i1"): 0.9}, repeats=6, request=entries
    )
    copy = shutil.copytree(run, tmp_path / "copy" / "first")
    refused = bench(copy, "--out", out)
    assert refused.exit_code == 2 and "without a terminal, --yes must confirm" in refused.stderr
    result = bench(run, "--out", out)  # which this user has made
    assert result.exit_code == 2 and "nothing is known of what was named" in result.stderr  # of a single pair
    assert result.stdout.startswith("new l.i1 not confirmed: no interval")  # progress is on stderr
    assert "? old is not the binary that first measured" in result.stdout
    (made,) = runs_in(out)
    manifest = read_manifest(made)
    assert [step["name"] for step in manifest.workload["steps"]] == ["l.i0", "l.x", "l.i1"]
    assert manifest.tolerated == {"": 0.03, "l.i1": 0.01}


def test_queries_that_were_not_named_are_left_out(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", request={"builds": ["16.3", "17.11"]})
    assert confirm._request(run, ["qr100"]).options["steps"] == ["l.i0", "l.x", "l.i1", "qr100"]
    assert confirm._request(run, ["l.x"]).options["steps"] == ["l.i0", "l.x"]


def test_reads_of_the_oltp_tests_that_were_not_named_are_left_out_too(tmp_path: Path) -> None:
    run = planned_with(tmp_path / "run", {"workload": "oltp", "builds": ["16.3"], "rows": 2000})
    steps = confirm._request(run, ["point-query", "insert"]).options["steps"]
    assert "point-query" in steps and "update-one" in steps and "insert" in steps
    assert "hot-points" not in steps and "range-covered-pk" not in steps and "read-only-sum" not in steps


def test_a_workload_whose_steps_cannot_be_chosen_is_measured_as_a_whole(tmp_path: Path) -> None:
    run = planned_with(tmp_path / "run", {"workload": "tpcc-like", "builds": ["16.3"]})
    assert confirm._request(run, ["capacity"]) == planfile.of_manifest(run / "manifest.json")


def planned_with(path: Path, entries: dict[str, Any]) -> Path:
    """A run with this request, and the steps that it comes to."""
    request = planfile.request(entries)
    chosen = workload(request.workload)
    record = chosen.plan(checked(chosen.options, request.options)).record
    run = make_run(path, request=entries)
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps(manifest | {"workload": msgspec.to_builtins(record)}))
    return run

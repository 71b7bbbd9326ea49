"""A comparison as CI has it: an exit code, a line, and JUnit's XML."""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from click.testing import CliRunner, Result

from engine.cli.main import main
from engine.core.model import Build, Cell
from engine.journal.manifest import read_manifest
from engine.journal.totals import StepTotals
from engine.plan.tolerance import strictest, tolerances
from engine.results.ratio import RATE
from tests.support import scripted
from tests.support.benchcall import Bench
from tests.support.journal import ENVIRONMENT, make_run
from workloads.client import histogram

STEPS = ("l.i0", "l.x", "l.i1", "qr100")
EFFECTS = {("17.0", "l.i1"): 0.90, ("17.0", "qr100"): 1.05}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """17.0 is 10% slower in l.i1, 5% faster in qr100."""
    return make_run(tmp_path_factory.mktemp("gate") / "runs" / "made", repeats=5, effects=EFFECTS)


def gate(run: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["compare", str(run), "--out", str(run.parent), "--gate", *words])


def test_a_slower_headline_is_exit_code_1_and_the_step_is_named(run: Path) -> None:
    outcome = gate(run)
    assert outcome.exit_code == 1
    (line,) = outcome.stderr.splitlines()
    assert line.startswith("gate: failed: 17.0 l.i1 slower: -9.9%") and "l.i0" not in line
    assert gate(run, "--base", "17.0").stderr.startswith("gate: failed: 16.3 qr100 slower: -4.")


def test_what_is_tolerated_passes(run: Path) -> None:
    assert gate(run, "--tolerate", "l.i1=12%").exit_code == 0
    assert gate(run, "--tolerate", "12%").exit_code == 0
    assert gate(run, "--tolerate", "12%,l.i1=3%").exit_code == 1
    outcome = gate(run, "--tolerate", "12%", "--json")
    assert outcome.exit_code == 0 and outcome.stdout.startswith("{")


def test_the_plan_says_what_is_tolerated(run: Path, tmp_path: Path) -> None:
    copy = make_run(tmp_path / "runs" / "made", repeats=5, effects=EFFECTS)
    manifest = read_manifest(copy).record() | {"tolerated": {"": 0.02, "l.i1": 0.15}}
    (copy / "manifest.json").write_bytes(msgspec.json.encode(manifest))
    assert gate(copy).exit_code == 0
    assert gate(copy, "--tolerate", "5%").exit_code == 1


def slow_tail(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
    """Each hundredth query of 17.0 takes a tenth longer, which its rate hardly shows."""
    if step != "qr100" or cell.subject.build != "17.0":
        return totals
    query = totals.roles["query"]
    (fast, slow), longer = query.histogram, histogram.index(3300)
    tail = replace(query, histogram=(fast, (longer, slow[1])), max_ns=3_300_000)
    return replace(totals, roles=totals.roles | {"query": tail})


def test_a_longer_tail_is_exit_code_1_where_the_rate_is_the_same(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs" / "tail", repeats=5, change=slow_tail, noise=0.0005)
    outcome, file = gate(run, "--junit", str(tmp_path / "junit.xml")), tmp_path / "junit.xml"
    assert outcome.exit_code == 1
    (line,) = outcome.stderr.splitlines()
    assert line.startswith("gate: failed: 17.0 qr100 responses take longer: ") and "longest +10.0% [" in line
    assert "p50" not in line and "; same: " in line and cases(file)["17.0", "qr100"] == "failure"
    assert gate(run, "--tolerate", "8%").exit_code == 1, "1/0.92 is less than 1.1"
    assert gate(run, "--tolerate", "qr100=10%").exit_code == 0


def test_junit_names_every_step_with_what_became_of_it(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "junit.xml"
    gate(run, "--junit", str(file))
    (suite,) = ElementTree.parse(file).getroot()
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("17.0 against 16.3", "4", "1")
    assert [case.get("name") for case in suite] == list(STEPS)
    failed = [(case.get("name"), mark.get("message")) for case in suite for mark in case.findall("failure")]
    assert [name for name, _ in failed] == ["l.i1"] and str(failed[0][1]).startswith("slower: -9.9%")


def test_where_every_step_is_undecided_nothing_has_passed(tmp_path: Path) -> None:
    outcome = gate(make_run(tmp_path / "runs" / "one", repeats=1, effects=EFFECTS))
    assert outcome.exit_code == 3 and outcome.stderr == "gate: undecided: 4 of 4 comparisons, all of 17.0\n"
    crashed = dict.fromkeys((2, 3), "the server was killed")
    assert gate(make_run(tmp_path / "runs" / "two", repeats=2, failed=crashed)).exit_code == 3
    outcome = gate(make_run(tmp_path / "runs" / "base", builds=("16.3",)))
    assert outcome.exit_code == 2 and "there is nothing to compare with the base" in outcome.stderr


def test_no_slower_passes_and_no_faster_does_not(tmp_path: Path) -> None:
    """17.0 may be 2% faster in l.i0 and 2% slower in qr100, but not the other way."""

    def uneven(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        ratio = {"l.i0": (0.99, 1.03, 1.0, 1.03, 1.02), "qr100": (1.01, 0.97, 1.0, 0.97, 0.98)}.get(step)
        slower = 1 / ratio[cell.repeat - 1] if ratio and cell.subject.build == "17.0" else 1.0
        return replace(totals, seconds=totals.seconds * slower)

    run, file = make_run(tmp_path / "runs" / "r", repeats=5, noise=0, change=uneven), tmp_path / "junit.xml"
    outcome = gate(run, "--junit", str(file), "--json")
    verdicts = {
        ratio["step"]: ratio["verdict"]
        for ratio in msgspec.json.decode(outcome.stdout)["ratios"]
        if ratio["metric"] == RATE
    }
    assert verdicts == {"l.i0": "no slower", "l.x": "same", "l.i1": "same", "qr100": "no faster"}
    assert outcome.exit_code == 0 and outcome.stderr.endswith("; without an answer: 1\n")
    assert cases(file) == {("17.0", step): "skipped" if step == "qr100" else "passed" for step in STEPS}


def test_a_small_tolerance_fails_on_a_certain_loss(tmp_path: Path) -> None:
    """The verdict of all is `same`; that l.i1 is a little slower is certain, and a gain is not a loss."""
    effects = {("17.0", "l.i1"): 0.99, ("17.0", "l.x"): 1.01}
    run = make_run(tmp_path / "runs" / "r", repeats=5, effects=effects, noise=0.0005)
    assert gate(run).exit_code == gate(run, "--tolerate", "1.5%").exit_code == 0
    outcome = gate(run, "--tolerate", "0.5%")
    assert outcome.exit_code == 1 and "17.0 l.i1 same, a little slower: -1.0% [" in outcome.stderr
    assert "l.x" not in outcome.stderr


THREE = ("16.3", "17.0", "18dev")  # places of their cells: 0 1 2, 3 is the last's, 4, 5, 6, 7, 8 is the last's
REASON = "the server was ended by SIGKILL"


def cases(file: Path) -> dict[tuple[str, str], str]:
    """Outcomes by build and step: the mark's tag, or `passed`."""
    marks_of = {}
    for case in ElementTree.parse(file).getroot().iter("testcase"):
        marks = [mark.tag for mark in case if mark.tag != "system-out"]
        marks_of[str(case.get("classname")), str(case.get("name"))] = marks[0] if marks else "passed"
    return marks_of


def test_a_build_whose_cells_failed_fails_by_name_and_reason(tmp_path: Path) -> None:
    crashed = dict.fromkeys((2, 3, 8), REASON)
    run = make_run(tmp_path / "runs" / "crash", builds=THREE, failed=crashed)
    outcome, file = gate(run, "--junit", str(tmp_path / "junit.xml")), tmp_path / "junit.xml"
    said = f"gate: failed: 18dev l.i0, l.x, l.i1, qr100 not measured in 3 of 3 cells: failed: {REASON}"
    assert (outcome.exit_code, outcome.stderr) == (1, f"{said}\n")
    marks = cases(file)
    assert {marks["18dev", step] for step in STEPS} == {"error"}
    assert {marks["17.0", step] for step in STEPS} == {"passed"}
    suites = [suite for suite in ElementTree.parse(file).getroot() if str(suite.get("name")).startswith("18dev")]
    assert [(suite.get("tests"), suite.get("errors"), suite.get("failures")) for suite in suites] == [("4", "4", "0")]


def test_one_failed_cell_is_enough_to_fail(tmp_path: Path) -> None:
    outcome = gate(make_run(tmp_path / "runs" / "once", builds=THREE, repeats=5, failed={3: REASON}))
    assert outcome.exit_code == 1 and f"18dev l.i0 not measured in 1 of 5 cells: failed: {REASON}" in outcome.stderr
    assert "of 4 pairs" in outcome.stderr and "17.0" not in outcome.stderr
    outcome = gate(make_run(tmp_path / "runs" / "not-run", builds=THREE, repeats=3, unfinished=[8]))
    assert outcome.exit_code == 1 and "not measured in 1 of 3 cells: not run" in outcome.stderr


@pytest.mark.slow
def test_a_cell_is_excused_if_the_baselines_failed_too(tmp_path: Path) -> None:
    assert gate(make_run(tmp_path / "runs" / "both", repeats=5, failed={2: REASON, 3: REASON})).exit_code == 0
    assert gate(make_run(tmp_path / "runs" / "base", repeats=5, failed={3: REASON})).exit_code == 0
    assert gate(make_run(tmp_path / "runs" / "stopped", repeats=5, unfinished=[6, 7, 8, 9])).exit_code == 0
    outcome = gate(make_run(tmp_path / "runs" / "first", repeats=5, failed={2: REASON}, unfinished=range(3, 10)))
    assert outcome.exit_code == 1 and "17.0 l.i0, l.x, l.i1, qr100 not measured in 1 of 5 cells" in outcome.stderr
    every = gate(make_run(tmp_path / "runs" / "every", failed=dict.fromkeys((0, 3, 4), REASON)))
    assert every.exit_code == 3 and "all of 17.0" in every.stderr


def test_a_crash_fails_only_the_build_that_crashed(tmp_path: Path) -> None:
    crashed = dict.fromkeys((2, 3, 8), REASON)
    run = make_run(tmp_path / "runs" / "interleaved", builds=THREE, failed=crashed, slices=lambda cell, step: ())
    outcome = gate(run, "--junit", str(tmp_path / "junit.xml"), "--tolerate", "l.i1=3%")
    assert outcome.exit_code == 1 and "18dev l.i0, l.x, l.i1, qr100 not measured in 3 of 3 cells" in outcome.stderr
    assert "17.0" not in outcome.stderr
    assert cases(tmp_path / "junit.xml") == {
        (build, step): tag for build, tag in (("17.0", "skipped"), ("18dev", "error")) for step in STEPS
    }


def late(*places: tuple[str, int]) -> Callable[[Cell, str, StepTotals], StepTotals]:
    """A change after which these builds miss their SLA in these repeats."""

    def change(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        missed = step == "qr100" and (cell.subject.build, cell.repeat) in places
        return replace(totals, seconds=totals.seconds * 1.4) if missed else totals

    return change


@pytest.mark.slow
def test_a_missed_sla_fails_unless_the_baseline_misses_it(tmp_path: Path) -> None:
    always = [("17.0", repeat) for repeat in (1, 2, 3)]
    run = make_run(tmp_path / "runs" / "late", change=late(*always))
    outcome = gate(run, "--junit", str(tmp_path / "junit.xml"), "--tolerate", "90%")
    assert outcome.exit_code == 1
    assert "gate: failed: 17.0 qr100 missed its SLA in 3 of 3 cells, 16.3 in 0 of 3: 70 rows/s" in outcome.stderr
    assert cases(tmp_path / "junit.xml")["17.0", "qr100"] == "failure"
    assert gate(make_run(tmp_path / "runs" / "once", change=late(("17.0", 2)))).exit_code == 1
    assert gate(make_run(tmp_path / "runs" / "more", change=late(("16.3", 2), *always))).exit_code == 1
    assert gate(make_run(tmp_path / "runs" / "less", change=late(("16.3", 2), ("17.0", 1)))).exit_code == 0
    both = [(build, repeat) for build in ("16.3", "17.0") for repeat in (1, 2, 3)]
    outcome = gate(make_run(tmp_path / "runs" / "both", change=late(*both)), "--junit", str(tmp_path / "junit.xml"))
    assert outcome.exit_code == 0 and "; without an answer: 1" in outcome.stderr
    assert cases(tmp_path / "junit.xml")["17.0", "qr100"] == "skipped"


def test_a_step_that_is_missing_or_did_nothing_fails(tmp_path: Path) -> None:
    def nothing(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        roles = totals.roles | {"query": replace(totals.roles["query"], statements=0)} if step == "qr100" else {}
        return replace(totals, roles=roles) if roles and cell.subject.build == "17.0" else totals

    outcome = gate(make_run(tmp_path / "runs" / "idle", change=nothing))
    assert outcome.exit_code == 1 and "gate: failed: 17.0 qr100 did nothing in 3 of 3 cells\n" in outcome.stderr
    run = make_run(tmp_path / "runs" / "missing")
    with sqlite3.connect(run / "journal.db") as journal:
        journal.execute(
            "DELETE FROM step WHERE name = 'l.x' AND attempt_id IN (SELECT id FROM attempt WHERE cell LIKE '%17.0%')"
        )
    outcome = gate(run)
    assert outcome.exit_code == 1 and "17.0 l.x missing in 3 of 3 cells that finished\n" in outcome.stderr


def test_a_step_that_a_build_lacks_by_the_plan_is_skipped(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs" / "lacking")
    manifest = read_manifest(run).record()
    manifest["workload"]["lacking"] = {"17.0": {"l.x": "it was compiled without ICU"}}
    (run / "manifest.json").write_bytes(msgspec.json.encode(manifest))
    with sqlite3.connect(run / "journal.db") as journal:
        journal.execute(
            "DELETE FROM step WHERE name = 'l.x' AND attempt_id IN (SELECT id FROM attempt WHERE cell LIKE '%17.0%')"
        )
    outcome = gate(run)
    assert outcome.exit_code == 0 and "; without an answer: 1" in outcome.stderr


def test_a_build_with_undecided_steps_only_has_not_passed(tmp_path: Path) -> None:
    def other(cell: Cell) -> dict[str, object]:
        return ENVIRONMENT | ({"memory": {"total_bytes": 2**33}} if cell.subject.build == "18dev" else {})

    outcome = gate(make_run(tmp_path / "runs" / "unknown", builds=THREE, environments=other))
    assert outcome.exit_code == 3 and outcome.stderr.endswith(", all of 18dev\n")


def dying(real: Build, folder: Path, after_s: int) -> Path:
    """An install whose server is killed so many seconds after it was started."""
    server = shlex.quote(str(real.bin / "postgres"))
    kill = f'case "$*" in *--boot*|*--single*|*--check*|*-V*|*-C*) ;; *) (sleep {after_s}; kill -9 $$) & ;; esac'
    return scripted.install(Path(real.prefix), folder, "postgres", f'#!/bin/sh\n{kill}\nexec {server} "$@"\n')


@pytest.mark.parametrize("design", ["slices", "cells"])
def test_a_real_build_whose_server_dies_fails_the_gate(
    build: Callable[[int | str], Build], new_folder: Callable[[], Path], design: str
) -> None:
    folder, real = new_folder(), build(16)
    dead = dying(real, folder / "dead", 1)
    bench = Bench(folder / "runs")
    builds = f"base={real.prefix},good={real.prefix},dead={dead}"
    words = ("--rows", "2000", "--steps", "l.i0,qr100", "--query-seconds", "2", "--set", "shared_buffers=32MB")
    ran = bench("run", "--pg", builds, "--repeats", "1", "--interleave", design, *words)
    assert ran.returncode == 1, ran.stderr
    done = bench("compare", bench.run.name, "--gate", "--junit", str(folder / "junit.xml"))
    assert done.returncode == 1, done.stderr
    (line,) = done.stderr.splitlines()
    assert "dead l.i0, l.x, qr100 not measured in 1 of 1 cells: failed: server dead was killed by SIGKILL" in line
    marks = cases(folder / "junit.xml")
    assert {marks["dead", step] for step in ("l.i0", "l.x", "qr100")} == {"error"}
    assert {tag for (name, _), tag in marks.items() if name == "good"} == {"skipped"}  # a pair gives no verdict


def test_bad_tolerances_are_named(run: Path, tmp_path: Path) -> None:
    for words, said in (
        (("--tolerate", "l.y=3%"), "unknown step 'l.y'"),
        (("--tolerate", "much"), "'much' is not a number"),
        (("--tolerate", "120%"), "less than 100%"),
        (("--junit", str(tmp_path / "absent" / "file")), "cannot write the result"),
        (("--slices", "l.i1"), "choose one"),
    ):
        outcome = gate(run, *words)
        assert (outcome.exit_code, outcome.stdout) == (2, "") and said in outcome.stderr


def test_runs_as_one_tolerate_what_each_of_them_does() -> None:
    assert tolerances(["3%", "l.x=0.1"], STEPS) == {"": 0.03, "l.x": 0.1}
    assert strictest([{"": 0.03, "l.x": 0.1}, {"l.i1": 0.2}]) == {"l.i1": 0.03}

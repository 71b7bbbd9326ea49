"""The part of a slow-down that is CPU wait, in made runs and in one with hogs beside its second cell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from engine.analysis.answer.compare import compare
from engine.core.model import Cell
from engine.journal.totals import StepTotals
from tests.support.attributions import attributions_of
from tests.support.benchcall import Bench, wait_for
from tests.support.journal import Change, make_run

HOG = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"


def crowded(part: float) -> Change:
    """Makes 17.0 take half as long again in l.i1, so much of it as run-queue wait of the insert connection."""

    def change(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        if step != "l.i1" or cell.subject.build != "17.0":
            return totals
        waited_ns = round(totals.seconds * 0.5e9 * part)
        insert = totals.roles["insert"]
        runq_ns = (insert.backend_runq_ns or 0) + waited_ns // 2
        insert = replace(insert, backend_runq_ns=runq_ns, client_runq_ns=waited_ns // 2)
        return replace(totals, seconds=totals.seconds * 1.5, roles={**totals.roles, "insert": insert})

    return change


def test_a_slow_down_by_waiting_for_a_cpu_is_said(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", change=crowded(0.9))
    (sentence,) = [finding for finding in compare([run]).remarks.findings if "longer CPU wait" in finding]
    assert sentence.startswith("l.i1: against 16.3, 17.0 takes ")
    assert re.search(
        r"(89|90|91)% of that is longer CPU wait of its insert connections \(run queue: backends \+", sentence
    )
    difference = attributions_of(run)["l.i1"]
    assert f"takes {difference.us - difference.base_us:,.1f} us more per op" in sentence


def test_of_a_difference_that_is_not_certain_nothing_is_said(tmp_path: Path) -> None:
    """Medians of cells differ by half as much again, all of it run queue: but the pairs do not agree."""

    def change(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        busy = crowded(0.9)(cell, step, totals)
        return replace(busy, seconds=busy.seconds * (1, 1, 1.1, 3)[cell.repeat - 1 + (cell.subject.build == "16.3")])

    comparison = compare([make_run(tmp_path / "r", change=change)])
    ratio = comparison.ratio("17.0", "l.i1", "rate_per_s")
    assert ratio is not None and ratio.verdict == "undecided"
    assert not [finding for finding in comparison.remarks.findings if "longer CPU wait" in finding]


@pytest.mark.parametrize("part", [0.0, 0.1])
def test_another_slow_down_is_not_attributed_to_cpu_wait(tmp_path: Path, part: float) -> None:
    comparison = compare([make_run(tmp_path / "r", change=crowded(part))])
    assert not [finding for finding in comparison.remarks.findings if "longer CPU wait" in finding]


def test_hogs_beside_a_cell_show_as_run_queue_wait_by_role(bench: Bench, label: str) -> None:
    size = ("--rows", "2000", "--rows-written", "60000", "--set", "shared_buffers=32MB", "--steps", "l.i0,l.i1")
    bench.detached("--pg", label, "--aa", "--repeats", "1", "--interleave", "cells", *size)
    bench.await_step("l.i1", 2)
    hogs = [
        subprocess.Popen([sys.executable, "-c", HOG, str(cpu)], start_new_session=True)
        for cpu in sorted(os.sched_getaffinity(0)) * 4  # more than other tests keep busy
    ]
    try:
        wait_for(lambda: bench.steps(bench.attempts()[-1])[-1].state != "running", "the step to end")
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    bench.await_end()
    comparison = bench.comparison()
    quiet, beside = [cell for cell in comparison["cells"] if cell["step"] == "l.i1"]  # type: ignore[attr-defined]
    assert beside["control"] == "aa"
    for role in ("insert", "delete"):
        waits = [cell["roles"][role]["runq_us_per_statement"] for cell in (quiet, beside)]
        assert waits[1] > 1.2 * waits[0], waits
    assert beside["runq_us_per_op"] > 1.2 * quiet["runq_us_per_op"]

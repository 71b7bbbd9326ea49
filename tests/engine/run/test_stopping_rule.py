"""Runs that end before all their repeats are made: when all is known, or when their time is over."""

from __future__ import annotations

import json
import random
import re
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.analysis.answer.compare import compare
from engine.core.errors import UserError
from engine.core.model import INTERIM_ANALYSES, Build, Cell, InterimAnalysis
from engine.journal import outcome
from engine.journal.manifest import read_manifest
from engine.journal.reader import JournalReader
from engine.journal.rows import SliceRow
from engine.journal.totals import StepTotals
from engine.journal.writer import JournalWriter
from engine.report import gate
from engine.run.stopping_rule import StoppingRule
from engine.view.run_summary import read_run
from tests.support.benchcall import Bench, nothing_left
from tests.support.journal import ENVIRONMENT, make_run
from tests.support.totals import made_slices
from workloads.api.base import PrimaryMetric

ADAPTIVE: dict[str, Any] = {"interim_analyses": INTERIM_ANALYSES}
QUIET: dict[str, Any] = {"noise": 0.00002, "slice_noise": 0.001}
TOY = ("--workload", "toy", "--questions", "6000", "--set", "shared_buffers=32MB", "--interleave", "slices")


def begun(path: Path, pairs: int, of: int = 8, **given: Any) -> Path:
    """A run in slices of which so many pairs are finished, and no more begun."""
    return make_run(path, repeats=of, unfinished=range(2 * pairs, 2 * of), blocks=40, **given)


def decisions(run: Path) -> list[dict[str, Any]]:
    with JournalReader(run) as reader:
        return [event.data for event in reader.decisions()]


def decided(run: Path, passed: int) -> int:
    """The number of repeats that are planned, by the decisions so far."""
    with JournalWriter.open(run) as journal:
        ending = StoppingRule(run, read_manifest(run), journal)
        ending.decide(passed)
        return ending.repeats


def test_a_run_ends_at_the_analysis_at_which_every_step_is_known(tmp_path: Path) -> None:
    effects = {("17.0", "qr100"): 0.9}
    run = begun(tmp_path / "r", 4, **ADAPTIVE, **QUIET, effects=effects)
    assert read_run(run).state == "unfinished"
    assert decided(run, 4) == 4
    (decision,) = decisions(run)
    assert (decision["pairs"], decision["level"], decision["unknown"]) == (4, pytest.approx(0.0014, rel=0.05), [])
    assert decision["text"] == "every step is decided after 4 pairs"
    summary = read_run(run)
    assert (summary.state, summary.done, summary.planned, summary.repeats) == ("finished", 8, 8, 4)
    assert not compare([run]).remarks.left_out, "cells that were never wanted are none that are missing"
    assert decided(run, 4) == 4 and len(decisions(run)) == 1, "a run that is resumed decides no second time"
    between = begun(tmp_path / "s", 7, **ADAPTIVE, **QUIET)
    assert decided(between, 7) == 8 and "level" not in decisions(between)[0]


def test_open_steps_keep_their_length_without_a_time_limit(tmp_path: Path) -> None:
    run = begun(tmp_path / "r", 3, noise=0.01, effects={("17.0", "qr100"): 0.1}, **ADAPTIVE)
    assert decided(run, 3) == 8
    (decision,) = decisions(run)
    assert [step["seconds"] for step in decision["steps"].values()] == [None, None, None, 0]
    assert re.fullmatch(
        r"after 3 pairs 1 of 4 steps decided; a pair will take .*: at most 8 in all; without qr100", decision["text"]
    )
    open_still = begun(tmp_path / "s", 3, noise=0.01, **ADAPTIVE)
    assert decided(open_still, 3) == 8 and decisions(open_still)[0]["steps"]["qr100"]["seconds"] == 60


def test_the_last_analysis_is_at_all_that_is_left(tmp_path: Path) -> None:
    run = begun(tmp_path / "r", 8, noise=0.2, **ADAPTIVE)
    assert decided(run, 8) == 8
    (decision,) = decisions(run)
    assert decision["pairs"] == 8 and 0.036 < decision["level"] < 0.04
    assert decision["text"] == "after 8 pairs 0 of 4 steps decided; undecided: l.i0, l.x, l.i1, qr100"
    assert read_run(run).state == "finished"


def test_an_older_run_until_known_continues_by_its_rule(tmp_path: Path) -> None:
    """It may say `adaptive: false`, and its decisions divide nothing."""
    older = tuple(InterimAnalysis(pairs, level) for pairs, level in ((4, 0.02), (6, 0.01), (8, 0.01)))
    run = begun(tmp_path / "r", 6, interim_analyses=older, noise=0.03)
    record = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps(record | {"adaptive": False}))
    with JournalWriter.open(run) as journal:
        data = {"repeats": 8, "text": "decided before", "pairs": 4, "level": 0.02, "unknown": ["l.i0"]}
        journal.add_event("plan", 1, data, ended_ns=1)
        journal.commit()
    assert (read_run(run).state, read_run(run).planned) == ("unfinished", 16)
    assert decided(run, 6) == 8
    assert [decision["pairs"] for decision in decisions(run)] == [4, 6]
    assert decisions(run)[1]["level"] == pytest.approx(0.0173, rel=1e-2)


def test_what_is_no_slower_does_not_end_early(tmp_path: Path) -> None:
    """Its sign would be tested again, at the last and largest level, on pairs that end because it was not certain."""

    def uneven(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        seen = step == "l.i0" and cell.subject.build == "17.0"
        return replace(totals, seconds=totals.seconds / (1.03, 1.05, 1.0, 1.04)[cell.repeat - 1]) if seen else totals

    run = begun(
        tmp_path / "r", 4, noise=0, slice_noise=0.001, change=uneven, interim_analyses=(InterimAnalysis(4, 0.03),)
    )
    ratio = compare([run]).ratio("17.0", "l.i0", "rate_per_s")
    assert ratio is not None and ratio.verdict == "no slower"
    assert decided(run, 4) == 8 and decisions(run)[0]["unknown"] == ["l.i0"]


def test_what_is_withheld_for_now_is_undecided(tmp_path: Path) -> None:
    """The machine changed between the cells of every pair so far; in the next it may not."""

    def environment(cell: Cell) -> dict[str, Any]:
        return ENVIRONMENT | {"storage": {"filesystem": cell.subject.build, "read_ahead_kb": 128}}

    run = begun(tmp_path / "r", 4, **ADAPTIVE, **QUIET, environments=environment)
    assert decided(run, 4) == 8
    assert decisions(run)[0]["unknown"] == ["l.i0", "l.x", "l.i1", "qr100"]


def test_what_slices_that_stray_withhold_is_undecided(tmp_path: Path) -> None:
    def slices(cell: Cell, step: str) -> list[SliceRow]:
        """Much faster in the outer turns of two blocks."""
        draws = random.Random(cell.id)
        rows = made_slices(cell, step, {"16.3": 80_000.0, "17.0": 80_000.0}, blocks=100)
        outer = [(row.block % 2 == 1) == (row.place < 2) for row in rows]
        return [
            replace(row, ops=round(row.ops * draws.gauss(1.03 if out else 1, 0.03)))
            for row, out in zip(rows, outer, strict=True)
        ]

    run = make_run(tmp_path / "r", repeats=8, unfinished=range(12, 16), slices=slices, **QUIET, **ADAPTIVE)
    (rate,) = (r for r in compare([run]).ratios if (r.step, r.metric) == ("qr100", "rate_per_s"))
    assert rate.verdict == "withheld" and len(rate.reasons) == 1
    assert decided(run, 6) == 8
    assert decisions(run)[0]["unknown"] == ["qr100"]


def test_an_undecided_time_is_measured_again_like_a_rate(tmp_path: Path) -> None:
    def timed(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        """Index builds are judged by their time, which scatters by a third."""
        if step != "l.x":
            return totals
        role = totals.roles["index"]
        took_ns = round(role.service_ns * random.Random(cell.id).uniform(0.7, 1.3))
        roles = {**totals.roles, "index": replace(role, service_ns=took_ns)}
        return replace(totals, roles=roles, primary_metric=PrimaryMetric("index", "s", live=False, by="time"))

    run = begun(tmp_path / "r", 4, **ADAPTIVE, **QUIET, change=timed)
    assert decided(run, 4) == 8
    assert decisions(run)[0]["unknown"] == ["l.x"]


def test_what_is_withheld_for_good_ends_the_run_and_is_named(tmp_path: Path) -> None:
    def late(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        return replace(totals, rate_target_per_s=300.0) if step == "qr100" else totals

    run = begun(tmp_path / "r", 4, **ADAPTIVE, **QUIET, change=late)
    assert decided(run, 4) == 4
    (look,) = decisions(run)
    assert look["text"] == "every step is decided after 4 pairs, except for those whose verdicts are withheld: qr100"


def test_a_gap_counts_as_passed_where_later_repeats_are_finished(tmp_path: Path) -> None:
    """A resumed run fills the second repeat, with the third and fourth there: the time is that of four."""
    gap = make_run(tmp_path / "r", repeats=8, unfinished=(2, 3, *range(8, 16)), blocks=40, minutes=60.0)
    assert decided(gap, 1) == 8
    short = make_run(tmp_path / "s", repeats=8, unfinished=(2, 3, *range(8, 16)), blocks=40, minutes=10.5)
    assert decided(short, 1) == 4


# The made steps of a repeat take 101 s of each server.


def test_after_the_first_pair_it_is_counted_how_many_fit(tmp_path: Path) -> None:
    run = begun(tmp_path / "r", 1, minutes=17.0)
    assert decided(run, 1) == 5
    (decision,) = decisions(run)
    assert decision["text"].startswith("a pair takes 3m2") and "left: 5 in all" in decision["text"]
    assert "no verdict" not in decision["text"]


def test_too_little_time_for_a_verdict_is_said(tmp_path: Path) -> None:
    run = begun(tmp_path / "r", 1, minutes=8.0)
    assert decided(run, 1) == 2
    assert "too few for a verdict, which takes 3 pairs" in decisions(run)[0]["text"]


def test_when_the_time_is_over_the_run_is_finished(tmp_path: Path) -> None:
    run = begun(tmp_path / "r", 4, minutes=15.0)
    assert decided(run, 4) == 4
    assert read_run(run).state == "finished" and read_run(run).planned == 8


def test_repeats_that_fail_take_their_time_too(tmp_path: Path) -> None:
    """A made cell fails after a second."""
    failed = dict.fromkeys(range(4), "no luck")
    run = make_run(tmp_path / "r", repeats=8, failed=failed, unfinished=range(4, 16), blocks=40, minutes=2.6 / 60)
    assert decided(run, 2) == 5
    over = make_run(tmp_path / "s", repeats=8, failed=failed, unfinished=range(4, 16), blocks=40, minutes=0.9 / 60)
    assert decided(over, 2) == 2


def test_whole_cells_stay_even_in_number(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", repeats=8, unfinished=range(2, 16), minutes=17.0)
    assert decided(run, 1) == 4
    assert outcome.repeats(read_manifest(run), []) == 8


def test_a_run_without_an_end_of_its_own_decides_nothing(tmp_path: Path) -> None:
    run = begun(tmp_path / "r", 3, noise=0.0005)
    assert decided(run, 3) == 8 and decisions(run) == []


@pytest.fixture
def toy(bench: Bench, build: Callable[[int | str], Build]) -> tuple[Bench, str]:
    return Bench(bench.out, {"PGBED_WORKLOADS": "toy=tests.support.toy"}), f"{build(14).label},{build(16).label}"


def test_a_run_until_known_looks_between_its_pairs(toy: tuple[Bench, str]) -> None:
    bench, pair = toy

    def three_pairs(record: dict[str, Any]) -> None:
        """Analyses after two and three pairs, as the last ones of so short a run."""
        record["repeats"], record["cells"] = 3, record["cells"][:6]
        record["interim_analyses"] = [{"pairs": pairs, "level": 0.02} for pairs in (2, 3)]

    bench.planned("--pg", pair, *TOY, "--until-known", "--margin", "0.5", change=three_pairs)
    done = bench("resume", "--plain")
    assert done.returncode == 0, done.stderr
    nothing_left(bench)
    looks = decisions(bench.run)
    assert [look["pairs"] for look in looks] == list(range(1, len(looks) + 1))
    assert looks[-1]["unknown"] == [] or looks[-1]["pairs"] == 3
    assert looks[-1]["text"] in done.stdout
    assert len(bench.attempts()) == 2 * looks[-1]["pairs"]
    (row,) = json.loads(bench("list", "runs", "--json").stdout)
    cells = len(bench.attempts())
    assert (row["state"], row["cells_done"], row["cells_planned"]) == ("finished", cells, cells)
    again = bench("resume")
    assert again.returncode == 0 and len(bench.attempts()) == row["cells_done"], again.stderr


def test_a_time_limit_stops_before_a_pair_that_takes_longer(toy: tuple[Bench, str]) -> None:
    bench, pair = toy
    done = bench("--pg", pair, *TOY, "--minutes", "0.1", "--plain")
    assert done.returncode == 0, done.stderr
    looks = decisions(bench.run)
    assert looks and looks[0]["text"] in done.stdout and " left: " in looks[0]["text"]
    states = [attempt.state for attempt in bench.attempts()]
    assert set(states) == {"finished"} and len(states) == 2 * looks[-1]["repeats"]
    assert looks[-1]["repeats"] < read_manifest(bench.run).design.repeats
    assert read_run(bench.run).state == "finished"


def test_what_ends_a_run_is_said_before_it_starts(bench: Bench, build: Callable[[int | str], Build]) -> None:
    plan = ("--pg", f"{build(14).label},{build(16).label}", "--interleave", "slices", "--dry-run")
    known = bench(*plan, "--until-known")
    assert "3 to 8 pairs of about" in known.stdout and "ends once every step is decided" in known.stdout
    timed = bench(*plan, "--minutes", "10")
    assert "10 minutes at most: pgbed decides after each pair" in timed.stdout
    assert "and gives the time of decided steps to undecided ones" in timed.stdout


# With a time limit. The made qr100 is of 60 s, and may be longer; l.i0, l.x and l.i1 are of given work.


def test_after_each_pair_the_time_left_is_divided_anew(tmp_path: Path) -> None:
    run = begun(tmp_path / "r", 1, of=40, minutes=60.0, **ADAPTIVE)
    repeats = decided(run, 1)
    (decision,) = decisions(run)
    step = decision["steps"]["qr100"]
    assert (decision["pairs"], step["state"], "level" in decision) == (1, "open", False)
    assert 60 <= step["seconds"] <= 480 and decision["steps"]["l.i0"]["seconds"] is None
    assert repeats == decision["repeats"] > 4 and f" left: {repeats} in all; each server: qr100 " in decision["text"]
    with JournalWriter.open(run) as journal:
        rule = StoppingRule(run, read_manifest(run), journal)
        assert (rule.repeats, rule.seconds) == (repeats, {"qr100": step["seconds"]}), "a resumed run follows it"


def test_lengths_do_not_depend_on_how_much_the_servers_differ(tmp_path: Path) -> None:
    lengths = []
    for effect in (1.0, 0.97):
        run = begun(tmp_path / f"{effect}", 2, of=40, minutes=60.0, effects={("17.0", "qr100"): effect}, **ADAPTIVE)
        decided(run, 2)
        lengths.append((decisions(run)[0]["steps"]["qr100"]["seconds"], decisions(run)[0]["repeats"]))
    assert lengths[0] == lengths[1]


def test_a_known_step_of_free_length_is_left_out(tmp_path: Path) -> None:
    run = begun(tmp_path / "r", 3, of=40, minutes=60.0, noise=0.01, effects={("17.0", "qr100"): 0.1}, **ADAPTIVE)
    more = decided(run, 3)
    (decision,) = decisions(run)
    assert decision["level"] == pytest.approx(0.001, rel=1e-3) and decision["unknown"] == ["l.i0", "l.x", "l.i1"]
    states = {name: (step["state"], step["seconds"]) for name, step in decision["steps"].items()}
    assert states == {"l.i0": ("open", None), "l.x": ("open", None), "l.i1": ("open", None), "qr100": ("known", 0)}
    assert "after 3 pairs 1 of 4 steps decided" in decision["text"] and decision["text"].endswith("; without qr100")
    assert decision["steps"]["l.i0"]["by_end"] < decision["steps"]["l.i0"]["width"]
    assert decision["steps"]["qr100"]["by_end"] == decision["steps"]["qr100"]["width"]
    open_still = begun(tmp_path / "s", 3, of=40, minutes=60.0, noise=0.01, **ADAPTIVE)
    assert decided(open_still, 3) < more, "without it a pair is shorter"


def test_an_adaptive_run_ends_when_all_is_known_or_time_is_over(tmp_path: Path) -> None:
    known = begun(tmp_path / "r", 3, of=40, minutes=60.0, **QUIET, **ADAPTIVE)
    assert decided(known, 3) == 3 and decisions(known)[-1]["text"] == "every step is decided after 3 pairs"
    over = begun(tmp_path / "s", 4, of=40, minutes=14.0, noise=0.03, **ADAPTIVE)
    assert decided(over, 4) == 4 and "left: 4 in all" in decisions(over)[-1]["text"]


def test_the_last_analysis_has_nearly_all_of_the_error(tmp_path: Path) -> None:
    from engine.analysis.answer.compare import compared_cells

    level = compared_cells([begun(tmp_path / "r", 5, of=5, minutes=60.0, **ADAPTIVE)]).levels.differs()
    assert 0.038 <= level < 0.04


def test_a_damaged_allocation_is_refused(tmp_path: Path) -> None:
    for number, (step, said) in enumerate(
        [({"seconds": 9999}, "qr100 of 9999 s"), ({"seconds": -1}, "seconds"), ({"state": "certain"}, "state")]
    ):
        run = begun(tmp_path / str(number), 1, minutes=60.0, **ADAPTIVE)
        with JournalWriter.open(run) as journal:
            data = {"repeats": 4, "text": "", "pairs": 1, "pair_s": 60.0, "steps": {"qr100": step}}
            journal.add_event("plan", 1, data, ended_ns=1)
            journal.commit()
            with pytest.raises(UserError, match=f"table event: plan.*{said}"):
                StoppingRule(run, read_manifest(run), journal)


def test_real_servers_run_steps_of_decided_lengths(bench: Bench, build: Callable[[int | str], Build]) -> None:
    plan = (
        "--pg", f"{build(14).label},{build(16).label}", "--interleave", "slices", "--minutes", "0.15", "--rows", "2000",
        "--rows-written", "1000", "--query-seconds", "1", "--steps", "qr100,qp100", "--set", "shared_buffers=32MB",
    )  # fmt: skip
    record = bench.planned(*plan)
    assert record["interim_analyses"] and "repeats" not in record["request"]
    with JournalWriter.open(bench.run) as journal:
        steps = {"qr100": {"seconds": 2}, "qp100": {"state": "known", "seconds": 0}}
        data = {"repeats": 1, "text": "decided before", "pairs": 0, "pair_s": 9.0, "steps": steps}
        journal.add_event("plan", 1, data, ended_ns=1)
        journal.commit()
    done = bench("resume", "--plain")
    assert done.returncode == 0, done.stderr
    assert len(bench.attempts()) == 2
    for attempt in bench.attempts():
        by_name = {step.name: step for step in bench.steps(attempt)}
        assert list(by_name) == ["l.i0", "l.x", "qr100"]
        assert by_name["qr100"].plan["seconds"] == 2 and by_name["qr100"].work == 200
        totals = by_name["qr100"].totals
        assert totals is not None and totals.roles["insert"].rows == totals.rows_expected == 200


def test_a_comparison_lists_steps_that_were_left_out(tmp_path: Path) -> None:
    run = begun(tmp_path / "r", 4, of=4, minutes=60.0, effects={("17.0", "qr100"): 1.1}, **ADAPTIVE)
    with sqlite3.connect(run / "journal.db") as journal:
        of_last = "attempt_id IN (SELECT id FROM attempt WHERE cell LIKE '%-r4')"
        journal.execute(f"UPDATE step SET state = 'gone', totals = NULL WHERE name = 'qr100' AND {of_last}")
    journal.close()
    comparison = compare([run])
    pairs = {ratio.step: ratio.pairs for ratio in comparison.ratios if ratio.metric == "rate_per_s"}
    assert pairs == {"l.i0": 4, "l.x": 4, "l.i1": 4, "qr100": 3}
    assert (
        "left out of further pairs, since decided or withheld for good: qr100 (3 of 4)" in comparison.remarks.findings
    )
    judged = gate.judge(comparison, {}, gate.plan_of([read_manifest(run)]))
    assert not gate.failed(judged), judged

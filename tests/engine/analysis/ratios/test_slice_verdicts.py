"""Ratios of pairs from the journal's slices, and which attempts of interleaved cells count."""

from __future__ import annotations

import math
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from engine.analysis.answer.compare import compare
from engine.analysis.cells.compared_cells import Pair
from engine.analysis.cells.run_results import load
from engine.analysis.ratios import slice_verdicts
from engine.analysis.statistics import metrics
from engine.core.model import Cell
from engine.journal.reader import chosen_together
from engine.journal.rows import Attempt, SliceRow
from engine.journal.totals import StepTotals
from engine.results.ratio import Ratio
from tests.support.journal import ENVIRONMENT, make_run
from tests.support.totals import made_slices

STEP = "qr100"


def row(block: int, place: int, ops: int, **changed: int) -> SliceRow:
    plain = SliceRow(1, block, place, 0, 0, 50_000_000, ops, ops, 1000 * ops, ops, 0, 0, 0, 300_000, 0, 0, 0)
    return replace(plain, **changed)


def pair(path: Path, base: list[SliceRow], other: list[SliceRow]) -> Pair:
    """The first pair of a made run, with these slices."""
    cells = load(make_run(path, repeats=1)).cells
    sides = [
        replace(cell, steps={**cell.steps, STEP: replace(cell.steps[STEP], slices=tuple(rows))})
        for cell, rows in zip(cells, (base, other), strict=True)
    ]
    return sides[0], sides[1]


def test_totals_of_whole_blocks_make_the_ratio(tmp_path: Path) -> None:
    base = [row(block, place, 100) for block in range(1, 31) for place in (0, 3)]
    other = [row(block, place, 90) for block in range(1, 31) for place in (1, 2)]
    cut = [row(31, 0, 10**9)]  # of a block that was not finished
    (rate,) = slice_verdicts.log_ratios([pair(tmp_path / "r", base + cut, other)], STEP, "rate_per_s")
    assert rate.theta == pytest.approx(math.log(0.9)) and rate.blocks == 30
    (cpu,) = slice_verdicts.log_ratios([pair(tmp_path / "s", base, other)], STEP, "server_cpu_us_per_op")
    assert cpu.theta == pytest.approx(0)
    assert slice_verdicts.log_ratios([pair(tmp_path / "t", base, other)], STEP, "wal_bytes_per_op") == []


def test_a_pair_without_slices_has_no_sliced_ratio(tmp_path: Path) -> None:
    some = [row(block, place, 100) for block in (1, 2) for place in (0, 3)]
    without = pair(tmp_path / "r", [], [])
    assert (
        slice_verdicts.log_ratios([without], STEP, "rate_per_s") == [] and slice_verdicts.reasons(without, STEP) == []
    )
    (reason,) = slice_verdicts.reasons(pair(tmp_path / "s", some, []), STEP)
    assert "only one of its servers was interleaved" in reason


def test_unsliced_pairs_are_left_out_beside_sliced_ones(tmp_path: Path) -> None:
    def slices(cell: Cell, step: str) -> list[SliceRow]:
        unsliced = cell.repeat == 2 or (cell.repeat == 3 and cell.subject.build == "17.0")
        return [] if unsliced else made_slices(cell, step, {"16.3": 80_000.0, "17.0": 72_000.0}, noise=0.01)

    run = make_run(tmp_path / "r", repeats=5, slices=slices)
    comparison = compare([run])
    for metric in ("rate_per_s", "server_cpu_us_per_op", "wal_bytes_per_op"):
        ratio = comparison.ratio("17.0", STEP, metric)
        assert ratio is not None and ratio.pairs == 3 and not ratio.reasons
        assert ratio.left_out == tuple(
            f"left out: pair {number}: it was not interleaved like the other pairs" for number in (2, 3)
        )
    rate = comparison.ratio("17.0", STEP, "rate_per_s")
    assert rate is not None and rate.ratio == pytest.approx(0.9, abs=0.005) and rate.verdict == "slower"
    load_rate = comparison.ratio("17.0", "l.i0", "rate_per_s")  # which no pair had slices of
    assert load_rate is not None and load_rate.pairs == 5 and not load_rate.left_out


def test_a_slower_clock_affects_both_sides_of_a_sliced_step(tmp_path: Path) -> None:
    slower = {**ENVIRONMENT, "cpu": {**ENVIRONMENT["cpu"], "probe_us": 130.0}}
    other_governor = {**ENVIRONMENT, "cpu": {**ENVIRONMENT["cpu"], "governor": "powersave"}}
    moved = {("17.0", 2): slower, ("17.0", 4): other_governor}
    run = make_run(
        tmp_path / "r",
        repeats=5,
        slices=lambda cell, step: made_slices(cell, step, {"16.3": 80_000.0, "17.0": 72_000.0}, noise=0.01),
        environments=lambda cell: moved.get((cell.subject.build, cell.repeat), ENVIRONMENT),
    )
    comparison = compare([run])
    left_out = {}
    for step in (STEP, "l.i0"):
        ratio = comparison.ratio("17.0", step, "rate_per_s")
        assert ratio is not None
        left_out[step] = [text.split(":")[1].strip() for text in ratio.left_out]
    assert left_out == {STEP: ["pair 4"], "l.i0": ["pair 2", "pair 4"]}  # l.i0 was not sliced
    assert [check.text for check in comparison.checks("17.0") if check.what == "machine"] == [
        "pair 2: CPU speed changed: a fixed amount of work took 130.0 us, then 100.0 us",
        "pair 4: the CPU governor changed: powersave, then performance",
    ]


def test_modes_of_cells_absent_from_slices_withhold_nothing(tmp_path: Path) -> None:
    """The machine was slow in the first repeat; what lies outside of slices then makes 4% between the two."""

    def change(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        if step != STEP:
            return totals
        part = {("16.3", 1): 0.85, ("17.0", 1): 0.81}.get((cell.subject.build, cell.repeat), 1.0)
        query = totals.roles["query"]
        counts = {name: round(getattr(query, name) * part) for name in ("statements", "rows", "rows_actual")}
        return replace(totals, roles={**totals.roles, "query": replace(query, **counts)})

    def rate(name: str, *, sliced: bool) -> Ratio:
        def slices(cell: Cell, step: str) -> list[SliceRow]:
            return made_slices(cell, step, {"16.3": 80_000.0, "17.0": 80_000.0}, noise=0.01) if sliced else []

        comparison = compare([make_run(tmp_path / name, repeats=5, slices=slices, change=change, noise=0.003)])
        assert any(text.startswith(f"{STEP}: the cells of 16.3 are bimodal") for text in comparison.remarks.findings)
        ratio = comparison.ratio("17.0", STEP, "rate_per_s")
        assert ratio is not None
        return ratio

    ratio, unsliced = rate("sliced", sliced=True), rate("whole", sliced=False)
    assert (ratio.verdict, ratio.reasons) == ("same", ())
    assert unsliced.verdict != "same"


def test_cells_that_finished_beside_one_that_did_not_are_no_pair(tmp_path: Path) -> None:
    """One of three interleaved servers failed; the others went on unsliced from there."""

    def slices(cell: Cell, step: str) -> list[SliceRow]:
        rates = {"16.3": 80_000.0, "17.0": 80_000.0, "17.1": 80_000.0}
        return [] if cell.repeat == 2 else made_slices(cell, step, rates, noise=0.01)

    planned = load(make_run(tmp_path / "p", builds=("16.3", "17.0", "17.1"), repeats=4)).cells
    (dead,) = (slot.cell for slot in planned if (slot.cell.repeat, slot.cell.subject.build) == (2, "17.1"))
    run = make_run(
        tmp_path / "r", builds=("16.3", "17.0", "17.1"), repeats=4, slices=slices, failed={dead.ordinal: "no luck"}
    )
    states = {(cell.cell.repeat, cell.cell.subject.build): cell.state for cell in load(run).cells}
    assert [states[2, build] for build in ("16.3", "17.0", "17.1")] == ["alone", "alone", "failed"]
    comparison = compare([run])
    ratio = comparison.ratio("17.0", "l.i0", "rate_per_s")
    assert ratio is not None and ratio.pairs == 3
    reasons = [cell.text for cell in comparison.remarks.left_out if cell.name == "17.0"]
    assert len(reasons) == 1 and reasons[0].endswith("alone: another cell of its repeat has not finished")


def test_spill_over_cpu_withholds_from_five_percent_on(tmp_path: Path) -> None:
    base = [row(block, place, 100) for block in (1, 2) for place in (0, 3)]
    for leak, withheld in ((4000, False), (6000, True)):
        leaking = [replace(row, spill_over_ns=leak) for row in base]
        assert bool(slice_verdicts.reasons(pair(tmp_path / str(leak), base, leaking), STEP)) == withheld


def test_held_servers_cpu_withholds_from_five_percent_on(tmp_path: Path) -> None:
    line = "pair 1: other servers used 6% as much CPU time as the one"
    for spilled, expected in ((None, []), (0.04, []), (0.06, [line])):
        base, other = pair(tmp_path / str(spilled), [], [])
        used_ns = other.steps[STEP].totals.server_cpu_ns or 0
        totals = replace(other.steps[STEP].totals, spill_over_ns=None if spilled is None else round(used_ns * spilled))
        figures = metrics.summary("query", totals)
        assert figures["spill_over_share"] == (spilled and pytest.approx(spilled, rel=0.001))
        beside = replace(other, steps={STEP: replace(other.steps[STEP], totals=totals, figures=figures)})
        assert [reason[: len(line)] for reason in slice_verdicts.reasons((base, beside), STEP)] == expected


def test_imbalance_of_clients_withholds_from_a_fifth_on(tmp_path: Path) -> None:
    base = [row(block, place, 100) for block in (1, 2) for place in (0, 3)]
    for ragged, withheld in ((9_000_000, []), (13_000_000, ["pair 1: in 23% of a server's slices some clients"])):
        other = [replace(row, imbalance_ns=ragged) for row in base]
        reasons = slice_verdicts.reasons(pair(tmp_path / str(ragged), base, other), STEP)
        assert [reason[: len(text)] for reason, text in zip(reasons, withheld, strict=True)] == withheld


def test_a_servers_ratio_to_itself_needs_both_halves(tmp_path: Path) -> None:
    idle = [row(1, 0, 0), row(1, 3, 5), row(2, 0, 5), row(2, 3, 0)]
    busy = [row(block, place, 100) for block in (1, 2) for place in (1, 2)]
    ratios = slice_verdicts.own_ratios([pair(tmp_path / "r", idle, busy)], STEP, "rate_per_s")
    assert [ratio.theta for ratio in ratios] == [0.0]


def in_slices(path: Path, stalled: int, slower: float = 1.0) -> Path:
    """A run of three pairs, in every tenth block of which 17.0 does so many percent less."""

    def slices(cell: Cell, step: str) -> list[SliceRow]:
        rows = made_slices(cell, step, {"16.3": 80_000.0, "17.0": 80_000.0 * slower}, blocks=100, noise=0.05)
        draws = random.Random(cell.id)
        rows = [replace(row, ops=round(row.ops * draws.gauss(1, 0.003))) for row in rows]
        if cell.subject.build != "17.0":
            return rows
        return [replace(row, ops=row.ops * (100 - stalled * (row.block % 10 == 5)) // 100) for row in rows]

    return make_run(path, slices=slices)


def test_a_ratio_made_by_rare_events_is_a_finding(tmp_path: Path) -> None:
    (finding,) = compare([in_slices(tmp_path / "r", stalled=20)]).remarks.findings
    said = r"qr100: rare events make a part of the ratio: 17\.0 is at (-\S+)% in all, at ([+-]\S+)% in a typical block"
    match = re.fullmatch(said, finding)
    assert match, finding
    assert [float(share) for share in match.groups()] == pytest.approx([-2.0, 0.0], abs=0.15)


@pytest.mark.parametrize(("early_ops", "listed"), [(9500, True), (9900, False), (10_100, False)])
def test_a_short_warm_up_of_slices_is_a_finding(tmp_path: Path, early_ops: int, listed: bool) -> None:
    def slices(cell: Cell, step: str) -> list[SliceRow]:
        rows = made_slices(cell, step, dict.fromkeys(builds, 1_000_000.0), blocks=100, noise=0.01)
        return [replace(row, early_ns=10_000_000, early_ops=early_ops) for row in rows]

    builds = ("16.3", "17.0", "17.11")
    findings = compare([make_run(tmp_path / "r", builds=builds, slices=slices)]).remarks.findings
    pattern = r"statements took longer in the first 10 ms that slices count than later on: qr100 (\S+)%;"
    said = [match for line in findings if (match := re.search(pattern, line))]
    assert len(said) == listed
    if listed:
        assert float(said[0][1]) == pytest.approx(6.7, abs=0.3)  # the later ones are faster than the mean


def test_a_server_that_is_slower_all_the_time_is_no_such_finding(tmp_path: Path) -> None:
    assert compare([in_slices(tmp_path / "r", stalled=0, slower=0.9)]).remarks.findings == ()


def test_too_few_blocks_for_an_error_of_their_own_are_told(tmp_path: Path) -> None:
    def findings(blocks: int) -> tuple[str, ...]:
        rates = {"16.3": 80_000.0, "17.0": 72_000.0}
        run = make_run(tmp_path / str(blocks), slices=lambda cell, step: made_slices(cell, step, rates, blocks, 0.01))
        return compare([run]).remarks.findings

    finding = "intervals by the scatter of pairs alone, which have fewer than 20 blocks: qr100"
    assert finding in findings(19) and finding not in findings(20)


def test_slices_that_stray_from_themselves_are_a_finding(tmp_path: Path) -> None:
    def slices(cell: Cell, step: str) -> list[SliceRow]:
        """Faster in its outer turns of two blocks, by nearly two errors."""
        draws = random.Random(cell.id)
        rows = made_slices(cell, step, {"16.3": 80_000.0, "17.0": 80_000.0}, blocks=100)
        outer = [(row.block % 2 == 1) == (row.place < 2) for row in rows]
        return [
            replace(row, ops=round(row.ops * draws.gauss(1.006 if out else 1, 0.03)))
            for row, out in zip(rows, outer, strict=True)
        ]

    comparison = compare([make_run(tmp_path / "r", repeats=6, slices=slices)])
    (finding,) = comparison.remarks.findings
    match = re.match(
        r"slices of one server differ among themselves by (\d\.\d) times their error: the intervals", finding
    )
    assert match and 1.5 < float(match.group(1)) <= 2
    ratio = comparison.ratio("17.0", STEP, "rate_per_s")
    assert ratio is not None and ratio.verdict != "withheld"


def attempt(id: int, session: int, cell: str, state: str) -> Attempt:
    return Attempt(id, session, cell, state, 0, 1, None, {})


def test_interleaved_cells_pair_only_with_their_own_repeat() -> None:
    first = [attempt(1, 1, "a", "finished"), attempt(2, 1, "b", "failed")]
    second = [attempt(3, 2, "a", "failed"), attempt(4, 2, "b", "finished")]
    chosen = chosen_together([*first, *second], [["a", "b"]])
    assert {name: cell.id for name, cell in chosen.items()} == {"a": 3, "b": 4}
    third = [attempt(5, 3, "a", "finished"), attempt(6, 3, "b", "finished")]
    fourth = [attempt(7, 4, "a", "interrupted")]
    chosen = chosen_together([*first, *second, *third, *fourth], [["a", "b"]])
    assert {name: cell.id for name, cell in chosen.items()} == {"a": 5, "b": 6}
    assert chosen_together([], [["a", "b"]]) == {}

"""A step that was driven in slices, block by block: its values, and refusals."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from engine.analysis.answer.compare import compare, compared_cells
from engine.analysis.answer.step_slices import sliced_step
from engine.analysis.ratios import slice_verdicts
from engine.core.errors import UserError
from engine.core.model import Cell
from engine.journal.rows import SliceRow
from tests.support.journal import ENVIRONMENT, make_run
from tests.support.totals import made_slices

RATES = {"16.3": 8000.0, "17.0": 7600.0}


def in_slices(path: Path, **values: object) -> Path:
    return make_run(path, slices=lambda cell, step: made_slices(cell, step, RATES, noise=0.1), **values)  # type: ignore[arg-type]


def test_every_pair_has_its_blocks_in_order_of_time(tmp_path: Path) -> None:
    sliced = sliced_step([in_slices(tmp_path / "r", repeats=2)], "qr100")
    assert (sliced.step, sliced.unit, sliced.design, sliced.base) == ("qr100", "queries/s", "slices of 50 ms", "16.3")
    assert [(pair.run, pair.repeat, pair.subject, pair.base) for pair in sliced.pairs] == [
        ("r", 1, "17.0", "16.3"),
        ("r", 2, "17.0", "16.3"),
    ]
    assert sliced.of("17.0") == sliced.pairs and sliced.of("16.3") == ()
    pair = sliced.pairs[0]
    assert [block.block for block in pair.blocks] == list(range(1, 41))
    assert {block.order for block in pair.blocks} == {"ABBA"}
    assert pair.blocks[0].at_s == pytest.approx(0.2) and pair.blocks[1].at_s == pytest.approx(0.4)
    assert pair.blocks[0].length_s == pytest.approx(0.2)
    assert pair.ratio is not None and pair.low is not None and pair.high is not None
    assert pair.low < 0.95 < pair.high and pair.ratio == pytest.approx(0.95, abs=0.002)
    assert pair.typical == pytest.approx(0.95, abs=0.002)
    assert (pair.cpus, pair.machine, pair.left_out) == (8, (), "")


def test_the_running_ratio_is_that_of_the_totals_so_far(tmp_path: Path) -> None:
    def uneven(cell: Cell, step: str) -> list[SliceRow]:
        rows = made_slices(cell, step, RATES, blocks=2)
        if cell.subject.build == "17.0":  # half as fast in the first block, as fast in the second
            return [replace(row, ops=1000 if row.block == 1 else 4000) for row in rows]
        return [replace(row, ops=2000 if row.block == 1 else 4000) for row in rows]

    (pair,) = sliced_step([make_run(tmp_path / "r", repeats=1, slices=uneven)], "qr100").pairs
    assert [(block.ratio, block.running) for block in pair.blocks] == [(0.5, 0.5), (1.0, 10_000 / 12_000)]
    assert pair.ratio == pytest.approx(10 / 12)
    assert (pair.low, pair.high, pair.typical) == (None, None, None), "two blocks tell no error"
    side = pair.blocks[0].other
    assert side.rate_per_s == pytest.approx(2000 / 0.096)
    assert side.server_cpu_us_per_op == 100 and side.spill_over_share == pytest.approx(200_000 / 36_500_000)
    assert side.runq_us_per_op == pytest.approx(5_000_000 / 1000 / 365)


def test_a_load_steps_figures_are_per_row(tmp_path: Path) -> None:
    def loading(cell: Cell, step: str) -> list[SliceRow]:
        rows = made_slices(cell, "qr100", {"16.3": 1000.0, "17.0": 500.0}, blocks=2) if step == "l.i0" else []
        return [replace(row, rows=100 * row.ops, cpu_ops=row.ops + 12) for row in rows]  # 12 statements to warm up

    sliced = sliced_step([make_run(tmp_path / "r", repeats=1, slices=loading)], "l.i0")
    block = sliced.pairs[0].blocks[1]
    assert sliced.unit == "rows/s"
    assert (block.base.rate_per_s, block.other.rate_per_s) == pytest.approx((100_000, 50_000))
    assert block.base.server_cpu_us_per_op == pytest.approx(2 * 4_800 / (2 * 60 * 100))
    assert block.other.runq_us_per_op == pytest.approx(2 * 5_000 / (2 * 36 * 100))
    assert (block.ratio, block.running, sliced.pairs[0].ratio) == pytest.approx((0.5, 0.5, 0.5))


def test_a_block_that_lacks_a_turn_is_left_out(tmp_path: Path) -> None:
    def cut(cell: Cell, step: str) -> list[SliceRow]:
        rows = made_slices(cell, step, RATES, blocks=3)
        return rows[:-1] if cell.subject.build == "17.0" else rows

    (pair,) = sliced_step([make_run(tmp_path / "r", repeats=1, slices=cut)], "qr100").pairs
    assert [block.block for block in pair.blocks] == [1, 2]


def test_further_servers_have_further_letters(tmp_path: Path) -> None:
    builds = ("16.3", "17.0", "18.1")

    def three(cell: Cell, step: str) -> list[SliceRow]:
        rows = made_slices(cell, step, dict.fromkeys(builds, 8000.0), blocks=2)
        place = builds.index(cell.subject.build)
        return [replace(row, place=place if row.place < 2 else 5 - place) for row in rows]

    sliced = sliced_step([make_run(tmp_path / "r", builds=builds, repeats=1, slices=three)], "qr100")
    assert [(pair.subject, {block.order for block in pair.blocks}) for pair in sliced.pairs] == [
        ("17.0", {"ABCCBA"}),
        ("18.1", {"ACBBCA"}),
    ]


def test_the_interval_is_wider_by_the_comparisons_self_check(tmp_path: Path) -> None:
    def drifting(cell: Cell, step: str) -> list[SliceRow]:
        """A server that is faster in its outer turns of two blocks strays from itself by more than its error."""
        rows = made_slices(cell, step, RATES, blocks=60, noise=0.01)
        return [
            replace(row, ops=round(row.ops * (1.02 if (row.block % 2 == 1) == (row.place < 2) else 1))) for row in rows
        ]

    run = make_run(tmp_path / "r", repeats=6, slices=drifting)
    sliced = sliced_step([run], "qr100")
    check = sliced.check("17.0")
    assert check is not None and check.ratios == 12 and check.f > 2 and check.suspect
    assert sliced.check("16.3") is None
    ratio = compare([run]).ratio("17.0", "qr100", "rate_per_s")
    assert ratio is not None and ratio.verdict == "withheld"
    assert any(f"by {check.f:.1f} times their error" in reason for reason in ratio.reasons)
    cells = compared_cells([run])
    (first, *_) = slice_verdicts.log_ratios(cells.pairs(cells.others[0]), "qr100", "rate_per_s")
    pair = sliced.pairs[0]
    assert pair.low is not None and pair.high is not None and first.variance is not None
    assert math.log(pair.high / pair.low) / 2 == pytest.approx(1.96 * math.sqrt(first.variance) * check.f, rel=1e-3)


def test_a_pair_in_which_the_machine_changed_says_so(tmp_path: Path) -> None:
    def environments(cell: Cell) -> dict[str, object]:
        saving = cell.ordinal == 1
        return {**ENVIRONMENT, "cpu": {**ENVIRONMENT["cpu"], "governor": "powersave" if saving else "performance"}}

    sliced = sliced_step([in_slices(tmp_path / "r", repeats=2, environments=environments)], "qr100")
    assert "the CPU governor changed" in sliced.pairs[0].left_out and sliced.pairs[1].left_out == ""


def test_what_was_not_sliced_is_refused_in_one_line(tmp_path: Path) -> None:
    run = in_slices(tmp_path / "r", repeats=1)
    with pytest.raises(UserError, match=r"^l\.i0 was not interleaved; steps that were: qr100$"):
        sliced_step([run], "l.i0")
    with pytest.raises(UserError, match=r"^unknown step 'qr10' \(nearest: qr100\)$"):
        sliced_step([run], "qr10")
    with pytest.raises(UserError, match=r"^cells: no finished step was interleaved; --interleave slices makes"):
        sliced_step([make_run(tmp_path / "cells", repeats=1)], "qr100")

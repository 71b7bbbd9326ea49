"""In what the ends of a search differ, by runs with known results."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from engine.analysis.compare import compare
from engine.analysis.failure_counts import Count
from engine.bisect.ends import BAD, GOOD, LEVELS, TRIED, Difference, count, difference, unlike_both
from engine.core.errors import UserError
from engine.core.model import LEVEL, Cell
from engine.journal.totals import StepTotals
from tests.support.journal import STEPS, make_run

ENDS = (GOOD, BAD)
CRASH = "the server was ended by SIGABRT"


def looked(paths: list[Path], step: str | None = None) -> Difference | None:
    level = LEVELS[len(paths) - 1]
    comparison = compare(paths, GOOD, level)
    return difference(comparison, STEPS, step, level, last=len(paths) == len(LEVELS), where="see bench compare")


def runs(tmp_path: Path, count: int, **how: object) -> list[Path]:
    return [make_run(tmp_path / f"r{each}", builds=ENDS, seed=each, **how) for each in range(count)]  # type: ignore[arg-type]


def late(build: str, step: str = "qr100") -> Callable[[Cell, str, StepTotals], StepTotals]:
    def change(cell: Cell, name: str, totals: StepTotals) -> StepTotals:
        missed = name == step and cell.subject.build == build
        return replace(totals, seconds=totals.seconds * 1.6) if missed else totals

    return change


def test_a_bad_end_that_fails_is_searched_by_that_once_it_is_sure(tmp_path: Path) -> None:
    made = runs(tmp_path, 2, failed=dict.fromkeys((1, 2, 5), CRASH))
    assert looked(made[:1]) is None
    found = looked(made)
    assert found is not None and (found.fault, found.step) == ("failed", "qr100") and found.counts is not None
    assert found.text == f"the bad end failed in 6 of 6 cells, the good end in 0 of 6 cells: {CRASH}"
    assert (found.counts.good.seen, found.counts.bad.seen) == (0, 6)


def test_a_bad_end_that_misses_its_sla_is_searched_by_that_before_any_that_is_slower(tmp_path: Path) -> None:
    made = runs(tmp_path, 2, effects={(BAD, "l.i0"): 0.9}, change=late(BAD))
    assert looked(made[:1]) is None
    found = looked(made)
    assert found is not None and (found.fault, found.step) == ("sla", "qr100")
    assert found.text == "the bad end missed its SLA in qr100 in 6 of 6 cells, the good end in 0 of 6 cells"
    slower = looked(made[:1], "l.i0")
    assert slower is not None and (slower.fault, slower.step, slower.counts) == ("slower", "l.i0", None)


def test_what_both_ends_do_is_no_difference(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"the good end fails in all its cells: {CRASH}; see bench compare"):
        looked(runs(tmp_path / "fails", 1, failed=dict.fromkeys((0, 3, 4), CRASH)))
    with pytest.raises(UserError, match=r"no difference between the ends is known: qr100 .*SLA: good kept up"):
        looked(runs(tmp_path / "late", 3, change=late(GOOD), effects={(BAD, "qr100"): 0.5}), "qr100")
    with pytest.raises(UserError, match=r"the bad end is faster: l\.i0 .* swap --good and --bad"):
        looked(runs(tmp_path / "faster", 1, effects={(BAD, "l.i0"): 1.2}))


def test_cells_are_counted_of_the_commit_that_is_tried(tmp_path: Path) -> None:
    made = make_run(tmp_path / "r", builds=(*ENDS, TRIED), failed={2: CRASH}, slices=lambda cell, step: ())
    comparison = compare([made], GOOD)
    counts = [count(comparison, name, "failed", "") for name in (*ENDS, TRIED)]
    assert counts == [Count(0, 3), Count(0, 3), Count(1, 3)]


def test_a_commit_that_is_bad_in_another_way_than_the_bad_end_cannot_be_judged(tmp_path: Path) -> None:
    three = (*ENDS, TRIED)
    crashed = compare([make_run(tmp_path / "crash", builds=three, failed={2: CRASH})], GOOD)
    missed = compare([make_run(tmp_path / "late", builds=three, change=late(TRIED))], GOOD)
    fine = compare([make_run(tmp_path / "fine", builds=three)], GOOD)
    both = compare([make_run(tmp_path / "both", builds=three, failed={0: CRASH, 2: CRASH})], GOOD)
    assert [unlike_both(each, "failed", "qr100") for each in (crashed, fine)] == ["", ""]
    assert [unlike_both(each, "sla", "qr100") for each in (missed, fine)] == ["", ""]
    assert [unlike_both(each, "slower", "qr100") for each in (fine, both)] == ["", ""]
    for fault in ("sla", "slower"):
        assert unlike_both(crashed, fault, "qr100").endswith(f"failed: {CRASH}")
    assert unlike_both(crashed, "slower", "qr100").startswith("does not run: left out: tried repeat 1")
    why = "cannot be judged: SLA: tried kept up its insert rate in 0 of 3 cells"
    assert unlike_both(missed, "slower", "qr100").startswith(why)


def test_looks_at_ends_that_are_alike_find_a_difference_in_5_of_100_at_most() -> None:
    from engine.analysis.statistics import judge

    chance, wrong, unadjusted = random.Random(2), 0, 0
    for _ in range(2000):
        ratios: list[float] = []
        found = {LEVEL: False, 0.0: False}
        for level in LEVELS:
            ratios += [math.exp(chance.gauss(0, 0.05)) for _ in range(3)]
            for at in found:
                found[at] |= judge(ratios, 0.0, level=at or level).verdict in ("slower", "faster")
        wrong, unadjusted = wrong + found[0.0], unadjusted + found[LEVEL]
    assert wrong <= 2000 * LEVEL < 2000 * 0.08 < unadjusted

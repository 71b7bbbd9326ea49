"""Functions that cost more: planted changes are named with intervals that hold them, equal servers name nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from engine.analysis.answer.compare import compare, compared_cells
from engine.analysis.causes import function_costs
from engine.analysis.causes.function_costs import CellSamples, Estimates, PairWindows, estimates, levels, pair_windows
from engine.core.errors import UserError
from engine.core.model import Cell
from engine.journal.manifest import read_manifest
from engine.journal.reader import JournalReader
from engine.journal.rows import ProbeFrame, SliceRow
from engine.journal.totals import StepTotals
from engine.journal.writer import JournalWriter
from engine.report import flame, render
from engine.report.flame import Profile
from engine.report.html.flames import flames
from engine.results.flame import FunctionChange
from engine.tracing import stacks
from tests.support.journal import make_run
from tests.support.totals import SECOND_NS, made_slices

FUNCTIONS = 120
PLACES = np.arange(FUNCTIONS)
RATES = 1 / (PLACES + 3)
RATES = RATES / RATES.sum()  # shares of all samples: 8.6% of the first, 0.23% of the last
PER_OP = 0.02  # samples, 40 us at 495 Hz


def simulated(
    chance: np.random.Generator, planted: dict[int, float], *, pairs: int = 5, windows: int = 15, per_window: int = 350
) -> list[PairWindows]:
    """Pairs whose windows are disturbed alike, whose clusters differ by 1%, and whose samples come by chance."""
    all_pairs = []
    for _ in range(pairs):
        disturbed = np.exp(chance.normal(0, 0.15, windows))
        counts, ops = [], []
        for side in (0, 1):
            done = chance.uniform(0.8, 1.2, windows) * per_window / PER_OP
            rates = PER_OP * RATES
            for place, change in planted.items() if side else ():
                rates = rates + PER_OP * change * (place == PLACES)
            cluster = np.exp(chance.normal(0, 0.005))
            counts.append(chance.poisson(rates[:, None] * done * disturbed * cluster).astype(float))
            ops.append(done)
        all_pairs.append(PairWindows((counts[0], counts[1]), (ops[0], ops[1])))
    return all_pairs


def enough(costs: Estimates) -> Estimates:
    good = costs.samples >= function_costs.LEAST
    return Estimates(*(getattr(costs, name)[good] for name in Estimates.__slots__))


def named(costs: Estimates) -> tuple[set[int], float]:
    """The places of certain functions, and the confidence of their intervals."""
    level, confidence = levels([costs])
    return {int(place) for place in np.flatnonzero(costs.p <= level)} if level else set(), confidence


def test_equal_servers_list_a_function_in_5_percent_at_most() -> None:
    chance = np.random.default_rng(1)
    families = 200
    wrong = sum(bool(named(enough(estimates(simulated(chance, {}))))[0]) for _ in range(families))
    assert wrong <= families * 0.05 + 6  # two standard errors


def test_one_listed_function_or_interval_in_twenty_is_wrong() -> None:
    """A third of the functions changes by a fifth of itself: large ones are found, small ones are not."""
    chance = np.random.default_rng(2)
    planted = {int(place): RATES[place] * (0.2 if place % 2 else -0.2) for place in range(0, FUNCTIONS, 3)}
    truth = np.array([planted.get(place, 0.0) for place in range(FUNCTIONS)])
    shares, misses, found_of, all_named = [], [], 0, 0
    for _ in range(60):
        costs = estimates(simulated(chance, planted))
        places, confidence = named(costs)
        halves = costs.halves(confidence)
        off = [abs((costs.other - costs.base)[place] - PER_OP * truth[place]) for place in places]
        misses.append(sum(away > halves[place] for away, place in zip(off, places, strict=True)) / max(1, len(places)))
        shares.append(len(places - planted.keys()) / max(1, len(places)))
        found_of, all_named = found_of + len(places & planted.keys()), all_named + len(places)
    assert all_named > 60 * 5, "else it says nothing"
    assert np.mean(shares) <= 0.05 + 0.02
    assert np.mean(misses) <= 0.05 + 0.03


def test_half_a_percent_of_the_whole_in_one_function_is_named() -> None:
    """Five pairs of half a minute: 0.5% more in a function of 1% of all samples, and in a new one."""
    chance = np.random.default_rng(3)
    place = int(np.argmin(abs(RATES - 0.01)))
    hits = [named(estimates(simulated(chance, {place: 0.005}, per_window=700)))[0] for _ in range(20)]
    assert sum(place in places for places in hits) >= 16
    assert sum(len(places - {place}) for places in hits) <= 3


def test_clusters_that_differ_are_no_change() -> None:
    """A factor of one cluster of three moves all functions, the large ones by far more than chance within pairs."""
    chance = np.random.default_rng(4)
    pairs = simulated(chance, {}, pairs=3, per_window=5000)
    moved = replace(pairs[0], counts=(pairs[0].counts[0], np.round(1.1 * pairs[0].counts[1])))
    assert not named(estimates([moved, *pairs[1:]]))[0]
    all_moved = [replace(pair, counts=(pair.counts[0], np.round(1.1 * pair.counts[1]))) for pair in pairs]
    assert len(named(estimates(all_moved))[0]) > 10, "if all pairs agree, it is the server"


def test_cells_in_sequence_are_judged_by_chance_and_pairs() -> None:
    chance = np.random.default_rng(5)
    families = 100
    wrong = sum(
        bool(named(enough(estimates(simulated(chance, {}, windows=1, per_window=5000))))[0]) for _ in range(families)
    )
    assert wrong <= families * 0.05 + 5
    assert 0 in named(estimates(simulated(chance, {0: 0.05}, windows=1, per_window=20_000)))[0]


def cell(*frames: tuple[float, float, dict[str, int]], ops_per_s: float = 100.0) -> CellSamples:
    """A cell that works evenly from second 0 to 100."""
    times_ns, done = np.array([0.0, 100e9]), np.array([0.0, 100 * ops_per_s])
    return CellSamples([(round(a * 1e9), round(b * 1e9), counts) for a, b, counts in frames], times_ns, done, 495, True)


def test_windows_pair_samples_with_operations_of_their_frames() -> None:
    base = cell((-0.5, 0.5, {"f": 9}), (1.5, 2.5, {"f": 1}), (2.5, 3.5, {"f": 2, "g": 4}), (5.5, 6.5, {"f": 8}))
    other = cell((2.0, 3.0, {"g": 5}), (3.0, 4.0, {"f": 6}), (8.0, 9.0, {"f": 7}), ops_per_s=200)
    windows = pair_windows(base, other, ["f", "g"])
    assert windows is not None
    assert [side.tolist() for side in windows.ops] == [[200.0], [400.0]]  # only seconds 2 to 4 have both
    assert [side.tolist() for side in windows.counts] == [[[3.0], [4.0]], [[6.0], [5.0]]]
    assert pair_windows(base, cell((40, 41, {"f": 1})), ["f"]) is None


def test_work_is_spread_evenly_within_slices_only() -> None:
    slices = [SliceRow(1, 1, place, place * 10, place * 10 + 1, 4, 40, 0, 0, 50, *[0] * 7) for place in (0, 3)]
    times_ns, done = function_costs.progress(reversed(slices))
    at = dict(zip((0, 5, 20, 30, 35), np.interp((0, 5, 20, 30, 35), times_ns, done), strict=True))
    assert at == {0: 0.0, 5: 50.0, 20: 50.0, 30: 50.0, 35: 100.0}
    cut = [replace(row, cpu_ops=0) for row in slices]
    times_ns, done = function_costs.progress(cut, 300.0)  # of one statement, by time
    assert np.interp((5, 30, 35), times_ns, done).tolist() == [150.0, 150.0, 300.0]


# -- from the journal to tables and pages

SAMPLED = {"ExecInterpExpr": 40, "hash_search<b>": 50, "AllocSetAlloc": 30}  # a second
DEARER = {"ExecInterpExpr": 60}


def sampled_run(folder: Path, more: dict[str, int] = DEARER, repeats: int = 3, hz: int = 495) -> Path:
    """Two builds in slices, with samples of functions in qr100; the second one's expressions cost more.

    The second one is sampled `hz` times a second.
    """

    def observed(_cell: Cell, _step: str, totals: StepTotals) -> StepTotals:
        return replace(totals, observers=("stacks",))

    def slices(cell: Cell, step: str) -> Sequence[SliceRow]:
        return made_slices(cell, step, {"16.3": 8000.0, "17.0": 8000.0}, blocks=100)

    run = make_run(folder / "run", repeats=repeats, slices=slices, change=observed)
    chance = np.random.default_rng(6)
    with JournalReader(run) as reader:
        cells = {cell.id: cell for cell in reader.manifest.cells}
        steps = [
            (cells[attempt.cell].subject.build, step.id, reader.slices(step.id)[0].opened_ns)
            for attempt in reader.attempts()
            for step in reader.steps(attempt.id)
            if step.name == "qr100"
        ]
    with JournalWriter.open(run) as journal:
        for build, step, began_ns in steps:
            rates = SAMPLED | (more if build == "17.0" else {})
            for second in range(1, 20):
                counts = {name: int(chance.poisson(rate)) for name, rate in rates.items()}
                for role, frames in (("query", counts), ("server", {"AllocSetAlloc": 3}), ("monitor", {"noise": 500})):
                    t_ns = began_ns + second * SECOND_NS
                    quality = {"leaf_hz": hz if build == "17.0" else 495}
                    row = ProbeFrame(step, t_ns, SECOND_NS, "stacks", role, {"functions": frames}, quality)
                    journal.add_probe_frame(row)
    return run


def test_a_dearer_function_is_in_table_record_and_graphs(tmp_path: Path) -> None:
    run = sampled_run(tmp_path)
    comparison = compare([run])
    (costs,) = function_costs.function_costs(compared_cells([run]))
    (change,) = costs.changes
    assert (costs.step, costs.subject, costs.pairs, costs.hz, costs.tested) == ("qr100", "17.0", 3, 495, 3)
    # 40 and 60 samples a second, in which 10 slices do 384 operations each.
    per_op_us = [1e6 / 495 * count / 3840 for count in (40, 60)]
    assert (change.base_us, change.us) == (pytest.approx(per_op_us[0], rel=0.1), pytest.approx(per_op_us[1], rel=0.1))
    assert change.name == "ExecInterpExpr" and 0 < change.low_us < per_op_us[1] - per_op_us[0] < change.high_us
    assert change.share == pytest.approx(20 / 123, rel=0.2)
    (record,) = (table for table in json.loads(render.to_json(comparison))["sections"] if table["key"] == "functions")
    assert record["rows"][1]["name"] == "ExecInterpExpr" and record["rows"][1]["values"][2]["low"] == change.low_us
    console = Console(width=120, record=True, force_terminal=False)
    render.print_comparison(comparison, console)
    (line,) = (line for line in console.export_text().splitlines() if "ExecInterpExpr" in line)
    assert all(part in line for part in change.effect.split(" us "))
    old, new = (Profile(name, {"main;ExecInterpExpr": 40}, 1000) for name in ("16.3", "17.0"))
    for tree in flame.difference(old, new)[:2]:
        (frame,) = flame.marked(tree, {change.name: change.effect})["children"][0]["children"]
        assert frame["mark"] == change.effect
    assert change.effect in flame.page("qr100", "query", new, old, costs.changes)
    for planned in read_manifest(run).cells:
        stacks.write_folded(run / "cells" / planned.id, "qr100", "query", {"main;ExecInterpExpr": 40, "main": 9})
    (_, drawn) = flames(comparison)["qr100"]
    assert change.effect in json.dumps(drawn["graphs"]) and drawn["functions"][0][3] == change.effect
    subjects = flame.labels(run)
    assert flame.function_changes(run, subjects["16.3"], subjects["17.0"], "qr100") == (change,)


def test_equal_servers_list_no_function_and_two_pairs_too_few(tmp_path: Path) -> None:
    for repeats, words in ((3, "none significant of 3 tested"), (2, "none significant: 2 of 3 pairs")):
        folder = tmp_path / str(repeats)
        comparison = compare([sampled_run(folder, DEARER if repeats == 2 else {}, repeats)])
        assert all(not row.step for row in comparison.section("functions")[0].rows)
        console = Console(width=120, record=True, force_terminal=False)
        render.print_comparison(comparison, console)
        assert words in console.export_text()


def test_different_sampling_rates_are_reported_not_compared(tmp_path: Path) -> None:
    comparison = compare([sampled_run(tmp_path, hz=99)])
    console = Console(width=120, record=True, force_terminal=False)
    render.print_comparison(comparison, console)
    assert "qr100 17.0: sampled 99 and 495 times a second, so not compared" in console.export_text()


@pytest.mark.parametrize("functions", ['{"f": -1}', '{"f": "1"}', "[1]", '{"f": 1e400}'])
def test_damaged_samples_are_one_line(tmp_path: Path, functions: str) -> None:
    run = sampled_run(tmp_path)
    with JournalWriter.open(run) as journal:
        journal.database.execute("UPDATE probe_frame SET data = ?", (f'{{"functions": {functions}}}',))
    with pytest.raises(UserError, match=r"journal\.db"):
        compare([run])


@pytest.mark.parametrize(
    ("low", "high", "effect"),
    [
        (0.5, 1.1, "+0.8 us [0.5, 1.1]"),
        (0.02, 1.58, "+0.80 us [0.02, 1.58]"),
        (-310.0, -290.0, "-300 us [-310, -290]"),
        (0.00011, 0.00013, "+0.000120 us [0.000110, 0.000130]"),
    ],
)
def test_an_effect_has_as_many_digits_as_its_interval_bears(low: float, high: float, effect: str) -> None:
    middle = (low + high) / 2
    assert FunctionChange("f", 1.0, 1.0 + middle, middle, low, high, 0.1).effect == effect

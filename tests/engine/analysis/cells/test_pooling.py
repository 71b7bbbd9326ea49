"""Pairs of several machines or boots: intervals that cover these, and the machine that disagrees."""

import math
import random
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from engine.analysis.answer.compare import compare, compared_cells
from engine.analysis.cells.pooling import findings, over_units
from engine.analysis.ratios import measured_ratios, verdicts
from engine.analysis.statistics.inference import paired_interval
from engine.core.errors import UserError
from engine.report.render import to_json, to_markdown
from engine.results.ratio import Ratio
from tests.support.journal import ENVIRONMENT, make_run


def farm(folder: Path, effects: dict[str, float], repeats: int = 2, runs: int = 2) -> list[Path]:
    """Runs of machines, each with its own effect on l.i1, its own memory, and as many runs."""
    return [
        make_run(
            folder / f"{machine}-{number}", repeats=repeats, seed=10 * place + number,
            effects={("17.0", "l.i1"): effect},
            environment=ENVIRONMENT | {"host": {"machine": machine}, "memory": {"total_bytes": 2 ** (34 + place)}},
        )
        for place, (machine, effect) in enumerate(effects.items())
        for number in range(runs)
    ]  # fmt: skip


def boots(
    folder: Path, effects: list[float], machine: str = "here", builds: tuple[str, ...] = ("16.3", "17.0"), **plan: Any
) -> list[Path]:
    """Runs of one machine, one in each of its boots, which change the last build's rate of l.i1 by these factors."""
    runs = []
    for place, effect in enumerate(effects):
        run = make_run(
            folder / f"boot-{machine}-{place}", builds=builds, repeats=4, seed=place, **plan,
            effects={(builds[-1], "l.i1"): effect}, environment=ENVIRONMENT | {"host": {"machine": machine}},
        )  # fmt: skip
        with closing(sqlite3.connect(run / "journal.db")) as journal, journal:
            journal.execute("UPDATE session SET boot_id = ?", (f"{place}a2b3c4d-0000",))
        runs.append(run)
    return runs


def ratio_of(paths: list[Path], step: str = "l.i1") -> Ratio:
    ratio = compare(paths).ratio("17.0", step, "rate_per_s")
    assert ratio is not None
    return ratio


def test_means_of_equal_pairs_follow_students_t_over_machines() -> None:
    logs = {"a": [0.05, 0.07], "b": [0.00, 0.01], "c": [-0.05, -0.02]}
    estimate, effect = over_units(logs, 0.02, "machine")
    means = [fmean(logs_of_machine) for logs_of_machine in logs.values()]
    half = 4.302653 * stdev(means) / math.sqrt(3)
    interval = paired_interval(estimate)
    assert interval.low is not None and interval.high is not None
    assert (math.log(interval.low), math.log(interval.high)) == pytest.approx(
        (fmean(means) - half, fmean(means) + half), rel=1e-5
    )
    within = fmean((0.0002, 0.00005, 0.00045))
    assert effect.tau == pytest.approx(math.sqrt(stdev(means) ** 2 - within / 2), rel=1e-9)
    assert (estimate.pairs, estimate.degrees) == (6, 2)


def test_machines_that_agree_by_chance_keep_the_interval() -> None:
    estimate, effect = over_units({"a": [-0.02, 0.02], "b": [-0.03, 0.03]}, 0.02, "machine")
    assert effect.tau == 0 and effect.disagrees == ()
    assert estimate.sd / 2 == pytest.approx(math.sqrt((0.0008 + 0.0018) / 2 / 4))


@pytest.mark.parametrize(("tau", "machines"), [(0.0, 4), (0.02, 2), (0.02, 3), (0.02, 5)])
def test_intervals_cover_what_machines_have_in_common(tau: float, machines: int) -> None:
    source, inside, trials = random.Random(7), 0, 400
    for _ in range(trials):
        shifts = [source.gauss(0, tau) for _ in range(machines)]
        logs = {f"m{i}": [shift + source.gauss(0, 0.01) for _ in range(2 + i % 2)] for i, shift in enumerate(shifts)}
        interval = paired_interval(over_units(logs, 0.02, "machine")[0])
        assert interval.low is not None and interval.high is not None
        inside += interval.low <= 1 <= interval.high
    assert inside >= 0.925 * trials


def test_verdicts_hold_for_machines_of_different_memory(tmp_path: Path) -> None:
    paths = farm(tmp_path, {"a": 0.90, "b": 0.91, "c": 0.89})
    ratio = ratio_of(paths)
    assert (ratio.verdict, ratio.pairs, ratio.reasons) == ("slower", 12, ())
    assert ratio.machines is not None and ratio.machines.ratios.keys() == {"a", "b", "c"}
    (line,) = [text for text in compare(paths).remarks.findings if "machines are pooled" in text]
    assert "a (2), b (2), c (2)" in line and "2 degrees" in line


def test_two_machines_give_a_wide_interval_and_it_is_said(tmp_path: Path) -> None:
    two = farm(tmp_path, {"a": 0.92, "b": 0.90})
    pooled, alone = ratio_of(two), ratio_of(two[:2])
    assert pooled.low is not None and pooled.high is not None and alone.low is not None and alone.high is not None
    assert pooled.high - pooled.low > 4 * (alone.high - alone.low)
    assert (pooled.verdict, pooled.more_pairs, alone.machines) == ("undecided", None, None)
    assert any("a third narrows them" in text for text in compare(two).remarks.findings)


def test_a_machine_that_disagrees_is_named(tmp_path: Path) -> None:
    paths = farm(tmp_path, {"a": 1.0, "b": 1.0, "odd": 0.93, "c": 1.0})
    comparison = compare(paths)
    (line,) = [text for text in comparison.remarks.findings if "disagree" in text]
    assert line.startswith("l.i1: machine odd (-") and "a (" in line
    assert [ratio.machines.disagrees for ratio in comparison.ratios
            if ratio.machines and ratio.metric == "rate_per_s" and ratio.step != "l.i1"] == [(), (), ()]  # fmt: skip
    assert any("machines disagree: a (" in text for text in compare([*paths[:2], *paths[4:6]]).remarks.findings)


def test_runs_of_three_boots_are_pooled_over_boots(tmp_path: Path) -> None:
    paths = boots(tmp_path, [0.895, 0.90, 0.905])
    rate, comparison = ratio_of(paths), compare(paths)
    assert rate.machines is not None
    assert (rate.machines.unit, rate.pairs, rate.verdict) == ("boot", 12, "slower")
    assert rate.machines.ratios.keys() == {"0a2b3c4d", "1a2b3c4d", "2a2b3c4d"}
    assert rate.low is not None and rate.high is not None
    apart = [math.log(ratio) for ratio in rate.machines.ratios.values()]
    half = 4.302653 * stdev(apart) / math.sqrt(3)  # Student's t with two degrees of freedom
    assert math.log(rate.high / rate.low) / 2 == pytest.approx(half, rel=1e-5)
    (line,) = [text for text in comparison.remarks.findings if "pooled" in text]
    assert line.startswith(
        "runs of 3 boots are pooled: 0a2b3c4d (1), 1a2b3c4d (1), 2a2b3c4d (1); intervals cover boots"
    )
    assert line in to_markdown(comparison)


@pytest.mark.parametrize("machine", ["here", ""])
def test_runs_of_few_boots_or_unknown_machines_are_joined(tmp_path: Path, machine: str) -> None:
    paths = boots(tmp_path, [0.90, 0.90, 0.90], machine)[: 2 if machine else 3]
    ratio = ratio_of(paths)
    assert (ratio.machines, ratio.verdict) == (None, "slower")
    assert not [text for text in compare(paths).remarks.findings if "boot" in text]


def test_boots_of_several_machines_are_part_of_the_machines(tmp_path: Path) -> None:
    paths = [run for name in ("here", "there") for run in boots(tmp_path / name, [0.90, 0.90, 0.90], name)]
    ratio = ratio_of(paths)
    assert ratio.machines is not None and ratio.machines.unit == "machine"
    assert ratio.machines.ratios.keys() == {"here", "there"}


def test_a_copied_run_has_the_same_verdicts_anywhere(tmp_path: Path) -> None:
    controls = tmp_path / "runs"
    boots(controls, [1.02, 0.98, 1.015, 0.985], builds=("16.3",), aa=True, created="2025-01-01T00:00:00+00:00")
    compared = boots(tmp_path, [0.97])[0].rename(controls / "compared")
    alone = Path(shutil.copytree(compared, tmp_path / "alone" / "compared"))
    texts = [
        [write(compare([run])).replace(str(run), "RUN") for write in (to_json, to_markdown)]
        for run in (compared, alone)
    ]
    assert texts[0] == texts[1]


def test_the_machines_of_every_step_are_counted(tmp_path: Path) -> None:
    cells = compared_cells(farm(tmp_path, {"a": 1.0, "b": 1.0, "c": 1.0}, runs=1), None)
    ratios = [
        ratio
        for ratio in verdicts.ratios(cells, measured_ratios.measured(cells))
        if ratio.metric == "rate_per_s" and ratio.machines
    ]
    assert len(ratios) == 4 and ratios[0].machines is not None
    two = {name: ratio for name, ratio in ratios[0].machines.ratios.items() if name != "c"}
    fewer = replace(ratios[0], machines=replace(ratios[0].machines, ratios=two))
    lines = findings(cells, [fewer, *ratios[1:]])
    assert lines[0].startswith("runs of 3 machines are pooled: a (1), b (1), c (1); ")
    assert lines[1:] == [f"{fewer.step}: pooled over 2 of these machines: a, b"]


def test_a_change_of_one_machine_still_withholds_the_verdict(tmp_path: Path) -> None:
    paths = farm(tmp_path, {"a": 1.0, "b": 1.0})
    changed = ENVIRONMENT | {"host": {"machine": "b"}, "memory": {"total_bytes": 1}}
    paths.append(make_run(tmp_path / "b-later", repeats=2, environment=changed))
    assert any("b-0 and b-later" in reason for reason in ratio_of(paths).reasons)


def test_a_machine_that_is_no_object_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        compare([make_run(tmp_path / "bad", environment=ENVIRONMENT | {"host": "x"})])

"""The effect that a plan can show: from the scatter of the last A/A run of this host, or unknown."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.analysis.answer import noise
from engine.analysis.answer.compare import compare
from engine.core.errors import UserError
from engine.core.model import INTERIM_ANALYSES, Build, Cell
from engine.journal.totals import StepTotals
from engine.plan.design import RunEstimate
from engine.results.ratio import RATE
from tests.support.benchcall import Bench
from tests.support.journal import ENVIRONMENT, STEPS, make_run

HERE: dict[str, Any] = {
    **ENVIRONMENT,
    "cpu": {**ENVIRONMENT["cpu"], "threads": os.cpu_count()},
    "host": {"name": platform.node()},
}
smallest_effects = partial(noise.smallest_effects, workload="insert")
smallest_in_slices = partial(noise.smallest_in_slices, workload="insert")


def test_the_effect_is_what_a_comparison_of_the_last_aa_run_says(tmp_path: Path) -> None:
    make_run(tmp_path / "20261118-noisy", aa=True, repeats=6, noise=0.2, environment=HERE)
    last = make_run(tmp_path / "20261119-quiet", aa=True, repeats=6, noise=0.01, environment=HERE)
    make_run(tmp_path / "20261120-without", repeats=6, noise=0.3, environment=HERE)
    estimate = smallest_effects(tmp_path, 6, STEPS)
    assert estimate is not None and (estimate.run, estimate.aa_pairs) == (last.name, 6)
    said = {r.step: r.visible_effect for r in compare([last]).ratios if r.control and r.metric == RATE}
    assert estimate.steps == pytest.approx(said, rel=1e-6)
    assert estimate.effect == max(estimate.steps.values())


def test_more_pairs_show_smaller_effects(tmp_path: Path) -> None:
    make_run(tmp_path / "run", aa=True, repeats=4, noise=0.01, environment=HERE)
    effects = [smallest_effects(tmp_path, pairs, STEPS) for pairs in (3, 6, 12)]
    values = [estimate.effect for estimate in effects if estimate is not None]
    assert len(values) == 3 and values == sorted(values, reverse=True)


def test_only_a_run_of_the_steps_of_the_plan_counts(tmp_path: Path) -> None:
    make_run(tmp_path / "run", aa=True, repeats=4, environment=HERE)
    some, other = (smallest_effects(tmp_path, 4, steps) for steps in (["l.i1"], ["l.i9"]))
    assert some is not None and list(some.steps) == ["l.i1"] and other is None
    assert smallest_effects(tmp_path, 4, ["l.i1"], workload="oltp") is None


def test_another_host_says_nothing_of_this_one(tmp_path: Path) -> None:
    make_run(tmp_path / "run", aa=True, repeats=4, environment={**HERE, "host": {"name": "another"}})
    make_run(tmp_path / "unnamed", aa=True, repeats=4)
    assert smallest_effects(tmp_path, 4, STEPS) is None


def test_fewer_than_three_pairs_bear_nothing_on_either_side(tmp_path: Path) -> None:
    make_run(tmp_path / "run", aa=True, repeats=4, environment=HERE)
    assert smallest_effects(tmp_path, 2, STEPS) is None
    assert noise.summary(None, 2) == "2 repeats give no verdict: at least 3 pairs are needed"
    few = tmp_path / "few"
    make_run(few / "run", aa=True, repeats=2, environment=HERE)
    assert smallest_effects(few, 4, STEPS) is None


def test_a_run_that_cannot_be_read_gives_way_to_the_one_before(tmp_path: Path) -> None:
    good = make_run(tmp_path / "1-good", aa=True, repeats=4, environment=HERE)
    broken = make_run(tmp_path / "2-broken", aa=True, repeats=4, environment=HERE)
    (broken / "journal.db").write_bytes(b"no database" * 500)
    for file in broken.glob("journal.db-*"):
        file.unlink()
    odd = tmp_path / "3-odd"
    (odd / "cells").mkdir(parents=True)
    (odd / "manifest.json").write_text('{"schema": "1.0", "aa": true, "environment": []}')
    (odd / "journal.db").touch()
    unread: list[UserError] = []
    estimate = smallest_effects(tmp_path, 4, STEPS, unread=unread.append)
    assert estimate is not None and estimate.run == good.name
    assert [part in str(error) for part, error in zip((odd.name, broken.name), unread, strict=True)] == [True, True]


def test_a_damaged_run_in_slices_gives_way_too(tmp_path: Path) -> None:
    good = make_run(tmp_path / "1-good", repeats=4, environment=HERE, blocks=40)

    def timeless(_cell: Cell, _step: str, totals: StepTotals) -> StepTotals:
        return replace(totals, seconds=0.0)

    make_run(tmp_path / "2-odd", repeats=4, environment=HERE, blocks=40, change=timeless)
    sudden = make_run(tmp_path / "3-sudden", repeats=4, environment=HERE, blocks=40)
    with closing(sqlite3.connect(sudden / "journal.db")) as journal, journal:
        journal.execute("UPDATE slice SET opened_ns = 0")
    unread: list[UserError] = []
    estimate = smallest_in_slices(tmp_path, 5, {"qr100": 12.0}, unread=unread.append)
    assert estimate is not None and estimate.run == good.name
    assert [sudden.name in str(error) for error in unread] == [True]


def test_a_pair_with_a_changed_machine_is_not_part_of_the_noise(tmp_path: Path) -> None:
    def environments(cell: Cell) -> dict[str, Any]:
        return {**HERE, "cpu": {**HERE["cpu"], "mhz": 2000.0 if cell.ordinal == 0 else 3400.0}}

    make_run(tmp_path / "run", aa=True, repeats=5, environment=HERE, environments=environments)
    estimate = smallest_effects(tmp_path, 4, STEPS)
    assert estimate is not None and estimate.aa_pairs == 4


def test_a_folder_that_is_not_there_says_nothing(tmp_path: Path) -> None:
    assert smallest_effects(tmp_path / "none", 4, STEPS) is None


@pytest.mark.slow
def test_the_statistics_are_loaded_only_where_there_is_an_aa_run(tmp_path: Path) -> None:
    make_run(tmp_path / "run", repeats=4, environment=HERE)
    program = (
        "import sys; from pathlib import Path; from engine.analysis.answer.noise import smallest_effects; "
        f"effects = smallest_effects(Path({str(tmp_path)!r}), 4, ['l.i1'], workload='insert'); "
        "print(effects is None, 'scipy' in sys.modules)"
    )

    def asked() -> str:
        home = str(Path(noise.__file__).parents[3])
        done = subprocess.run([sys.executable, "-c", program], cwd=home, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert asked() == "True False"
    make_run(tmp_path / "run-aa", aa=True, repeats=4, environment=HERE)
    assert asked() == "False True"


QUERY_S = dict.fromkeys(STEPS, 60.0)


def test_slices_use_the_scatter_between_and_within_pairs(tmp_path: Path) -> None:
    """Noise of any builds: a difference between them is not scatter."""
    effects = {("17.0", "qr100"): 0.9}
    make_run(tmp_path / "1-slices", repeats=4, environment=HERE, noise=0.004, blocks=60, effects=effects)
    make_run(tmp_path / "2-cells", aa=True, repeats=4, environment=HERE, noise=0.5)
    estimate = smallest_in_slices(tmp_path, 5, QUERY_S)
    assert estimate is not None and (estimate.run, estimate.aa_pairs, estimate.sliced) == ("1-slices", 4, True)
    assert list(estimate.steps) == list(STEPS)
    assert 0.01 < estimate.steps["qr100"] < 0.06, "it is judged with the scatter that slices and other steps lend"
    assert estimate.best_step_s is not None and 0 < estimate.best_step_s < 600
    cells = smallest_effects(tmp_path, 5, STEPS)
    assert cells is not None and cells.run == "2-cells"
    text = noise.summary(estimate, 5, "slices")
    assert "by the last run in slices of this host: 1-slices" in text and "steps in slices would best be" in text


def test_longer_steps_and_more_pairs_show_smaller_effects(tmp_path: Path) -> None:
    make_run(tmp_path / "run", repeats=4, environment=HERE, noise=0.0, blocks=40, slice_noise=0.3)
    effects = []
    for pairs, seconds in ((5, 15.0), (5, 60.0), (10, 60.0)):
        estimate = smallest_in_slices(tmp_path, pairs, {"qr100": seconds})
        assert estimate is not None
        effects.append(estimate.steps["qr100"])
    assert effects[0] > 1.4 * effects[1] and effects[1] > 1.2 * effects[2]
    in_time = smallest_in_slices(tmp_path, 10, {"qr100": 60.0}, interim=INTERIM_ANALYSES)
    assert in_time is not None and 1 < in_time.steps["qr100"] / effects[2] < 1.05, "its last analysis has nearly all"


def test_a_step_without_figures_hides_no_others(tmp_path: Path) -> None:
    """A pause, as the default steps have, is neither counted nor timed; a wild step has no figure of use."""

    def paused(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        wild = (1 if cell.ordinal % 3 else 40) if step == "l.i0" else 1
        totals = replace(totals, primary_metric=None, roles={}) if step == "l.x" else totals
        return replace(totals, seconds=totals.seconds * wild)

    make_run(tmp_path / "run", repeats=4, environment=HERE, blocks=60, change=paused)
    estimate = smallest_in_slices(tmp_path, 8, {**dict.fromkeys(STEPS, 1.0), **QUERY_S})
    assert estimate is not None and "l.x" not in estimate.steps and {"l.i0", "l.i1", "qr100"} <= estimate.steps.keys()
    said = noise.summary(estimate, 8, "slices")
    assert estimate.steps["l.i0"] > 1 and "%" in said and ", only halvings or worse in l.i0, by the last" in said
    assert noise.summary(replace(estimate, steps={"l.i0": 43.14}), 8).startswith("8 pairs can detect only halvings or")
    record = RunEstimate(2, 60.0, 1, replace(estimate, steps={"l.i0": noise.NOTHING_SHOWS, "l.i1": 0.1})).record()
    assert record["smallest_effect"] is None and record["noise"]["steps"] == {"l.i0": None, "l.i1": 0.1}


def test_no_pairs_in_slices_say_that_nothing_is_known_yet(tmp_path: Path) -> None:
    assert smallest_in_slices(tmp_path, 5, QUERY_S) is None
    make_run(tmp_path / "few", repeats=2, environment=HERE, blocks=40)
    make_run(tmp_path / "other", repeats=4, environment={**HERE, "host": {"name": "another"}}, blocks=40)
    make_run(tmp_path / "short", repeats=4, environment=HERE, blocks=10)
    assert smallest_in_slices(tmp_path, 5, QUERY_S) is None
    assert "a first run of 3 pairs of these steps in slices" in noise.summary(None, 5, "slices")


def test_a_dry_run_of_slices_shows_pairs_seconds_and_effect(bench: Bench, build: Callable[[int | str], Build]) -> None:
    labels = f"{build(14).label},{build(16).label}"
    arguments = ("--pg", labels, "--interleave", "slices", "--dry-run")
    bench.out.mkdir(parents=True)
    make_run(bench.out / "20261119-slices", repeats=4, environment=HERE, blocks=60)
    said = bench(*arguments).stdout
    assert f"side by side: {labels.replace(',', ', ')}" in said
    assert "8 pairs of about " in said and "(4 s per timed step)" in said
    assert "by the last run in slices of this host: 20261119-slices" in said
    planned = json.loads(bench(*arguments, "--json").stdout)
    assert planned["query_step_s"] == 4 and planned["noise"]["run"] == "20261119-slices"
    assert planned["noise"]["sliced"] and planned["smallest_effect"] > 0


def test_a_dry_run_tells_what_its_pairs_can_show(bench: Bench, label: str) -> None:
    arguments = ("--pg", label, "--aa", "--repeats", "6", "--interleave", "cells", "--dry-run")
    unknown = json.loads(bench(*arguments, "--json").stdout)
    assert unknown["smallest_effect"] is None and unknown["noise"] is None
    assert "unknown: no A/A run of these steps on this machine" in bench(*arguments).stdout
    bench.out.mkdir(parents=True)
    run = make_run(bench.out / "20261119-aa", aa=True, repeats=4, noise=0.01, environment=HERE)
    plan = json.loads(bench(*arguments, "--json").stdout)
    assert plan["noise"]["run"] == run.name
    assert plan["smallest_effect"] == pytest.approx(max(plan["noise"]["steps"].values()), abs=1e-4)
    line = next(line for line in bench(*arguments).stdout.splitlines() if "can detect" in line)
    assert line.startswith("6 pairs can detect effects from ") and run.name in line

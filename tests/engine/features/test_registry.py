"""Features as a whole: one is added by its folder and line alone (`tests.support.toy_feature`), and goes with them."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from importlib import import_module
from itertools import groupby
from pathlib import Path

import msgspec
import pytest

from engine import features
from engine.analysis.answer.compare import compare
from engine.core.errors import UserError
from engine.core.model import Cell, Manifest
from engine.journal.manifest import read_manifest
from engine.journal.totals import StepTotals
from engine.journal.writer import JournalWriter
from engine.plan.prepare import prepare
from engine.plan.request import Request, request_of, request_options
from engine.postgres import configs
from engine.report import tables
from engine.report.render import to_json
from engine.results.comparison import Comparison
from engine.results.section import Section
from engine.run.control import Commands
from engine.run.guest import GuestAttempt
from engine.run.stop import Stop
from tests.conftest import unpacked
from tests.engine.analysis.checks.test_kernel_differences import MACHINE, NEW, OLD
from tests.engine.features.counters.test_counters import with_pmu
from tests.engine.features.transactions.test_tables import STATEMENTS
from tests.support import noting_feature
from tests.support.benchcall import Bench
from tests.support.journal import make_run
from tui.compare import explanation
from tui.compare.comparison_table import RowKey
from tui.glyphs import SETS
from tui.launch import plan_fields
from tui.launch.choices import Choices
from workloads.api.options import options_of

REGISTERED = ("PGBED_FEATURES", "tests.support.toy_feature,tests.support.noting_feature")


def test_no_two_features_share_an_option_or_a_key() -> None:
    options = [option.name for option in request_options()]
    keys = [*Manifest.__slots__, *(name for one in features.features() for name in one.part.__struct_fields__)]
    assert len(set(options)) == len(options) and len(set(keys)) == len(keys)
    assert not {*msgspec.structs.asdict(Request())} & {feature.name for feature in features.features()}


def test_a_feature_is_everywhere_and_each_hook_is_entered(
    bench: Bench, label: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its hooks are around the measured time of every step, not in it."""
    monkeypatch.setenv(*REGISTERED)
    monkeypatch.setenv("HOOKS", str(notes := tmp_path / "hooks"))
    plan = tmp_path / "plan.toml"
    assert "--greeting WORD" in bench("run", "--help-all").stdout and "A greeting" in bench("run", "--help").stdout
    plan.write_text(f'builds = ["{label}"]\ngreeting = "hello"\nrows = 1000\nsteps = ["l.i0", "l.x"]\nrepeats = 1\n')
    notes.write_text("")
    done = bench("run", "--plan", str(plan), "--plain")
    assert done.returncode == 0 and "each step is greeted: hello" in done.stdout, done.stderr
    assert json.loads((bench.run / "manifest.json").read_text())["greeting"] == "hello"
    with closing(sqlite3.connect(bench.run / "journal.db")) as journal:
        clocks = dict(enumerate(journal.execute("SELECT started_ns, ended_ns FROM step ORDER BY id")))
    assert all("Greetings" in bench("compare", form).stdout for form in ("--all", "--md", "--json"))
    page = tmp_path / "page.html"
    assert bench("report", "-o", str(page)).returncode == 0 and "Greetings" in page.read_text()
    of_run = notes.read_text().split()
    assert of_run.count("around_cells") == 1 and of_run.index("around_cells") < of_run.index("around_step")
    comparison = compare([bench.run])
    for place, cell in enumerate(comparison.cells):
        entered_ns, left_ns = cell.features["toy"]["around_ns"]
        assert entered_ns < clocks[place][0] < clocks[place][1] < left_ns
    subject = comparison.subjects[0]
    lines = explanation.why(comparison, RowKey("l.i0", "rate_per_s"), subject, SETS["ascii"], 60, 4)
    assert f"    5 {subject.name}, letters" in ["".join(text for text, _ in line).rstrip() for line in lines]
    (bench.run / "journal.db").unlink()
    resumed = bench("resume")
    assert resumed.returncode == 0, resumed.stderr
    compare([make_run(tmp_path / "guests", builds=("16.3",), under=("6.1", "6.12"), kernels=(OLD, NEW), guest=MACHINE)])
    manifest = read_manifest(tmp_path / "guests")
    with JournalWriter.open(tmp_path / "guests") as journal:
        folder = tmp_path / "guests" / "cells" / manifest.cells[0].id
        list(GuestAttempt(folder, manifest, manifest.cells[0], Stop(), Commands(journal)).needed())
    assert set(notes.read_text().split()) == {*noting_feature.HOOKS}


def test_launch_offers_the_options_of_all_features(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(*REGISTERED)
    monkeypatch.setenv("HOOKS", os.devnull)
    (item,) = (item for item in plan_fields.design(Request(), Choices.of({})) if item.name == "greeting")
    assert item.question is not None
    plan = item.question.take("hi")
    assert plan.entries()["greeting"] == "hi" and request_of(plan.entries()) == plan


def offered() -> set[str]:
    """Options and entries of configs that depend on the features."""
    return {option.name for option in request_options()} | {*features.knobs()}


def shown(comparison: Comparison) -> dict[str, list[Section]]:
    """The tables of a comparison, each in its parts."""
    every = tables.sections(comparison, *tables.ON_REQUEST)
    return {key: list(parts) for key, parts in groupby(every, lambda section: section.key.partition(".")[0])}


def counted(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
    """A step with counts of instructions and times of statements."""
    return replace(with_pmu(cell, step, totals), report={"statements": STATEMENTS})


@pytest.mark.parametrize("left_out", features.REGISTRY)
def test_each_feature_can_be_taken_away(
    left_out: str, label: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded, feature = unpacked("two-builds", tmp_path / "run"), import_module(left_out).FEATURE
    run = make_run(tmp_path / "made", options={"preset": "insert-2024-05"}, change=counted)
    written, comparison, before = to_json(compare([recorded])), compare([run]), offered()
    every, added = shown(comparison), {part.key for part in feature.sections(comparison)} | feature.tables().keys()
    monkeypatch.setattr(features, "REGISTRY", [module for module in features.REGISTRY if module != left_out])
    assert to_json(compare([recorded])) == written
    gone = {option.name for option in options_of(feature.options)} | {*feature.knobs}
    assert before - offered() == gone and (gone or added & every.keys())
    assert shown(compare([run])) == {key: parts for key, parts in every.items() if key not in added}
    for config in ("readahead-0",) if feature.knobs else ():
        with pytest.raises(UserError, match=r"\[device\] has 'read_ahead_kb'; known: $"):
            configs.resolve([config])
    manifest = prepare(request_of({"builds": [label]}), tmp_path, print).manifest
    assert not {*feature.part.__struct_fields__} & manifest.record().keys() and "parts" not in manifest.record()
    assert feature.name not in manifest.parts and read_manifest(recorded).parts.keys() == manifest.parts.keys()

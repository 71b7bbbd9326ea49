"""Features as a whole: one is added by its folder and line alone (`tests.support.toy_feature`), and goes with them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from engine import features
from engine.analysis.answer.compare import compare
from engine.core.model import Manifest
from engine.journal.manifest import read_manifest
from engine.plan.prepare import prepare
from engine.plan.request import Request, request_of, request_options
from engine.report.render import to_json
from tests.conftest import unpacked
from tests.engine.features.counters.test_counters import with_pmu
from tests.support.benchcall import Bench
from tests.support.journal import make_run
from tui.compare import explanation
from tui.compare.comparison_table import RowKey
from tui.glyphs import SETS
from tui.launch import plan_fields
from tui.launch.choices import Choices

REGISTERED = {"PGBED_FEATURES": "tests.support.toy_feature"}


def test_no_two_features_share_an_option_or_a_key() -> None:
    options = [option.name for option in request_options()]
    keys = [*Manifest.__slots__, *(name for one in features.features() for name in one.part.__struct_fields__)]
    assert len(set(options)) == len(options) and len(set(keys)) == len(keys)
    assert not {*msgspec.structs.asdict(Request())} & {feature.name for feature in features.features()}


def test_a_feature_that_is_added_is_everywhere(
    bench: Bench, label: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its hooks are around the measured time of every step, not in it."""
    toy, plan = Bench(bench.out, REGISTERED), tmp_path / "plan.toml"
    assert "--greeting WORD" in toy("run", "--help-all").stdout and "A greeting" in toy("run", "--help").stdout
    plan.write_text(f'builds = ["{label}"]\ngreeting = "hello"\nrows = 1000\nsteps = ["l.i0", "l.x"]\nrepeats = 1\n')
    done = toy("run", "--plan", str(plan), "--plain")
    assert done.returncode == 0 and "each step is greeted: hello" in done.stdout, done.stderr
    assert json.loads((toy.run / "manifest.json").read_text())["greeting"] == "hello"
    with closing(sqlite3.connect(toy.run / "journal.db")) as journal:
        clocks = dict(enumerate(journal.execute("SELECT started_ns, ended_ns FROM step ORDER BY id")))
    assert all("Greetings" in toy("compare", form).stdout for form in ("--all", "--md", "--json"))
    page = tmp_path / "page.html"
    assert toy("report", "-o", str(page)).returncode == 0 and "Greetings" in page.read_text()
    monkeypatch.setenv(*next(iter(REGISTERED.items())))
    comparison = compare([toy.run])
    for place, cell in enumerate(comparison.cells):
        entered_ns, left_ns = cell.features["toy"]["around_ns"]
        assert entered_ns < clocks[place][0] < clocks[place][1] < left_ns
    subject = comparison.subjects[0]
    lines = explanation.why(comparison, RowKey("l.i0", "rate_per_s"), subject, SETS["ascii"], 60, 4)
    assert f"    5 {subject.name}, letters" in ["".join(text for text, _ in line).rstrip() for line in lines]


def test_launch_offers_the_options_of_all_features(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(*next(iter(REGISTERED.items())))
    (item,) = (item for item in plan_fields.design(Request(), Choices.of({})) if item.name == "greeting")
    assert item.question is not None
    plan = item.question.take("hi")
    assert plan.entries()["greeting"] == "hi" and request_of(plan.entries()) == plan


@pytest.mark.parametrize("left_out", features.REGISTRY)
def test_each_feature_can_be_taken_away(
    left_out: str, label: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded, name = unpacked("two-builds", tmp_path / "run"), left_out.rpartition(".")[2]
    counted = make_run(tmp_path / "counted", change=with_pmu)
    complete, before = to_json(compare([recorded])), {section.key for section in compare([counted]).sections}
    monkeypatch.setattr(features, "REGISTRY", [module for module in features.REGISTRY if module != left_out])
    assert to_json(compare([recorded])) == complete
    assert before - {section.key for section in compare([counted]).sections} == {name}
    manifest = prepare(request_of({"builds": [label]}), tmp_path, print).manifest
    assert name not in manifest.parts and "parts" not in manifest.record()
    assert read_manifest(recorded).parts.keys() == manifest.parts.keys()

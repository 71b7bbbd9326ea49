"""A comparison as CI has it: an exit code, a line, and JUnit's XML."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from click.testing import CliRunner, Result

from engine.cli.main import main
from engine.core.tolerance import strictest, tolerances
from engine.journal.manifest import read_manifest
from tests.support.made_run import make_run

STEPS = ("l.i0", "l.x", "l.i1", "qr100")
EFFECTS = {("17.0", "l.i1"): 0.90, ("17.0", "qr100"): 1.05}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """17.0 is 10 % slower in l.i1, 5 % faster in qr100."""
    return make_run(tmp_path_factory.mktemp("gate") / "runs" / "made", repeats=5, effects=EFFECTS)


def gate(run: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["compare", str(run), "--out", str(run.parent), "--gate", *words])


def test_a_slower_headline_is_exit_code_1_and_the_step_is_named(run: Path) -> None:
    outcome = gate(run)
    assert outcome.exit_code == 1
    (line,) = outcome.stderr.splitlines()
    assert line.startswith("gate: failed: 17.0 l.i1 slower: -9.9%") and "l.i0" not in line
    assert gate(run, "--base", "17.0").stderr.startswith("gate: failed: 16.3 qr100 slower: -4.")


def test_what_is_tolerated_passes(run: Path) -> None:
    assert gate(run, "--tolerate", "l.i1=12%").exit_code == 0
    assert gate(run, "--tolerate", "12%").exit_code == 0
    assert gate(run, "--tolerate", "12%,l.i1=3%").exit_code == 1
    outcome = gate(run, "--tolerate", "12%", "--json")
    assert outcome.exit_code == 0 and outcome.stdout.startswith("{")


def test_the_plan_says_what_is_tolerated(run: Path, tmp_path: Path) -> None:
    copy = make_run(tmp_path / "runs" / "made", repeats=5, effects=EFFECTS)
    manifest = read_manifest(copy).record() | {"tolerated": {"": 0.02, "l.i1": 0.15}}
    (copy / "manifest.json").write_bytes(msgspec.json.encode(manifest))
    assert gate(copy).exit_code == 0
    assert gate(copy, "--tolerate", "5%").exit_code == 1


def test_junit_names_every_step_with_what_became_of_it(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "junit.xml"
    gate(run, "--junit", str(file))
    (suite,) = ElementTree.parse(file).getroot()
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("17.0 against 16.3", "4", "1")
    assert [case.get("name") for case in suite] == list(STEPS)
    failed = [(case.get("name"), mark.get("message")) for case in suite for mark in case.findall("failure")]
    assert [name for name, _ in failed] == ["l.i1"] and str(failed[0][1]).startswith("slower: -9.9%")


def test_where_nothing_is_known_nothing_has_passed(tmp_path: Path) -> None:
    outcome = gate(make_run(tmp_path / "runs" / "one", repeats=1, effects=EFFECTS))
    assert outcome.exit_code == 2 and "nothing is known of any step" in outcome.stderr
    crashed = dict.fromkeys((2, 3), "the server was killed")
    outcome = gate(make_run(tmp_path / "runs" / "two", repeats=2, failed=crashed))
    assert outcome.exit_code == 2 and outcome.stdout == ""


def test_bad_tolerances_are_named(run: Path, tmp_path: Path) -> None:
    for words, said in (
        (("--tolerate", "l.y=3%"), "unknown step 'l.y'"),
        (("--tolerate", "much"), "'much' is not a number"),
        (("--tolerate", "120%"), "less than 100%"),
        (("--junit", str(tmp_path / "absent" / "file")), "cannot write the result"),
        (("--slices", "l.i1"), "choose one"),
    ):
        outcome = gate(run, *words)
        assert (outcome.exit_code, outcome.stdout) == (2, "") and said in outcome.stderr


def test_runs_as_one_tolerate_what_each_of_them_does() -> None:
    assert tolerances(["3%", "l.x=0.1"], STEPS) == {"": 0.03, "l.x": 0.1}
    assert strictest([{"": 0.03, "l.x": 0.1}, {"l.i1": 0.2}]) == {"": 0.0, "l.x": 0.0, "l.i1": 0.03}

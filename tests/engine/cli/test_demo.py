"""`bench demo`: its recordings are runs like any others, and small."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path

import pytest
from click.testing import CliRunner

from engine.cli.demo import PLANS, RECORDING
from engine.cli.main import main
from engine.journal.reader import JournalReader
from engine.journal.runs import runs_in
from engine.view.events import incidents_of
from tests.support.benchcall import Bench


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of both runs."""
    folder = tmp_path_factory.mktemp("demo") / "new"
    done = CliRunner().invoke(main, ["demo", "--to", str(folder)])
    assert done.exit_code == 0, done.output
    assert [line.partition(";")[0] for line in done.stdout.splitlines()] == [str(run) for run in recorded(folder)]
    return folder


def recorded(folder: Path) -> tuple[Path, Path]:
    """The run of two builds, and the older one of plans."""
    builds, plans = runs_in(folder)
    return builds, plans


def test_recordings_are_small_and_hide_their_machine(unpacked: Path) -> None:
    assert sum(len(files("engine.cli").joinpath(name).read_bytes()) for name in (RECORDING, PLANS)) < 2_100_000
    for run in recorded(unpacked):
        with JournalReader(run) as reader:
            stated = (run / "manifest.json").read_text() + json.dumps([event.data for event in reader.events()])
            assert not re.search(r"/(work|root|home)/|/tmp/(?!pgbed[\"/])", stated), run
            assert "fc-" not in json.dumps(reader.manifest.environment) and reader.manifest.environment["host"]
    again = CliRunner().invoke(main, ["demo", "--to", str(unpacked)])
    assert again.exit_code == 2 and "is there already" in again.stderr and len(again.stderr.splitlines()) == 1


@pytest.mark.slow
def test_the_first_recording_has_two_incidents_in_slices(unpacked: Path) -> None:
    run, _ = recorded(unpacked)
    with JournalReader(run) as reader:
        assert {cell.subject.build for cell in reader.manifest.cells} and reader.manifest.design.sliced
        incidents = incidents_of([event for event in reader.events() if event.kind == "stall"])
        causes = [cause["name"] for stalls in incidents for stall in stalls for cause in stall.data["causes"][:1]]
        assert {"stopped", "lock"} <= set(causes)
    compared = json.loads(Bench(unpacked)("compare", str(run), "--json").stdout)
    assert max(ratio["pairs"] for ratio in compared["ratios"]) == 8 and compared["design"].startswith("slices")


def test_the_second_recording_has_forty_plans(unpacked: Path) -> None:
    _, run = recorded(unpacked)
    compared = json.loads(Bench(unpacked)("compare", str(run), "--json").stdout)
    sections = {section["key"]: section for section in compared["sections"]}
    assert len(sections["planning"]["rows"]) == 40 and "results" not in sections
    assert any(line["name"] for line in sections["plans"]["rows"])


def test_without_a_terminal_it_says_what_can_be_done() -> None:
    done = CliRunner().invoke(main, ["demo"])
    assert done.exit_code == 2
    assert "the demo needs a terminal; `bench demo --to FOLDER` unpacks" in done.stderr

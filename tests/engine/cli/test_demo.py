"""`bench demo`: its recording is a run like any other, and small."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path

from click.testing import CliRunner

from engine.cli.demo import RECORDING
from engine.cli.main import main
from engine.journal.reader import JournalReader
from engine.view.events import incidents_of
from tests.support.benchcall import Bench


def test_the_recording_is_a_run_of_two_builds_in_slices_with_two_incidents(tmp_path: Path) -> None:
    assert len(files("engine.cli").joinpath(RECORDING).read_bytes()) < 900_000
    done = CliRunner().invoke(main, ["demo", "--to", str(tmp_path / "new")])
    assert done.exit_code == 0, done.output
    (run,) = (tmp_path / "new").iterdir()
    assert str(run) in done.stdout
    with JournalReader(run) as reader:
        assert {cell.subject.build for cell in reader.manifest.cells} and reader.manifest.sliced
        incidents = incidents_of([event for event in reader.events() if event.kind == "stall"])
        causes = [cause["name"] for found in incidents for stall in found for cause in stall.data["causes"][:1]]
        assert {"stopped", "lock"} <= set(causes)
        stated = (run / "manifest.json").read_text() + json.dumps([event.data for event in reader.events()])
        assert not re.search(r"/(work|root|home)/|/tmp/(?!pgbed[\"/])", stated), "where it was made"
        assert "fc-" not in json.dumps(reader.manifest.environment) and reader.manifest.environment["host"]
    compared = json.loads(Bench(tmp_path)("compare", str(run), "--json").stdout)
    assert compared["pairs"] == 4 and compared["design"].startswith("slices")
    again = CliRunner().invoke(main, ["demo", "--to", str(tmp_path / "new")])
    assert again.exit_code == 2 and "is there already" in again.stderr and len(again.stderr.splitlines()) == 1


def test_without_a_terminal_it_says_what_can_be_done() -> None:
    done = CliRunner().invoke(main, ["demo"])
    assert done.exit_code == 2
    assert "the demo needs a terminal; `bench demo --to FOLDER` unpacks" in done.stderr

"""The record of slices on the command line: shown, marked, and kept apart from whole cells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.benchcall import Bench
from tests.support.journal import make_run
from tests.support.totals import made_slices

RATES = {"16.3": 8000.0, "17.0": 7600.0}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A folder with a run of whole cells, `whole`, and one in slices, `sliced`."""
    folder = tmp_path / "runs"
    folder.mkdir()
    make_run(folder / "whole", repeats=1)
    make_run(folder / "sliced", repeats=1, slices=lambda cell, step: made_slices(cell, step, RATES))
    for name in ("whole", "sliced"):
        (folder / name / "cells").mkdir(exist_ok=True)
    return folder


def test_a_listed_run_is_marked(out: Path) -> None:
    rows = {row["run"]: row for row in json.loads(Bench(out)("list", "runs", "--json").stdout)}
    assert (rows["sliced"]["slices"], rows["whole"]["slices"]) == ("50 ms", "")
    heading, *lines = Bench(out, {"COLUMNS": "120"})("list", "runs").stdout.splitlines()
    assert heading.split()[-1] == "load"
    assert ["g24b 100000, slices 50 ms" in line for line in sorted(lines)] == [True, False]
    long = out / "20261122-100622-14.10_prebuilt-16.3_prebuilt"
    (out / "sliced").rename(long)
    narrow = Bench(out, {"COLUMNS": "80"})("list", "runs").stdout
    assert [line.split()[0] for line in narrow.splitlines()] == ["run", "whole", long.name]
    assert {"slices", "50", "ms"} <= set(narrow.split()), "folded, not cut"
    (long / "manifest.json").unlink()
    assert "slices" not in Bench(out)("list", "runs").stdout


def test_the_blocks_of_a_step_are_shown_in_every_form(out: Path) -> None:
    bench = Bench(out)
    step = json.loads(bench("compare", "sliced", "--slices", "qr100", "--json").stdout)
    assert [len(pair["blocks"]) for pair in step["pairs"]] == [40]
    assert step["pairs"][0]["ratio"] == pytest.approx(0.95, abs=0.002)
    turned = json.loads(bench("compare", "sliced", "--slices", "qr100", "--base", "17.0", "--json").stdout)
    assert turned["pairs"][0]["ratio"] == pytest.approx(1 / 0.95, abs=0.002)
    assert "covers one pair" in bench("compare", "sliced", "--slices", "qr100").stdout
    assert "| ABBA |" in bench("compare", "sliced", "--slices", "qr100", "--md").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("sliced", "whole"), "sliced and whole cannot be compared: measured in slices of 50 ms"),
        (("sliced", "--published"), "--published: sliced was measured in slices of 50 ms; published figures are"),
        (("sliced", "--published", "--slices", "qr100"), "--published and --slices: choose one"),
        (("sliced", "--slices", "qr100", "--csv"), "--csv: slices and plans are printed as text, --md or --json"),
    ],
)
def test_what_does_not_go_together_is_refused(out: Path, arguments: tuple[str, ...], said: str) -> None:
    done = Bench(out)("compare", *arguments)
    assert done.returncode == 2 and done.stdout == ""
    (line,) = done.stderr.strip().splitlines()
    assert said in line


def test_published_figures_stand_beside_whole_cells(out: Path) -> None:
    assert "the published figures" in Bench(out)("compare", "whole", "--published").stdout

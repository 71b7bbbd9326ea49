"""A mail: at most 60 lines of 72 columns, of which none tears a figure, and the page is named for the rest."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
from click.testing import CliRunner

from engine.analysis.compare import compare
from engine.cli.main import main
from engine.core.model import Cell
from engine.journal.archive import unpack
from engine.journal.totals import StepTotals
from engine.report import mail
from engine.report.tables.section import bounds, ratio_text
from tests.support.journal import make_run

MANY = ("12.11", "13.16", "14.13", "15.8", "16.3-with-a-name-that-is-much-longer-than-a-column")


def mailed(*runs: Path) -> str:
    done = CliRunner().invoke(main, ["report", *map(str, runs), "--format", "text"])
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    breakable = [line for line in lines if len(line.removesuffix(" \\").split()) > 1]  # a commit's path is one word
    assert max(map(len, breakable)) <= mail.COLUMNS and len(lines) <= mail.LINES, done.stdout
    assert not re.search(r"[0-9]\n *(%|[kMG]?B\b|[mu]?s\b)", done.stdout)  # a unit torn from its figure
    assert not [line for line in lines if line.count("[") != line.count("]")]
    return done.stdout


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    packed = files("engine.cli").joinpath("demo.tar.xz").read_bytes()
    return unpack(packed, "the demo", tmp_path_factory.mktemp("recorded"))


def test_every_verdict_is_a_line_and_the_rest_is_on_the_page(demo: Path, tmp_path: Path) -> None:
    made = make_run(tmp_path / "r", builds=("16.3", "17beta1-builtin"), repeats=4, aa=True, noise=0.1)
    for run in (demo, made):
        text, known = mailed(run), compare([run])
        assert known.answer[0].text in " ".join(text.split())
        for ratio in known.ratios:
            if ratio.metric == "rate_per_s":
                (line,) = [
                    line for line in text.splitlines()
                    if line.split()[:1] == [ratio.step] and (ratio.subject in line or len(known.others) == 1)
                    and bounds(ratio) in line
                ]  # fmt: skip
                assert ratio_text(ratio) in line and (ratio.missing or ratio.verdict_text) in line
        assert f"bench report {run}" in text.replace("\\\n", "")


def test_however_much_is_compared_it_stays_short_and_what_differs_comes_first(tmp_path: Path) -> None:
    slower = {(build, "qr100"): 0.8 for build in MANY[1:]}
    failed = dict.fromkeys(range(20, 50, 3), "killed by signal 9")
    made = make_run(
        tmp_path / "r", builds=MANY, configs=("cx5", "cx7", "cx9"), repeats=6, noise=0.01, effects=slower, failed=failed
    )
    text, known = mailed(made), compare([made])
    judged = [ratio for ratio in known.ratios if ratio.metric == "rate_per_s" and ratio.verdict == "slower"]
    assert len(judged) >= 8
    for ratio in judged:
        assert any(line.startswith(ratio.step) and bounds(ratio) in line for line in text.splitlines())
    assert re.search(r"and \d+ more lines: see the page", text) and "- and 13 more: see the page" in text
    assert "\n(1)" not in text  # of lines that are on the page


def test_what_is_withheld_says_why_right_below_the_table(tmp_path: Path) -> None:
    def late(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        missed = step == "qr100" and cell.subject.build == "17.0"
        return replace(totals, seconds=totals.seconds * 1.4) if missed else totals

    text = mailed(make_run(tmp_path / "r", builds=("16.3", "17.0"), repeats=4, change=late))
    lines = text.splitlines()
    (place,) = [place for place, line in enumerate(lines) if "withheld (1)" in line]
    assert lines[place].startswith("qr100") and lines[place + 1].startswith("(1) SLA: ")


def test_no_figure_is_torn_from_its_unit() -> None:
    words = "x" * 60
    for firm in ("-25.3 %", "[-33.0, -16.7]", "±15.6 %", "23.5 GB", "3.25 ms"):
        for length in range(40, 60):
            assert firm in "\n".join(mail._folded(f"{words[:length]} {firm} and more of it"))


def test_of_drift_the_first_is_told_and_how_much_more_there_is(recording: Path) -> None:
    text, known = mailed(recording), compare([recording])
    drifts = [finding for finding in known.findings if finding.startswith("drift at ")]
    assert len(drifts) > 2 and text.count("drift at ") == 1 and f"; {len(drifts) - 1} more of drift" in text

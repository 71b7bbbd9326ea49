"""The record of slices as it is handed out: the blocks of a step in every form."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from engine.analysis.answer.step_slices import sliced_step
from engine.report import render
from engine.report import sliced_step as sliced_report
from engine.results.sliced_step import SlicedStep
from tests.support.journal import make_run
from tests.support.totals import made_slices

RATES = {"16.3": 8000.0, "17.0": 7600.0}


@pytest.fixture
def step(tmp_path: Path) -> SlicedStep:
    """Two repeats, 17.0 at 95% of 16.3, both shaken alike."""
    run = make_run(tmp_path / "r", repeats=2, slices=lambda cell, name: made_slices(cell, name, RATES, noise=0.1))
    return sliced_step([run], "qr100")


def printed(step: SlicedStep, encoding: str = "utf-8", *, terminal: bool = False) -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, newline="\n", write_through=True)
    render.print_slices(step, Console(file=file, width=80, force_terminal=terminal, color_system=None, highlight=False))
    return raw.getvalue().decode(encoding)


@pytest.mark.slow
def test_blocks_are_summarised_on_a_terminal_only(step: SlicedStep) -> None:
    pair = step.pairs[0]
    blocks = tuple(
        replace(block, block=number, order=("ABBA", "BAAB")[number % 2])
        for number, block in enumerate(25 * pair.blocks, 1)
    )
    long = replace(step, pairs=(replace(pair, blocks=blocks),))
    text = printed(long, terminal=True)
    lines = re.findall(r"^\d+-\d+ .*$", text, re.M)
    assert len(lines) == 59 and lines[0].startswith("1-17 ") and lines[-1].startswith("987-1000 ")
    assert re.match(r"1-17 +0\.2 +any +[\d,]+ +[\d,]+ 0\.9\d\d ", lines[0])
    assert "--json has every block" in " ".join(text.split()) and max(map(len, lines)) <= 80
    assert len(re.findall(r"^\d+ +\d", printed(long), re.M)) == 1000
    assert "every block" not in " ".join(printed(step, terminal=True).split())


def test_markdown_has_the_same_blocks(step: SlicedStep) -> None:
    text = render.slices_to_markdown(step)
    assert text.count("### qr100: 17.0 / 16.3") == 2
    assert text.count("| ABBA |") == 80


def test_json_has_the_figures_of_every_block(step: SlicedStep) -> None:
    assert msgspec.json.decode(sliced_report.to_json(step), type=SlicedStep) == step

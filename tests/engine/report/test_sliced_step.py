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
from engine.results.sliced_step import SlicedAdjustment, SlicedStep
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


def test_what_others_did_is_told_in_words(step: SlicedStep) -> None:
    pair = step.pairs[0]
    sides = [replace(pair.blocks[0].base, stolen_share=share, others_tasks=1.5) for share in (0.012, 0.013)]
    adjusted = replace(pair, unadjusted=0.9444, base_over=sides[0], other_over=sides[1])
    told = replace(
        step,
        pairs=(adjusted, *step.pairs[1:]),
        adjustments=(SlicedAdjustment("17.0", ("stolen time",), ("others' tasks differed",)),),
        meters=("stolen time is measured at real-time priority, for 0.30% of a CPU",),
    )
    text = " ".join(printed(told).split())
    assert f"(unadjusted: 0.944, typical {pair.typical:.3f})" in text
    assert "stolen 1.2% and 1.3%, others' tasks 1.50 and 1.50" in text
    assert "ratios of 17.0 are adjusted by stolen time; not used for 17.0: others' tasks differed" in text
    assert "measured at real-time priority, for 0.30% of a CPU" in text
    assert "ratios of blocks are unadjusted, and so is that so far" in text
    assert "adjusted" not in printed(step) and f"], typical {pair.typical:.3f}, 40 blocks" in printed(step)


@pytest.mark.slow
def test_thousands_of_blocks_are_few_lines_on_a_terminal_and_every_one_elsewhere(step: SlicedStep) -> None:
    pair = step.pairs[0]
    blocks = tuple(
        replace(block, block=number, order=("ABBA", "BAAB")[number % 2])
        for number, block in enumerate(100 * pair.blocks, 1)
    )
    long = replace(step, pairs=(replace(pair, blocks=blocks),))
    text = printed(long, terminal=True)
    lines = re.findall(r"^\d+-\d+ .*$", text, re.M)
    assert len(lines) == 60 and lines[0].startswith("1-67 ") and lines[-1].startswith("3954-4000 ")
    assert re.match(r"1-67 +0\.2 +any +[\d,]+ +[\d,]+ 0\.9\d\d ", lines[0])
    assert "--json has every block" in " ".join(text.split()) and max(map(len, lines)) <= 80
    assert len(re.findall(r"^\d+ +\d", printed(long), re.M)) == 4000
    assert "every block" not in " ".join(printed(step, terminal=True).split())


def test_markdown_has_the_same_blocks(step: SlicedStep) -> None:
    text = render.slices_to_markdown(step)
    assert text.count("### qr100: 17.0 / 16.3") == 2
    assert text.count("| ABBA |") == 80


def test_json_has_the_figures_of_every_block(step: SlicedStep) -> None:
    assert msgspec.json.decode(sliced_report.to_json(step), type=SlicedStep) == step

"""The names of the figures of probes."""

from __future__ import annotations

import pytest

from tui.glyphs import SETS
from tui.probes.text import figure_lines


@pytest.mark.parametrize(("probe", "called"), [("runq", "waits"), ("planner", "plannings")])
def test_a_count_is_called_by_what_the_probe_counts(probe: str, called: str) -> None:
    lines = figure_lines(probe, {"n": 120, "sum_us": 2400}, 60.0, 40, SETS["ascii"])
    words = ["".join(text for text, _ in line).split() for line in lines]
    assert [called, "2/s"] in words and ["mean", "20", "us"] in words

"""History: the words that find runs and cells, where the cursor stands, and how times and stalls are shown."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import UserError
from engine.view import run_summary
from engine.view.run_summary import RunSummary, StepSummary
from tui.history import row_filter
from tui.history import text as history_text


def test_spans_are_merged() -> None:
    assert run_summary.merged([(5, 7), (1, 3), (2, 4), (7, 9)]) == ((1, 4), (5, 9))
    assert run_summary.seconds_of([(0, 10**9), (2 * 10**9, 4 * 10**9)]) == 3.0


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)).map(lambda pair: (pair[0], pair[0] + pair[1]))))
def test_merged_spans_cover_the_same_and_are_apart(spans: list[tuple[int, int]]) -> None:
    joined = run_summary.merged(spans)

    def covered(some: Any) -> set[int]:
        return {moment for from_, until in some for moment in range(from_, until)}

    assert covered(joined) == covered(spans)
    assert all(first[1] < second[0] for first, second in pairwise(joined))


RUN = RunSummary(
    Path("/out/r1"), 0, "finished", host="pn53", kernel="6.12.58", builds=("16.3-prebuilt", "17.0"), load="g24b quick",
    steps=("l.i0", "qr100", "qr1000"), tags=("noisy",),
)  # fmt: skip
CELL = StepSummary(RUN, "001-x", "16.3-prebuilt", "6.12.58", 2, "qr1000", 0, flags=(("x SLA 71%", "sla"),))


@pytest.mark.parametrize(
    ("text", "run", "cell"),
    [
        ("", True, True),
        ("step=qr1000", True, True),
        ("step=qr100", True, False),
        ("step=qr*", True, True),
        ("build=16.3", True, True),
        ("build=17", True, False),
        ("host=PN53 kernel=6.12", True, True),
        ("!tag=noisy", False, False),
        ("!tag=quiet", True, True),
        ("noisy 17.0", True, False),
        ("rep=2", True, True),
        ("rep=1", True, False),
        ("flag=sla", True, True),
        ("state=fin", False, False),
        ("state=finished !flag=probed", True, True),
        ("load=io", False, False),
        ("step=", True, True),
        ("pn5?", True, True),
    ],
)
def test_words_find_runs_and_cells(text: str, run: bool, cell: bool) -> None:
    wanted = row_filter.words(text)
    assert bool(row_filter.runs([RUN], wanted)) == run
    assert bool(row_filter.cells([CELL], wanted)) == cell


def test_an_unknown_word_is_told_with_the_nearest() -> None:
    with pytest.raises(UserError, match="nearest: step="):
        row_filter.words("stp=l.i1")


def test_times_of_another_year_have_their_year() -> None:
    in_2025 = 1_763_604_720_000_000_000
    assert history_text.when(in_2025, 2025) == "11-20 02:12"
    assert history_text.when(in_2025, 2026) == "2025-11-20"


def test_the_ribbon_marks_where_the_stalls_were() -> None:
    second = 10**9
    row = StepSummary(
        RUN, "c", "b", "k", 1, "l.i1", 0, 100 * second, 160 * second, 1.0, 1, ((130 * second, 131 * second),)
    )
    text = "".join(part for part, _ in history_text.ribbon(row, 80))
    assert len(text) == 80 and text.startswith(" 00:00:00 ...") and text.endswith("... 00:01:00 ")
    assert text[10:70].index("!") == 30

"""Intervals drawn on one logarithmic axis: where they lie, values beyond it, and how the table makes room for them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.results.cell_step import SLA, STALLS
from engine.results.comparison import Comparison
from engine.results.ratio import Ratio
from tests.tui.compare.test_comparison_table import four_builds, texts
from tui.compare import forest, interval_table
from tui.compare.comparison_table import MARKS, RowKey, name_of, rows, sign, verdict_words
from tui.compare.explanation import explained, further_dots
from tui.compare.meanings import MEANINGS, meaning
from tui.glossary import words_on
from tui.glyphs import SETS

ASCII = SETS["ascii"]
EVERYTHING = tuple(MEANINGS)


def ratio(value: float | None, low: float | None = None, high: float | None = None) -> Ratio:
    return Ratio("s", "n", "m", value, low, high, 3, "undecided")


def drawn_text(on: forest.RatioAxis, measured: Ratio | None, others: tuple[float, ...] = ()) -> str:
    return "".join(text for text, _ in forest.whisker(on, measured, "", ASCII, others))


def test_an_interval_lies_where_its_logarithms_are() -> None:
    on = forest.RatioAxis(1.0, 0.1, 41)  # from 0.5 to 2
    assert (on.place(1.0), on.place(2.0), on.place(0.5), on.place(2**0.5)) == (20, 40, 0, 30)
    text = drawn_text(on, ratio(2**0.5, 0.5, 2.0))
    assert text == "[-------------------+---------o---------]"
    assert drawn_text(on, None) == " " * 17 + "...|..." + " " * 17  # the margin, and 1


def test_what_goes_beyond_the_axis_points_there() -> None:
    on = forest.RatioAxis(0.1, 0.02, 21)
    assert drawn_text(on, ratio(1.0, 0.2, 3.0)) == "<" + "-" * 9 + "o" + "-" * 9 + ">"
    assert drawn_text(on, ratio(3.0, 2.0, 4.0))[-1] == ">"
    assert drawn_text(on, ratio(0.1, None, None))[0] == "<"
    assert drawn_text(on, ratio(1.05), (0.95,)).index("x") < 10 < drawn_text(on, ratio(1.05)).index("o")


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.01, 50), st.floats(1, 3)), max_size=12), st.floats(0.001, 0.2), st.integers(3, 150)
)
def test_every_ratio_is_on_the_axis_unless_it_is_tenfold(
    cases: list[tuple[float, float]], margin: float, cells: int
) -> None:
    ratios = [ratio(value, value / wide, value * wide) for value, wide in cases]
    on = forest.axis(ratios, margin, cells)
    assert on.cells % 2 == 1
    assert 1 + on.reach >= min(1.5 * margin + 1, 10)
    for value, _ in cases:
        assert (0 <= on.place(value) < on.cells) or not 0.1 < value < 10
    for measured in ratios:
        assert len(drawn_text(on, measured)) == on.cells


def test_one_wild_interval_does_not_flatten_the_others() -> None:
    tame = [ratio(1.01, 0.99, 1.03)] * 9
    assert forest.axis([*tame, ratio(1.0, 0.05, 20.0)], 0.02, 41).reach <= 0.05


def test_the_ends_of_the_axis_are_told() -> None:
    assert texts([forest.ticks(forest.RatioAxis(1.0, 0.02, 21))]) == ["0.50      1         2"]
    assert texts([forest.ticks(forest.RatioAxis(1.0, 0.02, 3))])[0].strip() != ""


def subjects(count: int) -> Comparison:
    comparison = four_builds()
    return replace(comparison, subjects=comparison.subjects[: count + 1])


def test_a_wide_interval_does_not_touch_the_verdict() -> None:
    comparison = subjects(1)
    wide = tuple(replace(ratio, low=0.006, high=23.014, joint=None, verdict="withheld") for ratio in comparison.ratios)
    comparison, shown = replace(comparison, ratios=wide), [RowKey("l.i0", "rate_per_s")]
    at = interval_table.layout(comparison, 130, 0, 0)
    on = forest.axis(interval_table.ratios(comparison, shown), comparison.margin, at.axis)
    (row,) = texts(interval_table.table(comparison, shown, at, on, (0, 0), 0, 1, ASCII))
    assert "0.006-23.0~ withheld" in row


@pytest.mark.slow
@settings(deadline=None)
@given(st.integers(72, 250), st.integers(1, 4), st.integers(0, 3), st.integers(0, 3), st.sampled_from(list(SETS)))
def test_the_table_fits_and_keeps_an_axis(columns: int, others: int, chosen: int, first: int, glyphs: str) -> None:
    comparison = subjects(others)
    chosen = min(chosen, others - 1)
    at = interval_table.layout(comparison, columns, chosen, first)
    assert at.first <= chosen < at.first + len(at.subjects)
    assert at.axis >= interval_table.LEAST_AXIS
    shown = rows(comparison, EVERYTHING, "steps", "")
    on = forest.axis(interval_table.ratios(comparison, shown), comparison.margin, at.axis)
    lines = [interval_table.header(comparison, at, on, chosen, SETS[glyphs])]
    lines += interval_table.table(comparison, shown, at, on, (3, chosen), 0, len(shown), SETS[glyphs])
    assert max(len(text.rstrip()) for text in texts(lines)) <= columns
    judged = [text for text, row in zip(texts(lines[1:]), shown, strict=True) if row.metric not in (STALLS, SLA)]
    assert {len(text) for text in judged} == {len(texts(lines)[0])}  # columns stand below each other
    assert any(mark == "cursor" for _, mark in lines[4])


def test_room_goes_to_words_values_and_digits_in_turn() -> None:
    widths = [interval_table.layout(subjects(1), columns, 0) for columns in (72, 80, 100, 130, 200)]
    assert [at.words for at in widths] == [14, 14, 14, 20, 20]
    assert [bool(at.value) for at in widths] == [False, False, True, True, True]
    assert [bool(at.bounds) for at in widths] == [False, False, False, True, True]
    assert widths[-1].base > widths[0].base
    assert widths[-1].axis > 90


@pytest.mark.parametrize(
    ("verdict", "more", "long", "short"),
    [
        ("slower", None, "slower", "slower"),
        ("undecided", 1, "needs 1 more pair", "1 more pair"),
        ("undecided", 32, "needs 32 more pairs", "32 more pairs"),
        ("undecided", None, "undecided", "undecided"),
        ("no faster", 3, "no faster", "no faster"),
        ("none", None, "", ""),
    ],
)
def test_a_verdict_says_what_it_needs(verdict: str, more: int | None, long: str, short: str) -> None:
    measured = Ratio("l.i0", "17.0", "rate_per_s", 1.0, None, None, 3, verdict, more_pairs=more)  # type: ignore[arg-type]
    assert (verdict_words(measured), verdict_words(measured, full=False)) == (long, short)


def test_a_certain_sign_within_the_margin_fits_if_wide_enough() -> None:
    measured = Ratio("l.i0", "17.0", "rate_per_s", 0.99, 0.985, 0.995, 3, "same", better=False, differs=True)
    assert (verdict_words(measured), verdict_words(measured, full=False)) == ("a little slower", "same")


def test_a_cost_is_more_and_its_sign_means_worse() -> None:
    cost = Ratio("l.i0", "17.0", "server_cpu_us_per_op", 1.07, 1.05, 1.09, 3, "slower")
    assert (sign(cost, SETS["braille"]), verdict_words(cost)) == ("▼", "more")
    (said,) = words_on("cpu us/row  12.4  ▼ 1.066 more")[-1:]
    assert said.meaning.endswith("▼ is worse: less done, or more cost")


def test_figures_are_named_and_explained_by_their_unit() -> None:
    comparison = four_builds()
    cpu = "server_cpu_us_per_op"
    assert name_of(comparison, RowKey("l.i0", cpu)) == "cpu us/row"
    assert name_of(comparison, RowKey("qr100", cpu)) == "cpu us/query"
    assert meaning(comparison, RowKey("qr100", cpu)).startswith(
        "CPU time of all server processes for each query, in us"
    )
    for metric in EVERYTHING:
        (said,) = texts([explained(comparison, RowKey("l.i0", metric))])
        assert "{" not in said and len(said) > 20


def test_dots_of_further_figures_take_the_room_there_is() -> None:
    comparison = four_builds()
    (subject,) = (subject for subject in comparison.others if subject.name == "17.0")
    shown = rows(comparison, EVERYTHING, "steps", "")
    for room in (0, 2, 3, 7, 40):
        lines = texts(further_dots(comparison, shown, shown[0], subject, 2, room, 130, ASCII))
        assert len(lines) <= room and len(lines) % 3 == 0
    assert texts(further_dots(comparison, shown, shown[0], subject, 2, 3, 130, ASCII))[0].startswith(" l.i0 ")


def test_the_small_page_draws_what_is_known_of_the_rates() -> None:
    comparison = four_builds()
    lines = texts(interval_table.small(comparison, rows(comparison, ("rate_per_s",), "steps", ""), 60, ASCII))
    assert max(map(len, lines)) <= 60
    assert any(line.startswith("l.i0") and "v 0.8" in line and "slower" in line and "o" in line for line in lines)
    assert set(MARKS) == {"better", "worse", "=", "~", "?"}

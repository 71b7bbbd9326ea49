"""The lines that answer the question: names, counts, and steps left undecided."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.analysis.answer.compare import compare
from engine.core.model import Cell
from engine.journal.totals import StepTotals
from engine.report import gate, tables
from engine.results.ratio import UNCLEAR
from engine.results.section import Notes, drawn
from tests.support.journal import ENVIRONMENT, make_run


@pytest.mark.parametrize(
    ("effects", "how", "sentence"),
    [
        ({}, {}, "17.0 is within 2% of 16.3 in all 4 steps"),
        (  # slower steps come first, the largest effect before others
            {"l.i1": 0.9, "qr100": 0.8},
            {},
            "17.0 is slower than 16.3 in 2 of 4 steps: qr100 -20.0% [*], l.i1 -10.0% [*]\nwithin 2% in 2: l.i0, l.x",
        ),
        (  # also if the others' effects are larger; within the margin, certain signs come first
            {"l.i1": 0.9, "qr100": 1.3, "l.x": 1.01},
            {},
            "17.0 is slower than 16.3 in 1 of 4 steps: l.i1 -10.0% [*]\nfaster in 1: qr100 +30.0% [*]\n"
            "within 2% in 2: l.x a little faster, l.i0",
        ),
        (  # three are named and the rest counted
            dict.fromkeys(("l.i0", "l.x", "l.i1", "qr100"), 0.9),
            {},
            "17.0 is slower than 16.3 in all 4 steps: * -*.*% [*], * -*.*% [*], * -*.*% [*] and 1 more",
        ),
        (
            {},
            {"noise": 0.06},
            "17.0 against 16.3: undecided in all 4 steps: * ±*%, * ±*%, * ±*% and 1 more; * more pairs, about * "
            "minutes, would decide 3 of them",
        ),
        ({"l.i1": 0.5}, {"repeats": 2}, "17.0 against 16.3: no verdict from two pairs: 3 are needed, better 4 or 6"),
        ({}, {"repeats": 1, "blocks": 40}, "17.0 against 16.3: no verdict from one pair: 3 are needed, better 8"),
    ],
)
def test_the_answer_names_and_counts_steps(
    tmp_path: Path, effects: dict[str, float], how: dict[str, Any], sentence: str
) -> None:
    """`*` stands for figures."""
    plan = {"noise": 0.0005, "repeats": 4, **how}
    (answer,) = compare([make_run(tmp_path / "r", effects={("17.0", s): e for s, e in effects.items()}, **plan)]).answer
    pattern = re.escape(sentence).replace(r"\*", r"[-+\w., ]+?")
    assert answer.subject == "17.0" and re.fullmatch(pattern, answer.text), answer.text


def noisy(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
    factor = (1.0, 1.06, 0.98, 1.03)[cell.repeat - 1] if cell.subject.build == "17.0" else 1
    return replace(totals, seconds=totals.seconds * factor) if step == "l.i1" else totals


def test_what_is_undecided_says_what_would_decide_it(tmp_path: Path) -> None:
    (answer,) = compare([make_run(tmp_path / "r", noise=0.0005, repeats=4, change=noisy)]).answer
    within, undecided = answer.lines
    assert within == "17.0 is within 2% of 16.3 in 3 of 4 steps: l.i0, l.x, qr100"
    assert undecided.startswith("undecided in 1: l.i1 ±") and undecided.endswith(" minutes, would decide it")


def test_no_slower_reports_the_worst_end_of_the_interval(tmp_path: Path) -> None:
    def uneven(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        ratio = {"l.i0": (0.99, 1.03, 1.0, 1.03, 1.02), "qr100": (1.01, 0.97, 1.0, 0.97, 0.98)}.get(step)
        slower = 1 / ratio[cell.repeat - 1] if ratio and cell.subject.build == "17.0" else 1.0
        return replace(totals, seconds=totals.seconds * slower)

    comparison = compare([make_run(tmp_path / "r", noise=0, repeats=5, change=uneven)])
    ratios = {ratio.step: ratio for ratio in comparison.ratios if ratio.metric == "rate_per_s"}
    low, high = ratios["l.i0"].low, ratios["qr100"].high
    assert (
        low
        and high
        and comparison.answer_for("17.0")[1:]
        == (f"no slower in 1: at worst l.i0 {low - 1:+.1%}", f"no faster in 1: at best qr100 {high - 1:+.1%}")
    )


def test_answer_table_and_gate_show_one_interval(tmp_path: Path) -> None:
    """Joint bounds are wider than 95% for slower or faster steps only."""
    comparison = compare([make_run(tmp_path / "r", effects={("17.0", "l.i1"): 0.9}, noise=0.005, repeats=5)])
    ratio = comparison.ratio("17.0", "l.i1", "rate_per_s")
    assert ratio is not None and ratio.bounds and ratio.low and ratio.high
    assert ratio.bounds[0] < ratio.low and ratio.high < ratio.bounds[1]
    low, high = ratio.bounds
    effect = f"{ratio.ratio - 1:+.1%} [{100 * (low - 1):+.1f}, {100 * (high - 1):+.1f}]"  # type: ignore[operator]
    assert comparison.answer_for("17.0")[0] == f"17.0 is slower than 16.3 in 1 of 4 steps: l.i1 {effect}"
    (judged,) = (entry for entry in gate.judge(comparison, {}, gate.GatePlan((), {})) if entry.step == "l.i1")
    assert judged.text == f"slower: {effect} of 5 pairs"
    rows = [row for section in drawn(tables.sections(comparison), Notes()) for row, _ in section.rows]
    assert any(f"{low:.3f}-{high:.3f}" in row for row in rows)


def test_pairs_of_cells_abreast_take_their_time_once(tmp_path: Path) -> None:
    minutes = []
    for name, slices in (("whole", None), ("interleaved", lambda cell, step: [])):
        run = make_run(tmp_path / name, noise=0.0005, repeats=4, change=noisy, slices=slices)
        match = re.search(r"(\d+) more pairs, about (\d+) minutes", compare([run]).answer[0].text)
        assert match
        minutes.append((int(match.group(1)), int(match.group(2))))
    (pairs, one_after_the_other), (same_pairs, side_by_side) = minutes
    assert pairs == same_pairs and abs(one_after_the_other - 2 * side_by_side) <= 1


def test_cpu_has_a_sentence_where_it_says_something_else(tmp_path: Path) -> None:
    def dearer(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        factor = 1.1 if cell.subject.build == "17.0" and step == "l.x" else 1
        return replace(totals, server_cpu_ns=int((totals.server_cpu_ns or 0) * factor))

    (answer,) = compare([make_run(tmp_path / "r", noise=0.0005, change=dearer)]).answer
    rates = "17.0 is within 2% of 16.3 in all 4 steps"
    assert answer.text.startswith(f"{rates}\nserver CPU per operation is higher in 1 of 4 steps: l.x +10.0% [+")


def test_a_sentence_for_each_build_but_not_for_the_bases_double(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", builds=("16.3", "17.0", "17.2"), aa=True, noise=0.0005)
    assert [(answer.subject, answer.text.split()[0]) for answer in compare([run]).answer] == [
        ("17.0", "17.0"),
        ("17.2", "17.2"),
    ]


@pytest.mark.slow
def test_an_interval_that_excludes_one_is_no_verdict_among_many(tmp_path: Path) -> None:
    comparisons = [compare([make_run(tmp_path / str(seed), noise=0.01, repeats=4, seed=seed)]) for seed in range(5)]
    rates = [ratio for comparison in comparisons for ratio in comparison.ratios if ratio.metric == "rate_per_s"]
    missed = [ratio for ratio in rates if not ratio.differs and ((ratio.low or 0) > 1 or (ratio.high or 2) < 1)]
    assert missed and all(ratio.verdict in ("same", *UNCLEAR) for ratio in missed)
    words = [ratio.verdict_text.partition(", +")[0] for ratio in missed if ratio.verdict in UNCLEAR]
    assert words and all(word.endswith(" among 4") for word in words), "said in the row, not in a note"


def test_a_difference_near_the_margin_needs_no_more_pairs(tmp_path: Path) -> None:
    comparison = compare([make_run(tmp_path / "r", effects={("17.0", "l.i0"): 0.981}, noise=0.0015, repeats=6)])
    ratio = comparison.ratio("17.0", "l.i0", "rate_per_s")
    assert ratio is not None and (ratio.verdict, ratio.more_pairs, ratio.reasons) == ("slower", None, ()), ratio


def test_a_step_in_which_nothing_was_done_is_not_passed_over(tmp_path: Path) -> None:
    def idle(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        if step != "l.i1" or cell.subject.build != "17.0":
            return totals
        return replace(totals, roles={name: replace(role, rows=0) for name, role in totals.roles.items()})

    (answer,) = compare([make_run(tmp_path / "r", noise=0.0005, repeats=4, change=idle)]).answer
    assert answer.text.endswith("\nno ratio in 1: l.i1: zero in some cells"), answer.text


def test_where_no_cells_pair_the_reason_is_given_and_no_advice(tmp_path: Path) -> None:
    kernels = [{**ENVIRONMENT, "kernel": {"release": release}} for release in ("6.12.58", "6.18.0")]
    runs = [make_run(tmp_path / f"k{place}", builds=("16.3",), environment=host) for place, host in enumerate(kernels)]
    (answer,) = compare(runs).answer
    assert answer.text.startswith("6.18.0 against 6.12.58: no verdict: no pairs: "), answer.text


def test_an_interval_of_thousands_of_percent_is_no_figure(tmp_path: Path) -> None:
    def wild(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        slow = step == "l.i0" and cell.ordinal % 3 == 0
        return replace(totals, seconds=totals.seconds * 40) if slow else totals

    text = compare([make_run(tmp_path / "r", repeats=4, noise=0.0005, change=wild)]).answer[0].text
    assert "l.i0 over ±100%" in text and not re.search(r"±\d{3}.\d", text)


def test_scatter_beyond_all_bounds_has_no_visible_effect(tmp_path: Path) -> None:
    def wild(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        damaged = step == "l.i0" and cell.ordinal == 1
        return replace(totals, seconds=1e-20) if damaged else totals

    comparison = compare([make_run(tmp_path / "r", repeats=4, change=wild)])
    ratio = comparison.ratio("17.0", "l.i0", "rate_per_s")
    assert ratio is not None and ratio.visible_effect is None


def test_delete_planning_has_a_verdict_of_its_own(tmp_path: Path) -> None:
    def planned(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        if "delete" not in totals.roles:
            return totals
        slower = cell.subject.build == "17.0" and step == "qr100"
        us = (2100 if slower else 500) + cell.ordinal
        record = {"n": 1, "sum_us": us * totals.roles["delete"].statements, "seconds": totals.seconds}
        return replace(totals, probes={"delete": {"planner": record}})

    result = compare([make_run(tmp_path / "r", noise=0.0005, repeats=4, change=planned)])
    ratios = {ratio.step: ratio for ratio in result.ratios if ratio.metric == "delete_plan_us"}
    assert ratios["qr100"].verdict == "slower" and {r.verdict for r in ratios.values()} == {"slower", "same"}
    begin = "17.0 is within 2% of 16.3 in all 4 steps\nplanning a DELETE takes 4.1"
    low, high = ratios["qr100"].joint or (0.0, 0.0)
    joint = f"[{low:.2f}, {high:.2f}]"
    assert result.answer[0].text.startswith(begin) and f" x as long in qr100 {joint}" in result.answer[0].text
    (table,) = (part for part in drawn(tables.sections(result), Notes()) if part.title.startswith("Planning a DELETE"))
    assert [row[3:] for row, _ in table.rows][-1] == (
        "▼4.178",
        "-".join(f"{bound:.3f}" for bound in ratios["qr100"].bounds or ()),
        "slower",
    )

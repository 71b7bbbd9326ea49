"""Frames that changed by more than chance: planted changes are found, equal sides are left alone."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from engine.analysis.causes.stack_changes import CellStacks, changed, frames, functions

NAMES = [f"main;{caller};f{number}" for number in range(25) for caller in "abcdefgh"]
WEIGHTS = [1 / (place + 1) for place in range(len(NAMES))]
PLANTED, DEARER = NAMES.index("main;d;f1"), 8  # a frame of 1.4% of all samples takes so many times as much
GRAPHS = 60
# Cells of each side, samples in each, how far the cells themselves scatter, and whether statements were counted.
SIZES = [(1, 350, 0.0, True), (1, 350, 0.0, False), (3, 120, 0.1, True), (3, 120, 0.0, False), (5, 300, 0.2, True)]


def cell(chance: random.Random, samples: int, scatter: float, *, counted: bool, dearer: float = 1.0) -> CellStacks:
    """Samples as a machine takes them whose speed differs from cell to cell."""
    weights = [*WEIGHTS]
    weights[PLANTED] *= dearer
    expected = samples * math.exp(chance.gauss(0, scatter)) * sum(weights) / sum(WEIGHTS)
    drawn = max(1, round(chance.gauss(expected, math.sqrt(expected))))
    return CellStacks(Counter(chance.choices(NAMES, weights, k=drawn)), 10_000 if counted else None)


def marked(seed: int, cells: int, samples: int, scatter: float, counted: bool, dearer: float) -> list[frozenset[str]]:
    chance = random.Random(seed)
    base = [cell(chance, samples, scatter, counted=counted) for _ in range(cells)]
    other = [cell(chance, samples, scatter, counted=counted, dearer=dearer) for _ in range(cells)]
    return [changed(base, other, of) for of in (frames, functions)]


@pytest.mark.parametrize(("cells", "samples", "scatter", "counted"), SIZES)
def test_of_equal_sides_one_graph_in_twenty_at_most_has_a_mark(
    cells: int, samples: int, scatter: float, counted: bool
) -> None:
    marks = [marked(seed, cells, samples, scatter, counted, 1.0) for seed in range(GRAPHS)]
    for kind in (0, 1):
        assert sum(bool(graph[kind]) for graph in marks) <= GRAPHS * 0.05 + 3  # less than twice its error above


@pytest.mark.parametrize(("cells", "samples", "scatter", "counted"), SIZES)
def test_a_planted_change_is_found_and_few_others(cells: int, samples: int, scatter: float, counted: bool) -> None:
    marks = [marked(seed, cells, samples, scatter, counted, DEARER)[0] for seed in range(GRAPHS)]
    assert sum(NAMES[PLANTED] in graph for graph in marks) >= 0.8 * GRAPHS
    with_it = {"main", "main;d", NAMES[PLANTED]}
    if counted:  # of shares all others are less where one is more
        assert sum(len(graph - with_it) for graph in marks) <= 0.1 * sum(map(len, marks))


def test_what_a_glance_takes_for_a_change_is_chance() -> None:
    """5.2% of 349 samples against 7.7% of 385: the standard error of the difference is 1.8 points."""
    base, other = ({"main;base_yyparse": n, "main;rest": total - n} for n, total in ((18, 349), (30, 385)))
    for statements in (None, 10_000):
        assert not changed([CellStacks(base, statements)], [CellStacks(other, statements)], frames)


def test_a_frame_whose_cells_disagree_is_judged_by_them() -> None:
    """A burst of one cell with as many samples as a change: a vacuum that came just then."""

    def side(*counts: int) -> list[CellStacks]:
        return [CellStacks({"main;rest": 300, "main;vacuum": count}, 1000) for count in counts]

    assert changed(side(20, 21, 20), side(40, 41, 42), functions) == {"vacuum"}
    assert not changed(side(20, 21, 20), side(20, 83, 20), functions)


def test_time_off_the_cpu_needs_two_cells_of_each() -> None:
    """Microseconds are no counts: a million of them may be a single wait."""
    base, other = (
        [{"main;read": 10_000 + by} for by in (0, 200, 100)],
        [{"main;read": 20_000 + by} for by in (0, 300, 150)],
    )
    before, after = ([CellStacks(folded, 1000) for folded in side] for side in (base, other))
    assert changed(before, after, frames, timed=True) == {"main", "main;read"}
    assert not changed(before[:1], after[:1], frames, timed=True)
    assert not changed(before, [], frames, timed=True)

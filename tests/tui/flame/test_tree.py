"""Sampled stacks as a tree, as boxes in rows of cells, and by function."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.results.flame import FlameGraph, Sampled
from tests.tui.compare.test_comparison_table import texts
from tui.flame import text, tree
from tui.glyphs import SETS

ASCII = SETS["ascii"]
NAMES = st.sampled_from(["main", "exec", "plan", "scan", "sort_[k]", "a very long name of a function"])
STACKS = st.dictionaries(
    st.lists(NAMES, min_size=1, max_size=8).map(";".join),
    st.tuples(st.integers(0, 500), st.integers(0, 500)).filter(lambda counts: sum(counts) > 0),
    min_size=1,
    max_size=20,
)


def graph(
    stacks: dict[str, tuple[int, int]], certain: tuple[str, ...] = (), *, differential: bool = True, scale: float = 1.0
) -> FlameGraph:
    base = sum(one for one, _ in stacks.values())
    other = sum(two for _, two in stacks.values())
    return FlameGraph(
        "l.i1", "insert", Sampled("16.3", base, 10), Sampled("17.0", other, 10) if differential else None, scale,
        "per statement" if differential else "", False, tuple((line, *counts) for line, counts in stacks.items()),
        certain=certain, certain_functions=tuple(path.rpartition(";")[2] for path in certain),
    )  # fmt: skip


TWO = {"main;exec;scan": (60, 60), "main;exec;plan": (20, 60), "main;sort": (20, 0)}
SURE = ("main;exec", "main;exec;plan")  # of them


def test_a_frame_has_the_samples_of_what_it_calls() -> None:
    root = tree.tree(graph(TWO))
    main = root.children["main"]
    assert (root.base, root.other) == (main.base, main.other) == (100, 120)
    assert main.children["exec"].change == 40
    assert (main.children["sort"].own_base, main.children["sort"].other) == (20, 0)
    assert [frame.name for frame in main.children["exec"].children["plan"].path()] == ["all", "main", "exec", "plan"]
    assert tree.tree(graph(TWO, scale=2.0)).base == 200


@settings(deadline=None)
@given(STACKS, st.integers(1, 200), st.sampled_from(["base", "other"]))
def test_boxes_lie_within_their_caller_and_never_overlap(
    stacks: dict[str, tuple[int, int]], cells: int, side: tree.Side
) -> None:
    root = tree.tree(graph(stacks))
    rows = tree.layout(root, cells, side)
    above: dict[int, tree.Box] = {}
    for boxes in rows:
        assert all(one.end <= two.start for one, two in itertools.pairwise(boxes))
        for box in boxes:
            assert 0 <= box.start < box.end <= cells
            if (caller := above.get(id(box.frame.parent))) is not None:
                assert caller.start <= box.start and box.end <= caller.end
        above = {id(box.frame): box for box in boxes}
    for boxes in rows:
        for differential in (True, False):
            drawn = text.row(boxes, cells, root.samples(side), root, (), ASCII, differential=differential)
            assert sum(len(part) for part, _ in drawn) == cells


@settings(deadline=None)
@given(STACKS)
def test_what_functions_took_themselves_adds_up_to_all(stacks: dict[str, tuple[int, int]]) -> None:
    root = tree.tree(graph(stacks))
    for differential in (True, False):
        functions = tree.functions(root, differential=differential)
        assert sum(function.own_base for function in functions) == root.base
        assert sum(function.own_other for function in functions) == root.other
        assert all(function.own_base <= function.base <= root.base for function in functions)  # recursion counts once


def test_what_changed_most_comes_first_with_its_sign() -> None:
    shown = graph(TWO, ("main;exec;plan", "main;sort"))
    root = tree.tree(shown)
    functions = tree.functions(root, shown.certain_functions, differential=True)
    assert [function.name for function in functions][:3] == ["plan", "sort", "scan"]
    lines = texts(text.functions(shown, root, functions, 0, 0, 5, 80, ASCII))
    assert "base" in lines[0] and "other" in lines[0] and "change" in lines[0]
    assert lines[1].startswith(">plan") and "v+33%" in lines[1] and lines[1].endswith("#" * 20)
    assert lines[2].startswith(" sort") and "^-17%" in lines[2]
    assert max(map(len, lines)) <= 80


def test_what_chance_explains_has_no_mark_and_comes_last() -> None:
    shown = graph({"main;big": (100, 160), "main;small": (20, 40)}, ("main;small",))
    root = tree.tree(shown)
    functions = tree.functions(root, shown.certain_functions, differential=True)
    assert [(one.name, one.certain) for one in functions] == [("small", True), ("big", False), ("main", False)]
    lines = text.functions(shown, root, functions, 0, 0, 5, 80, ASCII)
    small, big = texts(lines)[1:3]
    assert "v+10%" in small and "+30%" in big and "v" not in big
    assert {mark for _, mark in lines[2]} <= {"", "dim", "chosen"}
    rows = tree.layout(root, 60, "other")
    (line,) = texts([text.row(rows[2], 60, 200, root, (), ASCII, differential=True)])
    assert "|big" in line and "|vsmall" in line
    said = " ".join(texts(text.details(shown, root.children["main"].children["big"], root, "other", ASCII)))
    assert "+30%, no more than chance" in said and "v+30" not in said
    assert "than chance explains" in " ".join(texts(text.compared(shown, root, "other", 80, ASCII)))


def test_nested_matching_frames_count_once() -> None:
    root = tree.tree(graph({"main;exec;exec": (50, 0), "main;plan": (50, 0)}))
    matches = tree.matching(root, "EXEC")
    assert len(matches) == 2
    assert tree.share(root, matches, "base") == 0.5
    assert tree.matching(root, "") == tree.matching(root, "nowhere") == []


def test_signs_and_marks_tell_more_from_less_without_colour() -> None:
    assert [text.change_mark(part) for part in (0.05, 0.01, 0.0, -0.01, -0.05)] == [
        "more", "more_little", "", "less_little", "less",
    ]  # fmt: skip
    assert [text.change_sign(part, ASCII) for part in (0.05, 0.0, -0.05)] == ["v", "", "^"]
    root = tree.tree(graph(TWO, SURE))
    (line,) = texts([text.row(tree.layout(root, 60, "other")[2], 60, 120, root, (), ASCII, differential=True)])
    assert "|vexec" in line


def test_a_frame_is_told_in_words() -> None:
    shown = graph(TWO, SURE)
    root = tree.tree(shown)
    said = " ".join(texts(text.details(shown, root.children["main"].children["exec"], root, "other", ASCII)))
    assert "exec  100.0%" in said and "base 67%, other 100%: v+33%" in said and "itself 0.00%" in said
    alone = graph(TWO, differential=False)
    assert "of 100 samples" in " ".join(texts(text.details(alone, root, tree.tree(alone), "base", ASCII)))

"""The order of cells: interleaved, paired, balanced against drift."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import UserError
from engine.core.model import Subject
from engine.plan.schedule import interleave, subjects

LABELS = st.lists(st.sampled_from(["12.11", "14.10", "16.3", "17.0", "18.1"]), min_size=1, max_size=5, unique=True)


@given(LABELS, st.integers(1, 12), st.booleans())
def test_every_subject_has_one_cell_in_every_repeat(labels: list[str], repeats: int, aa: bool) -> None:
    compared = subjects(labels, ["auto", "cx7"], labels[0], aa)
    cells = interleave(compared, repeats)
    assert [cell.ordinal for cell in cells] == list(range(len(compared) * repeats))
    assert len({cell.id for cell in cells}) == len(cells)
    for repeat in range(1, repeats + 1):
        assert {cell.subject for cell in cells if cell.repeat == repeat} == set(compared)


@given(LABELS, st.integers(1, 6))
def test_linear_drift_cancels_over_an_even_number_of_repeats(labels: list[str], blocks: int) -> None:
    compared = subjects(labels, ["auto"], labels[0], False)
    cells = interleave(compared, 2 * blocks)
    places = {subject: sum(cell.ordinal for cell in cells if cell.subject == subject) for subject in compared}
    assert len(set(places.values())) == 1


def test_two_builds_run_abba() -> None:
    cells = interleave(subjects(["a", "b"], ["auto"], "a", False), 4)
    assert [cell.subject.build for cell in cells] == list("abbaabba")


def test_the_base_comes_first_and_its_double_next_to_it() -> None:
    assert subjects(["a", "b"], ["auto"], "b", aa=True) == (
        Subject("b", "auto"),
        Subject("b", "auto", control="aa"),
        Subject("a", "auto"),
    )


def test_an_unknown_base_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UserError, match=r"unknown base '16\.4' \(nearest: .*16\.3"):
        subjects(["16.3", "17.0"], ["auto"], "16.4", False)


def test_cell_ids_are_names_of_folders() -> None:
    for cell in interleave(subjects(["16.3", "17.0-prebuilt-builtin"], ["auto"], "16.3", True), 3):
        assert "/" not in cell.id
        assert json.dumps(cell.id)

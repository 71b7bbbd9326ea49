"""Turns of clients that know no gate: what the conductor says of them, and what the launcher tells of them later."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from workloads import turns
from workloads.page import ERROR_BYTES, KEPT_TURNS, Control, Page, Word
from workloads.turns import Turn


@pytest.fixture
def page() -> Iterator[Page]:
    page = Page.create(2)
    yield page
    page.close()


def test_a_turn_is_there_once_it_has_begun_and_what_was_done_in_it_once_it_is_told(page: Page) -> None:
    page.set_error(1, "x" * ERROR_BYTES)
    page.set_word(1, Word.STATEMENTS, 7)
    assert turns.begun(page) == 0 and turns.told(page, -1) == 0
    assert turns.begin(page, 1000) == 0
    assert turns.turn(page, 0) == Turn(1000, 0) and turns.told(page, 0) is None
    turns.end(page, 1500)
    assert turns.begin(page, 2000) == 1
    assert [turns.turn(page, number) for number in (0, 1)] == [Turn(1000, 1500), Turn(2000, 0)]
    turns.tell(page, 0, 0)  # nothing was done in it, which is known
    assert turns.told(page, 0) == 0 and turns.told(page, 1) is None
    assert page.words[Control.TURNS] == 2 and page.word(1, Word.STATEMENTS) == 7


def test_turns_that_are_no_more_kept_are_not_taken_for_those_in_their_place(page: Page) -> None:
    for number in range(KEPT_TURNS + 1):
        turns.begin(page, number)
        turns.end(page, number + 1)
        if number < KEPT_TURNS:
            turns.tell(page, number, 10 * number)
    assert turns.told(page, KEPT_TURNS) is None and turns.told(page, 0) == 0
    turns.tell(page, KEPT_TURNS, 5)
    assert turns.told(page, KEPT_TURNS) == 5 and turns.told(page, 0) is None
    assert turns.told(page, KEPT_TURNS - 1) == 10 * (KEPT_TURNS - 1)

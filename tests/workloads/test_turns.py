"""Turns of clients that know no gate: what the conductor says of them, and what the launcher tells of them later."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from workloads import gate, turns
from workloads.page import ERROR_BYTES, KEPT_TURNS, Control, Page, Word
from workloads.process import clock
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


def test_active_time_is_known_of_moments_before_the_last_pause(page: Page) -> None:
    """A launcher that is late finds that its step was over in an earlier turn."""
    began_ns = clock()
    assert turns.active_ns(page, began_ns) == began_ns
    gate.pause(page, began_ns)
    spans = []
    for _ in range(3):
        turns.begin(page, gate.open_now(page))
        time.sleep(0.002)
        closed_ns = clock()
        gate.pause(page, closed_ns)
        turns.end(page, closed_ns)
        spans.append(turns.turn(page, turns.begun(page) - 1))
        time.sleep(0.003)
    for paused in (True, False):
        active_ns = began_ns
        for opened_ns, closed_ns in spans:
            assert turns.active_ns(page, opened_ns) == active_ns
            assert turns.active_ns(page, opened_ns + 1000) == active_ns + 1000
            active_ns += closed_ns - opened_ns
            assert turns.active_ns(page, closed_ns) == turns.active_ns(page, closed_ns + 1_000_000) == active_ns
        assert turns.active_ns(page, began_ns) == began_ns
        if paused:
            turns.begin(page, gate.open_now(page))
    assert turns.active_ns(page, turns.turn(page, 3).opened_ns + 7) == active_ns + 7

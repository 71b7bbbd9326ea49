"""Turns of clients that know no gate: the conductor's word on them, and the launcher's later report."""

from __future__ import annotations

import time

from workloads.client import client_gate, slice_times
from workloads.client.counter_page import ERROR_BYTES, KEPT_TURNS, Control, Page, Word
from workloads.client.process import clock
from workloads.client.slice_times import SliceTime


def test_a_turn_has_counts_once_they_are_reported(page: Page) -> None:
    page.set_error(1, "x" * ERROR_BYTES)
    page.set_word(1, Word.STATEMENTS, 7)
    assert slice_times.begun(page) == 0 and slice_times.reported(page, -1) == 0
    assert slice_times.begin(page, 1000) == 0
    assert slice_times.slice_time(page, 0) == SliceTime(1000, 0) and slice_times.reported(page, 0) is None
    slice_times.end(page, 1500)
    assert slice_times.begin(page, 2000) == 1
    assert [slice_times.slice_time(page, number) for number in (0, 1)] == [SliceTime(1000, 1500), SliceTime(2000, 0)]
    slice_times.tell(page, 0, 0)  # nothing was done in it, which is known
    assert slice_times.reported(page, 0) == 0 and slice_times.reported(page, 1) is None
    assert page.words[Control.TURNS] == 2 and page.word(1, Word.STATEMENTS) == 7


def test_expired_turns_are_not_confused_with_newer_ones(page: Page) -> None:
    for number in range(KEPT_TURNS + 1):
        slice_times.begin(page, number)
        slice_times.end(page, number + 1)
        if number < KEPT_TURNS:
            slice_times.tell(page, number, 10 * number)
    assert slice_times.reported(page, KEPT_TURNS) is None and slice_times.reported(page, 0) == 0
    slice_times.tell(page, KEPT_TURNS, 5)
    assert slice_times.reported(page, KEPT_TURNS) == 5 and slice_times.reported(page, 0) is None
    assert slice_times.reported(page, KEPT_TURNS - 1) == 10 * (KEPT_TURNS - 1)


def test_active_time_is_known_of_moments_before_the_last_pause(page: Page) -> None:
    """A launcher that is late finds that its step was over in an earlier turn."""
    began_ns = clock()
    assert slice_times.active_ns(page, began_ns) == began_ns
    client_gate.pause(page, began_ns)
    spans = []
    for _ in range(3):
        slice_times.begin(page, client_gate.open_now(page))
        time.sleep(0.002)
        closed_ns = clock()
        client_gate.pause(page, closed_ns)
        slice_times.end(page, closed_ns)
        spans.append(slice_times.slice_time(page, slice_times.begun(page) - 1))
        time.sleep(0.003)
    for paused in (True, False):
        active_ns = began_ns
        for opened_ns, closed_ns in spans:
            assert slice_times.active_ns(page, opened_ns) == active_ns
            assert slice_times.active_ns(page, opened_ns + 1000) == active_ns + 1000
            active_ns += closed_ns - opened_ns
            assert (
                slice_times.active_ns(page, closed_ns)
                == slice_times.active_ns(page, closed_ns + 1_000_000)
                == active_ns
            )
        assert slice_times.active_ns(page, began_ns) == began_ns
        if paused:
            slice_times.begin(page, client_gate.open_now(page))
    assert slice_times.active_ns(page, slice_times.slice_time(page, 3).opened_ns + 7) == active_ns + 7

"""Turns of a server in pgbench's log: the full one, the sampled one, and a log cut by a stop."""

from __future__ import annotations

from random import Random

import pytest

from workloads.client import slice_times
from workloads.client.counter_page import SERVICE_OFFSET, Page, Word
from workloads.pgbench.log import LogLine
from workloads.pgbench.log_counts import LogCounts, report
from workloads.pgbench.slice_log import PATIENCE_NS, LoggedTurns

MS = 1_000_000
LENGTH, PAUSE = 50 * MS, 70 * MS
BEGAN = 1000 * MS


def slices_of(page: Page, every: int = 1) -> LoggedTurns:
    return LoggedTurns(page, BEGAN, every)


def opened(number: int) -> int:
    return BEGAN + 10 * MS + number * (LENGTH + PAUSE)


def take_turns(page: Page, count: int, *, last_open: bool = False) -> None:
    """A number of turns, one after the other; the last one may still last."""
    for number in range(slice_times.begun(page), count):
        slice_times.begin(page, opened(number))
        if not last_open or number < count - 1:
            slice_times.end(page, opened(number) + LENGTH)


def counts_of(page: Page) -> list[int | None]:
    return [slice_times.reported(page, number) for number in range(slice_times.begun(page))]


def test_active_time_stands_still_between_turns(page: Page) -> None:
    slices = slices_of(page)
    assert slices.active_ns(BEGAN + 5 * MS) == 0
    take_turns(page, 3, last_open=True)
    slices.look()
    for number in range(3):
        assert slices.active_ns(opened(number) - MS) == slices.active_ns(opened(number)) == number * LENGTH
        assert slices.active_ns(opened(number) + 7 * MS) == number * LENGTH + 7 * MS
    assert slices.active_ns(opened(2) + 2 * LENGTH) == 4 * LENGTH, "it lasts"


def test_a_turn_is_reported_once_the_log_is_past_the_next(page: Page) -> None:
    slices = slices_of(page)
    take_turns(page, 3, last_open=True)
    slices.look()
    for client, at_ms, done in ((0, 5, 1), (1, 20, 1), (0, 49, 2), (1, 53, 2), (0, 121, 3), (1, 125, 3)):
        slices.add(client, opened(0) + at_ms * MS, done)
    slices.tell(opened(0) + 60 * MS)
    assert counts_of(page) == [None, None, None], "more of it may come"
    slices.tell(opened(0) + 125 * MS)
    # A transaction that ended just after the stop, as a signal takes its time, is of that turn, too.
    assert counts_of(page) == [4, None, None]
    slices.add(0, opened(2) + 1, 4)
    slices.tell(opened(2) + 1)
    assert counts_of(page) == [4, 6, None]
    slice_times.end(page, opened(2) + LENGTH)
    slices.finish()
    assert counts_of(page) == [4, 6, 7]


@pytest.mark.parametrize("every", [4, 16])
def test_a_sampled_log_reports_turns_within_its_gaps(every: int) -> None:
    random, pages = Random(3), [Page.create(2), Page.create(2)]
    both = [slices_of(pages[0]), slices_of(pages[1], every)]
    for page in pages:
        take_turns(page, 60)
    for slices in both:
        slices.look()
    last_ns = 0
    for client in (0, 1):
        active_ns, done = 0, 0
        while True:
            active_ns += round(random.expovariate(1 / 0.2e6))
            done += 1
            number = active_ns // LENGTH
            if number >= 60:
                break
            ended_ns = opened(number) + active_ns % LENGTH
            last_ns = max(last_ns, ended_ns)
            both[0].add(client, ended_ns, done)
            if random.random() < 1 / every:
                both[1].add(client, ended_ns, done)
    for slices in both:
        slices.tell(last_ns)
        slices.finish()
    full, sampled = counts_of(pages[0]), counts_of(pages[1])
    for one, other in zip(full, sampled, strict=True):
        assert one is not None and other is not None
        assert abs(one - other) < 6 * every, "an error does not grow from turn to turn"
    assert full[-1] == pytest.approx(60 * 500, rel=0.05)
    for page in pages:
        page.close()


def test_a_hanging_client_delays_others_counts_briefly(page: Page) -> None:
    slices = slices_of(page, 4)
    take_turns(page, 30)
    slices.look()
    for number in range(20):
        slices.add(0, opened(number) + 10 * MS, 100 * (number + 1))
        if number < 2:
            slices.add(1, opened(number) + 10 * MS, 100 * (number + 1))
    slices.tell(opened(19) + 10 * MS)
    assert slice_times.reported(page, 0) is not None and slice_times.reported(page, 1) is None
    slices.add(0, opened(25) + 10 * MS, 2600)
    slices.tell(opened(25) + 10 * MS)
    known = [turn for turn in counts_of(page) if turn is not None]
    assert len(known) == (25 * LENGTH + 10 * MS - PATIENCE_NS) // LENGTH
    # Of the one that hangs no more is taken to be done than the log may leave out.
    assert all(done - known[2] <= 100 * (number - 2) + 3 for number, done in enumerate(known) if number > 2)


def test_what_a_stop_cut_is_counted_without_a_time(page: Page) -> None:
    counting = LogCounts(page, 1, 0, False, 0.0, began_ns=BEGAN)
    counting.slices = slices_of(page)
    take_turns(page, 2, last_open=True)
    counting.slices.look()

    def line(number: int, from_ns: int, until_ns: int) -> LogLine:
        return LogLine(0, number, "", (until_ns - from_ns) // 1000, until_ns // 1000, 0, 0)

    counting.take(line(1, opened(0) + MS, opened(0) + 2 * MS))
    counting.take(line(2, opened(0) + 48 * MS, opened(1) + MS))
    counting.take(line(3, opened(1) + MS, opened(1) + 2 * MS))
    assert (page.word(0, Word.STATEMENTS), page.word(0, Word.DROPPED)) == (3, 1)
    assert sum(page.counts(0, SERVICE_OFFSET)) == 2 and page.word(0, Word.MAX_NS) == MS
    slice_times.end(page, opened(1) + 40 * MS)  # the newest turn's stop cuts, too
    slice_times.begin(page, opened(2))
    counting.take(line(4, opened(1) + 39 * MS, opened(2) + MS))
    assert page.word(0, Word.DROPPED) == 2
    statements = [{"script": 1, "statement": "SELECT 1", "mean_ms": 60.0}]
    assert "statements" not in report({"processed": 4, "statements": statements}, counting, 0)


def test_transactions_missing_from_a_log_are_projected(page: Page) -> None:
    counting = LogCounts(page, 16, 0, False, 0.0, began_ns=BEGAN)
    counting.slices = slices_of(page, 16)
    take_turns(page, 2, last_open=True)
    counting.slices.look()
    for number, at_ms in ((10, 10), (50, 50)):  # one in a millisecond
        counting.take(LogLine(0, number, "", 500, (opened(0) + at_ms * MS) // 1000, 0, 0))
    counting.project(opened(1))
    assert page.word(0, Word.STATEMENTS) == 50
    counting.project(opened(1) + 5 * MS)
    assert page.word(0, Word.STATEMENTS) == 55

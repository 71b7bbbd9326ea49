"""A client's counts, against those of the recorder that counts after every statement."""

from __future__ import annotations

from workloads.client.counter_page import SERVICE_OFFSET, Page, Word
from workloads.client.process import recorder
from workloads.oltp.tally import Tally

TIMES_NS = [900, 255_999, 256_000, 256_001, 1_000_000, 1_000_001, 75_000_000, 5_000_000_000, 20_000_000_000, 31_000]


def test_it_counts_as_the_recorder_does() -> None:
    page = Page.create(2)
    record, tally = recorder(page, 0, 1), Tally(page, 1)
    now_ns = 10**12
    for time_ns in TIMES_NS * 2:
        record(now_ns, now_ns + time_ns, 3, 0)
        now_ns += time_ns
        tally.times_ns.append(time_ns)
        tally.rows += 3
        if len(tally.times_ns) == 7:
            tally.sort()
            assert not tally.times_ns
    tally.write(now_ns)
    tally.sort()
    page.set_word(1, Word.IN_FLIGHT_NS, 0)
    assert page.counters(0) == page.counters(1)
    assert page.counts(0, SERVICE_OFFSET) == page.counts(1, SERVICE_OFFSET)
    assert page.word(1, Word.STATEMENTS) == 20 and page.word(1, Word.ROWS_ACTUAL) == 60


def test_what_was_written_stands_although_times_are_sorted_later() -> None:
    page = Page.create(1)
    tally = Tally(page, 0)
    tally.times_ns += [1000, 2000]
    tally.write(5000)
    assert page.word(0, Word.STATEMENTS) == 2 and page.word(0, Word.SERVICE_NS) == 0
    tally.sort()
    tally.times_ns.append(3000)
    tally.write(9000)
    assert (page.word(0, Word.STATEMENTS), page.word(0, Word.LAST_ENDED_NS)) == (3, 9000)

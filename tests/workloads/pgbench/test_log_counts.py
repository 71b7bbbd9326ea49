"""Counts of the page from lines of pgbench's log, whole or sampled."""

from __future__ import annotations

from workloads.client.counter_page import SERVICE_OFFSET, Page, Word
from workloads.pgbench.log import LogLine
from workloads.pgbench.log_counts import LogCounts, report

MS = 1_000_000
BEGAN_NS = 1000 * MS


def counting(page: Page, every: int = 1, *, limited: bool = False, late_us: float = 0.0) -> LogCounts:
    return LogCounts(page, every, 0, limited, late_us, began_ns=BEGAN_NS)


def line(
    client: int, number: int, at_ms: int, time_us: int = 500, outcome: str = "", lag: int = 0, retries: int = 0
) -> LogLine:
    return LogLine(client, number, outcome, time_us, at_ms * 1000, lag, retries)


def test_each_line_of_a_full_log_is_a_transaction(page: Page) -> None:
    counts = counting(page)
    for number in range(1, 6):
        counts.take(line(0, number, 1000 + number))
    counts.take(line(1, 1, 1002, time_us=1500))
    assert [page.word(slot, Word.STATEMENTS) for slot in (0, 1)] == [5, 1]
    assert page.word(0, Word.SERVICE_NS) == 5 * 500_000 and page.word(1, Word.MAX_NS) == 1_500_000
    assert sum(page.counts(0, SERVICE_OFFSET)) == 5


def test_transactions_before_the_step_are_not_its_own(page: Page) -> None:
    counts = counting(page)
    counts.take(line(0, 7, 999))
    counts.take(line(0, 8, 1003, time_us=5000))  # in flight at the barrier: done, but its latency says nothing
    counts.take(line(0, 9, 1004))
    assert page.word(0, Word.STATEMENTS) == 2 and counts.before == 7
    assert sum(page.counts(0, SERVICE_OFFSET)) == 1


def test_numbers_tell_how_many_a_sampled_log_leaves_out(page: Page) -> None:
    counts = counting(page, 16)
    counts.take(line(0, 10, 1010))
    counts.take(line(0, 110, 1110))
    assert page.word(0, Word.STATEMENTS) == 110
    assert sum(page.counts(0, SERVICE_OFFSET)) == 32
    counts.project(1115 * MS)  # one in a millisecond since
    assert page.word(0, Word.STATEMENTS) == 115
    counts.project(9000 * MS)  # it stood still: no more than may have been left out
    assert page.word(0, Word.STATEMENTS) == 125
    counts.settle()
    assert page.word(0, Word.STATEMENTS) == 110


def test_several_scripts_have_their_own_response_times(page: Page) -> None:
    counts = LogCounts(page, 1, 0, limited=True, late_us=0.0, began_ns=BEGAN_NS, scripts=("a.sql", "b.sql", "c.sql"))
    for number in range(1, 101):
        counts.take(line(0, number, 1000 + number, time_us=number)._replace(script=number % 2))
    first, second, third = counts.script_times()
    assert first == {"name": "a.sql", "transactions": 50, "p50_ms": 0.05, "p95_ms": 0.096, "p99_ms": 0.1}
    assert second["p95_ms"] == 0.095 and third == {"name": "c.sql", "transactions": 0}
    assert report({}, counts, 0)["scripts"] == [first, second, third]
    assert "scripts" not in report({}, counting(page), 0)


def test_a_log_that_is_thinned_still_says_how_many_there_were(page: Page) -> None:
    counts = counting(page, 16)
    counts.buffered = 9
    counts.take(line(0, 10, 1010))
    counts.thin(3)
    counts.take(line(0, 110, 1110))
    assert page.word(0, Word.STATEMENTS) == 110 and page.word(0, Word.SERVICE_NS) == (16 + 48) * 500_000
    assert sum(page.counts(0, SERVICE_OFFSET)) == 16 + 48 and (counts.every, counts.buffered) == (48, 3)


def test_what_pgbench_holds_back_is_projected_and_then_known(page: Page) -> None:
    counts = counting(page)
    counts.buffered = 20
    for number in range(1, 11):
        counts.take(line(0, number, 1000 + number))
    counts.project(1015 * MS)
    assert page.word(0, Word.STATEMENTS) == 15
    counts.project(2000 * MS)
    assert page.word(0, Word.STATEMENTS) == 30
    counts.ended_ns = 2000 * MS
    counts.take(line(0, 11, 1020))
    counts.take(line(0, 12, 2001))
    counts.settle()
    assert page.word(0, Word.STATEMENTS) == 11


def test_what_pgbench_counted_is_spread_over_its_clients(page: Page) -> None:
    counts = counting(page, 16)
    counts.take(line(0, 30, 1010))
    counts.take(line(1, 10, 1010))
    counts.correct(43)
    assert [page.word(slot, Word.STATEMENTS) for slot in (0, 1)] == [33, 10]


def test_failures_retries_and_skipped_ones_are_counted_by_kind(page: Page) -> None:
    counts = counting(page, late_us=400.0)
    counts.take(line(0, 1, 1001, outcome="serialization", retries=2))
    counts.take(line(0, 2, 1002, outcome="skipped"))
    counts.take(line(0, 3, 1003, retries=1))
    words = {word.name: page.word(0, word) for word in Word if Word.SERIALIZATION <= word <= Word.DROPPED}
    assert words == {
        "SERIALIZATION": 1, "DEADLOCK": 0, "FAILED": 0, "RETRIED": 2, "RETRIES": 3, "SKIPPED": 1, "LATE": 1,
        "DROPPED": 0,
    }  # fmt: skip
    assert page.word(0, Word.STATEMENTS) == 1


def test_under_a_rate_response_runs_from_when_it_was_due(page: Page) -> None:
    counts = counting(page, limited=True)
    counts.take(line(0, 1, 1010, time_us=5000, lag=4000))
    assert page.word(0, Word.MAX_NS) == 1 * MS and page.word(0, Word.LATE_MAX_NS) == 5 * MS


def test_a_client_that_there_is_not_is_passed_over(page: Page) -> None:
    counting(page).take(line(7, 1, 1001))
    assert page.word(0, Word.STATEMENTS) == 0


def test_transactions_too_few_to_be_in_the_log_are_counted(page: Page) -> None:
    counts = counting(page, 16)
    counts.correct(5)
    assert [page.word(slot, Word.STATEMENTS) for slot in (0, 1)] == [5, 0]


def test_what_was_due_before_the_step_is_not_late_in_it(page: Page) -> None:
    counts = counting(page, limited=True, late_us=1000.0)
    counts.take(line(0, 1, 1001, time_us=5000, lag=4000))
    counts.take(line(0, 2, 1010, time_us=5000, lag=4000))
    assert page.word(0, Word.STATEMENTS) == 2 and page.word(0, Word.LATE) == 1

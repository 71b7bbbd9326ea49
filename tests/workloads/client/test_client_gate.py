"""The gate of slices: roles in processes of their own, without a server."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from typing import cast

import pytest

from tests.support.benchcall import wait_for
from workloads.client import client_gate
from workloads.client.counter_page import Control, Page, Word
from workloads.client.process import (
    STOP_CHECK_S,
    Stopped,
    active,
    await_quota,
    await_slice,
    check_stop,
    clock,
    recorder,
    sleep_until,
    untimed,
)

READS_PER_CHECK = 12


@contextmanager
def forked(page: Page, work: Callable[[], None]) -> Iterator[int]:
    """A process that works until STOP."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except Stopped:
            os._exit(0)
        finally:
            os._exit(1)
    try:
        yield pid
    finally:
        page.words[Control.STOP] = 1
        client_gate.open_now(page)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def statements(page: Page, took_s: float) -> None:
    """A role whose statements only take their time."""
    record, words = recorder(page, 0, 1), page.words
    while True:
        words[page.slot(0) + Word.IN_FLIGHT_NS] = began_ns = clock()
        if not words[Control.GATE]:
            began_ns = await_slice(page, 0)
        if words[Control.STOP]:
            raise Stopped
        time.sleep(took_s)
        record(began_ns, clock(), 1, 0)


@pytest.fixture
def page() -> Iterator[Page]:
    page = Page.create(1)
    yield page
    page.close()


def await_quiet(page: Page) -> None:
    wait_for(lambda: client_gate.is_quiet(page), "the role to be quiet")


def test_a_shut_gate_lets_the_statement_end_and_no_other_begin(page: Page) -> None:
    with forked(page, lambda: statements(page, 0.01)):
        wait_for(lambda: page.word(0, Word.STATEMENTS) > 3, "statements")
        for _ in range(5):
            client_gate.shut(page)
            await_quiet(page)
            ended, done = page.word(0, Word.LAST_ENDED_NS), page.word(0, Word.STATEMENTS)
            time.sleep(0.05)
            assert page.word(0, Word.STATEMENTS) == done and page.word(0, Word.LAST_ENDED_NS) == ended
            client_gate.pause(page, clock())
            opened_ns = client_gate.open_now(page)
            wait_for(lambda before=done: page.word(0, Word.STATEMENTS) > before, "the role to go on")  # type: ignore[misc]
            assert page.word(0, Word.LAST_ENDED_NS) - opened_ns >= 10_000_000


def test_a_waiter_wakes_for_a_role_that_had_already_ended(page: Page) -> None:
    def end() -> None:
        client_gate.tell_change(page)
        statements(page, 0.001)

    known_ns = page.words[Control.CHANGED_NS]
    waiting = threading.Thread(target=client_gate.wait_while, args=(page, Control.CHANGED_NS, known_ns, 3600.0))
    waiting.start()
    with forked(page, end):
        waiting.join()
    client_gate.wait_while(page, Control.CHANGED_NS, known_ns, 3600.0)  # it ended since the last reading


def test_a_role_makes_the_rounds_of_its_quota_and_waits_for_more(page: Page) -> None:
    def rounds() -> None:
        record = recorder(page, 0, 1)
        for number in range(10**9):
            if number >= page.words[Control.QUOTA]:
                await_quota(page, 0, number)
            began_ns = await_slice(page, 0)
            record(began_ns, clock(), 1, 0)

    page.words[Control.QUOTA] = 0
    with forked(page, rounds):
        for quota in (1, 2, 40):
            client_gate.allow(page, quota)
            wait_for(lambda quota=quota: page.word(0, Word.QUOTA_USED) == quota, "the quota to be used")  # type: ignore[misc]
            assert page.word(0, Word.STATEMENTS) == quota and client_gate.is_quiet(page)
        time.sleep(0.1)
        assert page.word(0, Word.STATEMENTS) == 40


def test_active_time_stands_still_in_a_pause_and_lacks_it_later(page: Page) -> None:
    begun_ns = clock()
    client_gate.shut(page)
    client_gate.pause(page, begun_ns)
    time.sleep(0.05)
    assert active(page) == begun_ns
    opened_ns = client_gate.open_now(page)
    paused_ns = page.words[Control.PAUSED_NS]
    assert paused_ns == opened_ns - begun_ns >= 50_000_000
    assert client_gate.active_ns(page, opened_ns + 7) == begun_ns + 7


class Written:
    """The words of a page; each write is kept as (index, value), and done besides."""

    def __init__(self, page: Page) -> None:
        self.page, self.stores = page, list[tuple[int, int]]()

    @property
    def words(self) -> Written:
        return self

    def address(self, index: int) -> int:
        return self.page.address(index)

    def __getitem__(self, index: int) -> int:
        return self.page.words[index]

    def __setitem__(self, index: int, value: int) -> None:
        self.stores.append((index, value))
        self.page.words[index] = value


class Changing:
    """The words of a page to a reader, before whose reads so many of the stores of a writer come: by read."""

    def __init__(self, values: dict[int, int], stores: Sequence[tuple[int, int]], before: Sequence[int]) -> None:
        self.values, self.stores, self.before, self.reads = dict(values), list(stores), before, 0

    @property
    def words(self) -> Changing:
        return self

    def __getitem__(self, index: int) -> int:
        due = self.before[self.reads] if self.reads < len(self.before) else len(self.stores)
        self.reads += 1
        for word, value in self.stores[:due]:
            self.values[word] = value
        self.stores = self.stores[due:]
        return self.values[index]


def test_active_time_is_right_between_any_two_words_of_a_pause(page: Page) -> None:
    """The same for every way in which a reader's reads and the stores that begin or end a pause can interleave."""
    page.words[Control.PAUSED_NS] = 1000

    def stores(change: Callable[[Page], object]) -> tuple[dict[int, int], list[tuple[int, int]]]:
        before = {int(word): page.words[word] for word in Control}
        written = Written(page)
        change(cast(Page, written))
        return before, written.stores

    begun_ns = clock()
    beginning = stores(lambda written: client_gate.pause(written, begun_ns))
    opened_ns = 0

    def end(written: Page) -> None:
        nonlocal opened_ns
        opened_ns = client_gate.open_now(written)

    ending = stores(end)
    assert opened_ns > begun_ns
    for (values, writes), t_ns in ((beginning, begun_ns), (ending, opened_ns)):
        for before in product(range(len(writes) + 1), repeat=6):
            changing = Changing(values, writes, before)
            assert client_gate.active_ns(cast(Page, changing), t_ns) == begun_ns - 1000, before


def test_a_sleep_until_a_time_lasts_longer_by_the_pause(page: Page) -> None:
    def sleep() -> None:
        sleep_until(page, clock() + 1_000_000_000)
        page.set_word(0, Word.ENDED_NS, clock())
        statements(page, 0.01)

    begun_ns = clock()
    with forked(page, sleep):
        time.sleep(0.05)
        client_gate.shut(page)
        client_gate.pause(page, clock())
        time.sleep(0.4)
        client_gate.open_now(page)
        wait_for(lambda: page.word(0, Word.ENDED_NS) > 0, "the sleep to end")
    assert page.word(0, Word.ENDED_NS) - begun_ns >= 1_400_000_000


class Counted(Written):
    """The words of a page, whose reads are counted."""

    def __init__(self, page: Page) -> None:
        super().__init__(page)
        self.reads = 0

    def __getitem__(self, index: int) -> int:
        self.reads += 1
        return super().__getitem__(index)

    def slot(self, slot: int) -> int:
        return self.page.slot(slot)


@pytest.mark.parametrize(
    "wait",
    [
        lambda page: await_slice(page, 0),
        lambda page: await_quota(page, 0, 0),
        lambda page: sleep_until(page, active(page) + 20_000),  # which does not come during a pause
    ],
    ids=["a slice", "a quota", "a time that is near"],
)
def test_who_waits_in_a_pause_sleeps_and_sees_stop(page: Page, wait: Callable[[Page], object]) -> None:
    client_gate.shut(page)
    client_gate.pause(page, clock())
    page.words[Control.QUOTA] = 0
    counted, began_s = Counted(page), time.monotonic()
    with pytest.raises(Stopped), stopping_in(page, 0.5):
        wait(cast(Page, counted))
    checks = (time.monotonic() - began_s) / STOP_CHECK_S + 2
    assert 0 < counted.reads < READS_PER_CHECK * checks


@contextmanager
def stopping_in(page: Page, seconds: float) -> Iterator[None]:
    def stop() -> None:
        page.words[Control.STOP] = 1

    timer = threading.Timer(seconds, stop)
    timer.start()
    try:
        yield
    finally:
        timer.join()


def test_statements_outside_the_count_are_waited_for_and_wait(page: Page) -> None:
    def lookups() -> None:
        while True:
            with untimed(page, 0):
                check_stop(page)
                page.words[page.slot(0) + Word.MAX_LOOKUPS] += 1
                time.sleep(0.02)

    with forked(page, lookups):
        wait_for(lambda: page.word(0, Word.MAX_LOOKUPS) > 2, "lookups")
        client_gate.shut(page)
        await_quiet(page)
        done = page.word(0, Word.MAX_LOOKUPS)
        time.sleep(0.1)
        assert page.word(0, Word.MAX_LOOKUPS) == done and page.word(0, Word.IN_FLIGHT_NS) == 0


def test_a_sliced_step_is_known_before_its_first_slice() -> None:
    """A role that begins late, or early, sees either an open gate or a shut one."""
    page = Page.create(1)
    assert not client_gate.is_sliced(page)
    client_gate.shut(page)
    assert client_gate.is_sliced(page)
    client_gate.pause(page, clock() - 1)
    client_gate.open_now(page)
    assert client_gate.is_sliced(page)

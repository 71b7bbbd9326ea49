"""The maker, against a model with the reference's two real queues."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from workloads.client.limiter import SECOND_NS, Limiter
from workloads.insert.maker import QUEUE_ROUNDS, Maker, Round


def drain(maker: Maker, inserts: int, deletes: int, now_ns: int = 0) -> list[Round]:
    rounds = []
    while (fresh := maker.make(inserts, deletes, now_ns)) is not None:
        rounds.append(fresh)
    return rounds


class QueuedMaker:
    """The reference: puts insert r, then delete r, each blocking on a queue of capacity 8."""

    def __init__(self, rounds: int) -> None:
        self.rounds, self.put = rounds, 0
        self.inserts: deque[int] = deque()
        self.deletes: deque[int] = deque()

    def run(self) -> None:
        while self.put < 2 * self.rounds:
            queue = self.deletes if self.put % 2 else self.inserts
            if len(queue) == QUEUE_ROUNDS:
                return
            queue.append(self.put // 2)
            self.put += 1


@given(st.integers(1, 60), st.lists(st.booleans(), max_size=200))
def test_streams_may_start_what_the_references_queues_hold(rounds: int, steps: list[bool]) -> None:
    maker, model = Maker(rounds, 50, None, deletes=True), QueuedMaker(rounds)
    inserts = deletes = 0
    drain(maker, 0, 0)
    model.run()
    for is_insert in steps:
        may_insert = inserts < rounds and inserts <= maker.rounds_made
        may_delete = deletes < maker.rounds_made
        assert may_insert == bool(model.inserts)
        assert may_delete == bool(model.deletes)
        if is_insert and may_insert:
            model.inserts.popleft()
            inserts += 1
        if not is_insert and may_delete:
            model.deletes.popleft()
            deletes += 1
        drain(maker, inserts, deletes)
        model.run()
        assert inserts - deletes <= QUEUE_ROUNDS + 1
        assert deletes - inserts <= QUEUE_ROUNDS


@given(st.integers(1, 100), st.integers(1, 30), st.integers(0, 10**12))
def test_low_key_advances_by_the_rows_of_a_round(rows: int, rounds: int, first: int) -> None:
    maker = Maker(rounds, rows, None, deletes=True, first_low=first)
    all_rounds = [fresh for n in range(rounds) for fresh in drain(maker, n, n)]
    all_rounds += drain(maker, rounds, rounds)
    assert [fresh.low_key for fresh in all_rounds] == [first + n * rows for n in range(rounds)]


def run_with_lookups(rounds: int, resync: int, rows: int, deletes_behind: int) -> tuple[list[Round], list[int]]:
    """Rounds made, and the rounds that a lookup was made for, when the deleter lags by so many statements."""
    maker = Maker(rounds, rows, None, deletes=True, first_low=None, resync_rounds=resync)
    all_rounds: list[Round] = []
    lookups: list[int] = []
    inserts = deletes = 0
    while len(all_rounds) < rounds:
        fresh = drain(maker, inserts, deletes)
        all_rounds += fresh
        if maker.lookup_due:
            lookups.append(maker.rounds_made)
            maker.looked_up(max(0, deletes - 1) * rows)  # the delete statement in flight is not seen
        elif not fresh:
            if inserts < rounds and inserts <= maker.rounds_made:
                inserts += 1
            stuck = inserts in (rounds, maker.rounds_made + 1)
            if stuck or deletes < maker.rounds_made - deletes_behind:
                deletes += 1
    return all_rounds, lookups


def test_low_key_is_looked_up_in_round_0_and_every_1001_rounds() -> None:
    _, lookups = run_with_lookups(3500, 1000, 50, 0)
    assert lookups == [0, 1001, 2002, 3003]


def test_lookup_steps_back_by_nine_with_a_slower_deleter() -> None:
    all_rounds, lookups = run_with_lookups(40, 20, 5, QUEUE_ROUNDS)
    assert lookups == [0, 21]
    assert all_rounds[21].low_key == all_rounds[20].low_key + 5 - 9 * 5
    assert all_rounds[22].low_key == all_rounds[21].low_key + 5


@given(st.integers(1, 2000), st.integers(1, 100))
def test_limited_rounds_are_made_ahead_but_not_before_their_time(rate: int, rows: int) -> None:
    maker = Maker(50, rows, Limiter(rate, rows, 0), deletes=True, start_ns=0)
    per_s = max(1, -(-rate // rows))
    ahead = [fresh for n in range(51) for fresh in drain(maker, n, n)]
    assert [fresh.go_ns for fresh in ahead] == [-(-n // per_s) * SECOND_NS for n in range(50)]


def test_lookup_waits_for_the_time_of_its_round() -> None:
    maker = Maker(10, 50, Limiter(100, 50, 0), deletes=True, first_low=0, resync_rounds=2, start_ns=0)
    assert len(drain(maker, 0, 0)) == 3
    assert not maker.lookup_due
    assert maker.go_ns == 2 * SECOND_NS
    assert drain(maker, 3, 3, 2 * SECOND_NS) == []
    assert maker.lookup_due

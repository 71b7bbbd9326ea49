"""What is called a stall of a server that is only watched, and what is not."""

from __future__ import annotations

from collections import Counter

from engine.observe.causes import causes
from engine.observe.server_stalls import SAMPLED, Found, ServerStalls, samples_of
from engine.plan.observation import RULE
from engine.postgres.activity import Doing
from engine.postgres.server_activity import LockWaiter, RoleActivity, Seen

S = 1_000_000_000


def doing(oldest_s: float = 0.01, waits: dict[str, int] | None = None, waiters: tuple[LockWaiter, ...] = ()) -> Seen:
    events = Counter(waits or {"": 4})
    role = RoleActivity("shop", 10, sum(events.values()), 0, 0, round(oldest_s * S), events)
    return Seen((role,), waiters)


def rated(stalls: ServerStalls, rates: list[int], seen: Seen, from_s: int = 0) -> list[Found]:
    found = []
    for second, rate in enumerate(rates, from_s + 1):
        stalls.look(second * S, S, seen)
        found += stalls.tick(second * S, S, rate, seen)
    return found


def test_a_drop_is_a_stall_while_a_statement_is_stuck_and_names_what_is_waited_for() -> None:
    stalls = ServerStalls(RULE, 0)
    assert rated(stalls, [1000] * 20, doing()) == []
    stuck = doing(oldest_s=3.5, waits={"IO:DataFileRead": 9, "": 1})
    began, *more = rated(stalls, [10] * 5, stuck, from_s=20)
    assert (began.change.kind, began.change.stall.role, began.lock) == ("began", "server", None)
    assert began.change.stall.started_ns == 20 * S
    cause = causes(stalls.evidence(more[-1], stuck, (), 25 * S))[0]
    assert cause.name == "io" and "DataFileRead" in cause.text


def test_less_is_no_stall_where_nothing_is_stuck_and_is_the_new_level() -> None:
    stalls = ServerStalls(RULE, 0)
    rated(stalls, [1000] * 20, doing())
    assert rated(stalls, [10] * 60, doing(), from_s=20) == []
    assert rated(stalls, [10] * 10, doing(oldest_s=9.0), from_s=80) == []  # a slow report at the new level


def test_a_role_stalls_when_it_has_waited_for_a_lock_for_long_and_its_cause_says_who_holds_it() -> None:
    stalls = ServerStalls(RULE, 0)
    waiters = [LockWaiter(42, "shop", "Lock:transactionid", at * S // 2) for at in range(1, 7)]
    found = [stalls.look(at * S // 2, S // 2, doing(waiters=(one,))) for at, one in enumerate(waiters, 1)]
    assert [len(each) for each in found] == [0, 0, 0, 0, 1, 1]
    (began,) = found[4]
    assert began.change.kind == "began" and began.change.stall.started_ns == S // 2 and began.lock is not None
    began.lock.holders = ((7, Doing("report", "report, user joe, idle in transaction for 65.0 s")),)
    cause = causes(stalls.evidence(began, doing(), (), 3 * S))[0]
    assert cause.name == "lock" and "held by pid 7 (report, user joe, idle in transaction" in cause.text
    (ended,) = stalls.look(4 * S, S // 2, doing())
    assert (ended.change.kind, ended.change.stall.ended_ns, ended.change.stall.duration_s) == ("ended", 4 * S, 3.5)


def test_short_lock_waits_of_many_are_no_stall() -> None:
    stalls = ServerStalls(RULE, 0)
    for at in range(1, 40):
        waiter = LockWaiter(at, "shop", "Lock:tuple", S)
        assert stalls.look(at * S // 2, S // 2, doing(waiters=(waiter,))) == []


def test_short_lock_waits_of_one_connection_are_no_stall_though_every_look_shows_one() -> None:
    stalls = ServerStalls(RULE, 0)
    for at in range(1, 40):
        waiter = LockWaiter(42, "shop", "Lock:tuple", S // 100)  # of a statement that began just now
        assert stalls.look(at * S // 2, S // 2, doing(waiters=(waiter,))) == []


def test_what_lasts_ends_when_nobody_looks_any_more() -> None:
    stalls, waiter = ServerStalls(RULE, 0), LockWaiter(42, "shop", "Lock:relation", 9 * S)
    for at in (1, 3, 5):
        stalls.look(at * S, 2 * S, doing(waiters=(waiter,)))
    (ended,) = stalls.finish(6 * S)
    assert (ended.change.kind, ended.change.stall.ended_ns) == ("ended", 6 * S)
    assert stalls.finish(7 * S) == []


def test_waits_count_by_their_share_of_the_active_connections() -> None:
    many = RoleActivity("server", 100, 100, waits=Counter({"": 50, "LWLock:WALWrite": 49, "Lock:tuple": 1}))
    samples = Counter(sample.wait.event for sample in samples_of(S, S, many) if sample.wait is not None)
    assert samples == {"": SAMPLED // 2, "LWLock:WALWrite": SAMPLED // 2}
    assert samples_of(S, S, RoleActivity("server", 5)) == []

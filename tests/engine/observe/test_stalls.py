"""The stall detector on made-up and recorded-like series: stalls, when they begin, and near misses."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.record import converted
from engine.observe.stalls import SECOND_NS, Detector, Stall, StallChange, StallRule
from tests.support.planted_stalls import START_NS, Kind, planted

RULE = StallRule()


@dataclass
class Feed:
    """One connection's second as the engine would hand it over."""

    rows: int
    statements: int = 100
    in_flight_ns: int = 0
    dt_s: float = 1.0
    p50_us: int | None = 500
    p99_us: int | None = 2_000


def run(feeds: Iterable[Feed], rule: StallRule = RULE, role: str = "insert") -> tuple[list[StallChange], list[Stall]]:
    """All changes, and the stalls that ended, of a series of seconds from the step's start on."""
    detector = Detector(rule, role, 1, START_NS)
    changes: list[StallChange] = []
    t_ns = START_NS
    for feed in feeds:
        t_ns += int(feed.dt_s * SECOND_NS)
        changes += detector.tick(
            t_ns,
            int(feed.dt_s * SECOND_NS),
            rows=feed.rows,
            statements=feed.statements,
            in_flight_ns=feed.in_flight_ns,
            quantile_us={0.5: feed.p50_us, 0.99: feed.p99_us}.get,
        )
    changes += detector.finish(t_ns)
    return changes, [change.stall for change in changes if change.kind == "ended"]


def simulate(
    total_s: float, gaps: list[tuple[float, float]], statement_s: float = 0.01, looks: bool = True
) -> tuple[list[StallChange], list[Stall]]:
    """A connection that runs statements back to back, 100 rows each, but for gaps in which one is stuck."""
    ends_s: list[float] = []
    now_s = 0.0
    pending = sorted(gaps)
    sends_s: list[float] = []
    while now_s < total_s:
        sends_s.append(now_s)
        if pending and now_s + statement_s > pending[0][0]:
            start_s, length_s = pending.pop(0)
            now_s = start_s + length_s
        else:
            now_s += statement_s
        ends_s.append(now_s)
    detector = Detector(RULE, "delete", 1, START_NS)
    changes: list[StallChange] = []
    done = 0
    for quarter in range(1, int(total_s * 4) + 1):
        t_s = quarter / 4
        t_ns = START_NS + int(t_s * SECOND_NS)
        finished = done
        while finished < len(ends_s) and ends_s[finished] <= t_s:
            finished += 1
        in_flight_ns = int((t_s - sends_s[finished]) * SECOND_NS) if finished < len(sends_s) else 0
        if quarter % 4:
            changes += detector.look(t_ns, max(0, in_flight_ns)) if looks else ()
            continue
        p_us = int(statement_s * 1e6)
        changes += detector.tick(
            t_ns,
            SECOND_NS,
            rows=100 * (finished - done),
            statements=finished - done,
            in_flight_ns=max(0, in_flight_ns),
            quantile_us=dict.fromkeys((0.5, 0.99), p_us).get,
        )
        done = finished
    changes += detector.finish(START_NS + int(total_s * SECOND_NS))
    return changes, [change.stall for change in changes if change.kind == "ended"]


def since_start(t_ns: int | None) -> float:
    assert t_ns is not None
    return (t_ns - START_NS) / SECOND_NS


@given(st.integers(0, 100_000), st.integers(1, 300), st.sampled_from([0, 50_000_000, 999_000_000]))
def test_a_constant_rate_never_stalls(rows: int, seconds: int, in_flight_ns: int) -> None:
    changes, _ = run(Feed(rows, in_flight_ns=in_flight_ns) for _ in range(seconds))
    assert changes == []


@given(st.lists(st.integers(700, 1300), max_size=200))
def test_ordinary_noise_never_stalls(rates: list[int]) -> None:
    assert run(Feed(rate) for rate in rates)[0] == []


@settings(deadline=None)
@given(st.floats(5.0, 60.0), st.floats(3.0, 50.0), st.booleans())
def test_any_gap_of_three_seconds_is_one_stall_with_right_ends(start_s: float, length_s: float, looks: bool) -> None:
    changes, stalls = simulate(start_s + length_s + 6, [(start_s, length_s)], looks=looks)
    (stall,) = stalls
    assert [change.kind for change in changes].count("began") == 1
    assert since_start(stall.started_ns) == pytest.approx(start_s, abs=1.0)
    assert since_start(stall.ended_ns) == pytest.approx(start_s + length_s, abs=1.0)
    assert stall.depth == pytest.approx(0, abs=0.3)


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.builds(
        Kind,
        st.sampled_from([0.002, 0.005, 0.03]),  # as in queries, in write steps, in a load
        st.sampled_from([0, 2, 10, 20]),  # unlimited, and the inserts and deletes of qr and qp
        st.sampled_from([1, 2, 3]),
    ),
    st.floats(0.0, 9.0),
    st.floats(0.0, 1.0),
)
def test_three_seconds_in_any_kind_of_step_are_three_to_four(kind: Kind, at_s: float, phase: float) -> None:
    at_s += 8 * kind.servers  # ten statements at least, of which there is a percentile
    (stall,) = planted(kind, at_s, 3.0, phase)
    assert 3.0 <= stall.duration_s <= 4.0
    assert planted(kind, at_s, kind.statement_s, phase) == []


@settings(deadline=None)
@given(
    st.builds(Kind, st.floats(0.15, 40.0), st.just(0), st.sampled_from([1, 2, 3, 8])),
    st.floats(0.0, 30.0),
    st.floats(0.0, 1.0),
)
def test_three_blocked_seconds_make_a_stall_of_three_to_four(kind: Kind, at_s: float, phase: float) -> None:
    """A stall of an index build: it may be the first statement of the step, and the only one."""
    (stall,) = planted(kind, at_s, 3.0, phase, blocked=True)
    assert 3.0 <= stall.duration_s <= 4.0
    assert planted(kind, at_s, kind.statement_s, phase) == [], "without the block nothing is out of the ordinary"
    assert planted(kind, at_s, 0.7, phase, blocked=True) == [], "as in a short wait for a lock"


@settings(deadline=None)
@given(st.floats(6.0, 30.0), st.floats(3.0, 20.0), st.floats(6.0, 30.0), st.floats(3.0, 20.0))
def test_two_gaps_apart_are_two_stalls_in_order(first: float, length: float, apart: float, second: float) -> None:
    _, stalls = simulate(first + length + apart + second + 6, [(first, length), (first + length + apart, second)])
    assert len(stalls) == 2
    assert stalls[0].ended_ns is not None
    assert stalls[0].ended_ns <= stalls[1].started_ns


def test_a_stall_is_seen_while_the_statement_is_still_running() -> None:
    detector = Detector(RULE, "insert", 1, START_NS)
    t_ns = START_NS
    for _ in range(10):
        t_ns += SECOND_NS
        assert detector.tick(t_ns, SECOND_NS, rows=1000, statements=10, quantile_us={0.5: 100, 0.99: 1000}.get) == ()
    assert detector.look(t_ns + 900_000_000, 900_000_000) == ()
    (change,) = detector.look(t_ns + 1_100_000_000, 1_100_000_000)
    assert (change.kind, change.stall.trigger, change.stall.ended_ns) == ("began", "in_flight", None)
    assert change.stall.started_ns == t_ns
    assert change.stall.missed_rows == 1100
    assert detector.stall == change.stall


def test_the_in_flight_limit_scales_with_the_percentile() -> None:
    detector = Detector(RULE, "insert", 1, START_NS)
    for second in range(1, 11):
        detector.tick(
            START_NS + second * SECOND_NS,
            SECOND_NS,
            rows=100,
            statements=9,
            quantile_us={0.5: 90_000, 0.99: 100_000}.get,
        )
    t_ns = START_NS + 10 * SECOND_NS
    assert detector.look(t_ns + 1_900_000_000, 1_900_000_000) == ()
    assert detector.look(t_ns + 2_100_000_000, 2_100_000_000)[0].kind == "began"


def test_depth_missed_rows_and_times_of_a_partial_stall() -> None:
    changes, (stall,) = run([Feed(1000)] * 10 + [Feed(200), Feed(100), Feed(250), Feed(0)] + [Feed(1000)] * 5)
    assert [change.kind for change in changes] == ["began", "went_on", "went_on", "went_on", "ended"]
    assert (since_start(stall.started_ns), since_start(stall.ended_ns)) == (10, 14)
    assert stall.trigger == "rate"
    assert stall.duration_s == 4
    assert stall.depth == 0
    assert stall.missed_rows == 4000 - 550
    assert {change.stall.started_ns for change in changes} == {stall.started_ns}
    # In the first fast second after it the stall is ending, and its length stands still.
    assert [change.stall.ending_ns for change in changes] == [None, None, None, stall.ended_ns, None]
    assert [change.stall.duration_s for change in changes] == [2, 3, 4, 4, 4]
    # Causes are shares of the stall, not of the time after it, which may be long in being known.
    ends = [change.stall.until_ns(START_NS + 99 * SECOND_NS) for change in changes]
    assert list(map(since_start, ends)) == [99, 99, 99, 14, 14]


def test_a_stall_ends_when_work_resumes_more_slowly() -> None:
    """After a lock of four seconds two thirds of the rate before: the stall is of four seconds, not of twenty."""
    _, stalls = run([Feed(1000)] * 10 + [Feed(0)] * 4 + [Feed(670)] * 16 + [Feed(1000)] * 5)
    assert [(since_start(s.started_ns), s.duration_s) for s in stalls] == [(10, 4)]
    assert stalls[0].missed_rows == 4000
    _, stalls = run([Feed(1000)] * 10 + [Feed(0)] * 4 + [Feed(400)] * 4 + [Feed(0)] * 2 + [Feed(1000)] * 5)
    assert [(since_start(s.started_ns), s.duration_s) for s in stalls] == [(10, 10)], "four seconds are too few"


def test_one_slow_second_is_no_stall() -> None:
    assert run([Feed(1000)] * 10 + [Feed(0)] + [Feed(1000)] * 5)[0] == []


def test_a_short_recovery_does_not_end_a_stall() -> None:
    _, stalls = run([Feed(1000)] * 10 + [Feed(0)] * 3 + [Feed(1000)] + [Feed(0)] * 3 + [Feed(1000)] * 5)
    assert [(since_start(s.started_ns), since_start(s.ended_ns)) for s in stalls] == [(10, 17)]
    assert stalls[0].missed_rows == 6000
    changes, _ = run([Feed(1000)] * 10 + [Feed(0)] * 3 + [Feed(1000)] + [Feed(0)] * 2)
    assert [change.stall.ending_ns is not None for change in changes][-4:] == [True, False, False, False]


def test_a_stall_that_outlasts_warm_up_is_reported() -> None:
    assert run([Feed(1000), Feed(1000), Feed(0), Feed(0), Feed(1000), *[Feed(1000)] * 10])[0] == []
    _, stalls = run([Feed(1000)] * 3 + [Feed(0)] * 5 + [Feed(1000)] * 4)
    assert [since_start(s.started_ns) for s in stalls] == [3]


def test_a_long_stall_is_not_its_own_yardstick() -> None:
    """A trailing median that took in the stalled seconds would call a crawl at 1% the normal state after 30 s."""
    _, stalls = run([Feed(1000)] * 30 + [Feed(10)] * 200 + [Feed(1000)] * 5)
    assert [(since_start(s.started_ns), s.duration_s) for s in stalls] == [(30, 200)]


def test_a_lower_level_that_holds_is_new_after_one_window() -> None:
    changes, stalls = run([Feed(1000)] * 30 + [Feed(200)] * 300)
    assert [s.duration_s for s in stalls] == [60]
    assert changes[-1].kind == "ended"
    _, stalls = run([Feed(1000)] * 30 + [Feed(200)] * 100 + [Feed(0)] * 4 + [Feed(200)] * 10)
    assert [(since_start(s.started_ns), s.duration_s) for s in stalls] == [(30, 60), (130, 4)]


def test_a_stall_that_is_still_on_at_the_end_is_closed() -> None:
    changes, (stall,) = run([Feed(1000)] * 10 + [Feed(0, in_flight_ns=s * SECOND_NS) for s in range(1, 8)])
    assert changes[-1].kind == "ended"
    assert since_start(stall.ended_ns) == 17
    assert stall.max_in_flight_ns == 7 * SECOND_NS
    assert stall.duration_s == 7


def test_the_end_of_a_step_is_no_stall() -> None:
    detector = Detector(RULE, "insert", 1, START_NS)
    for second in range(1, 11):
        detector.tick(
            START_NS + second * SECOND_NS, SECOND_NS, rows=1000, statements=10, quantile_us={0.5: 100, 0.99: 1000}.get
        )
    assert detector.finish(START_NS + 10 * SECOND_NS) == ()
    for second in range(11, 20):
        assert (
            detector.tick(START_NS + second * SECOND_NS, SECOND_NS, rows=0, statements=0, quantile_us={0.99: 1000}.get)
            == ()
        )
    assert detector.look(START_NS + 20 * SECOND_NS, 9 * SECOND_NS) == ()
    assert detector.finish(START_NS + 20 * SECOND_NS) == ()


@settings(deadline=None)
@given(st.floats(1.2, 40.0), st.integers(30, 200))
def test_a_role_whose_statements_outlast_the_second_never_stalls(statement_s: float, total_s: int) -> None:
    """The bulk-copy case: most seconds see no statement end at all."""
    assert simulate(total_s, [], statement_s=statement_s)[0] == []


def test_one_statement_that_is_the_whole_step_never_stalls() -> None:
    """An index build: nothing has ever finished, so there is nothing to be slower than."""
    feeds = [Feed(0, statements=0, in_flight_ns=s * SECOND_NS, p50_us=None, p99_us=None) for s in range(1, 600)]
    assert run(feeds)[0] == []


def test_a_stuck_statement_of_a_slow_role_is_a_stall() -> None:
    """Statements of three seconds: only twenty times that is out of the ordinary."""
    _, stalls = simulate(400, [(60.0, 90.0)], statement_s=3.0)
    assert [(since_start(s.started_ns), s.trigger) for s in stalls] == [(60.0, "in_flight")]
    assert since_start(stalls[0].ended_ns) == pytest.approx(150, abs=1)


@given(st.lists(st.floats(-0.04, 0.04), min_size=30, max_size=120), st.sampled_from([1, 2, 20]))
def test_the_bursts_of_the_limiter_never_stall(jitters: list[float], statements: int) -> None:
    """All statements of a second are sent at its start: on the border of two ticks a tick sees none or twice."""
    bursts_s = [second + jitter for second, jitter in enumerate(jitters)]
    feeds = []
    for second in range(len(jitters)):
        count = sum(second <= burst_s < second + 1 for burst_s in bursts_s) * statements
        feeds.append(Feed(50 * count, statements=count))
    assert run(feeds, role="insert")[0] == []


def test_waiting_for_the_partner_is_a_stall_too() -> None:
    _, (stall,) = run([Feed(1000)] * 10 + [Feed(0, statements=0, in_flight_ns=0)] * 5 + [Feed(1000)] * 3)
    assert (stall.trigger, stall.duration_s, stall.max_in_flight_ns) == ("rate", 5, 0)


series = st.lists(
    st.builds(
        Feed,
        rows=st.sampled_from([0, 10, 200, 900, 1000, 1100]),
        statements=st.integers(0, 50),
        in_flight_ns=st.sampled_from([0, 1_000_000, 2 * SECOND_NS, 9 * SECOND_NS]),
        dt_s=st.sampled_from([0.0, 0.5, 1.0, 1.0, 1.0, 3.0]),
        p50_us=st.sampled_from([None, 500, 400_000, 3_000_000]),
        p99_us=st.sampled_from([None, 2_000, 900_000]),
    ),
    max_size=120,
)


@given(series)
def test_stalls_are_well_formed_whatever_comes(feeds: list[Feed]) -> None:
    changes, stalls = run(feeds)
    assert [change.kind for change in changes if change.kind != "went_on"] == ["began", "ended"] * len(stalls)
    last_ns = START_NS
    for stall in stalls:
        assert stall.ended_ns is not None
        assert last_ns <= stall.started_ns <= stall.ended_ns
        assert 0 <= stall.depth <= 1
        assert stall.missed_rows >= 0
        assert stall.duration_s == pytest.approx((stall.ended_ns - stall.started_ns) / SECOND_NS)
        last_ns = stall.ended_ns


@pytest.mark.slow
@given(series.filter(bool), st.integers(0, 119))
def test_a_second_that_is_reported_twice_counts_once(feeds: list[Feed], at: int) -> None:
    at %= len(feeds)
    t_ns = START_NS
    plain, doubled = (Detector(RULE, "insert", 1, START_NS) for _ in range(2))
    seen: tuple[list[StallChange], list[StallChange]] = ([], [])
    for number, feed in enumerate(feeds):
        dt_ns = int(feed.dt_s * SECOND_NS)
        t_ns += dt_ns
        for detector, changes in zip((plain, doubled), seen, strict=True):
            changes += detector.tick(t_ns, dt_ns, rows=feed.rows, statements=0, quantile_us={0.5: feed.p50_us}.get)
        if number == at and dt_ns:
            assert doubled.tick(t_ns, dt_ns, rows=feed.rows, statements=0, quantile_us={0.5: feed.p50_us}.get) == ()
    assert seen[0] == seen[1]


def test_a_tick_without_length_hands_its_rows_to_the_next() -> None:
    feeds = [Feed(1000)] * 10 + [Feed(900, dt_s=0.0), Feed(100)] * 10
    assert run(feeds)[0] == []


def test_rule_and_stall_survive_json() -> None:
    rule = StallRule(warm_up_s=2.5)
    assert converted({"window_s": 60.0, "warm_up_s": 2.5, "later": 1}, StallRule, "") == rule
    _, (stall,) = run([Feed(1000)] * 10 + [Feed(0)] * 5)
    record = json.loads(json.dumps(stall.record()))
    assert Stall(**{**record, "causes": tuple(record["causes"])}) == stall

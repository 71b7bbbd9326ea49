"""A step in memory is what the journal says of it, also when it came piece by piece."""

from __future__ import annotations

from operator import mul
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.journal.reader import JournalReader
from engine.journal.rows import RoleSecond, StepRow
from engine.view.player import Player
from engine.view.step_series import SECOND_NS, Series, StepSeries
from tests.support.journal import START_NS, Growing, growing
from workloads.client import histogram


def steps(reader: JournalReader) -> list[StepRow]:
    return [step for attempt in reader.attempts() for step in reader.steps(attempt.id)]


def test_it_holds_what_the_journal_says(recording: Path) -> None:
    with JournalReader(recording) as reader:
        for step in steps(reader):
            series = StepSeries(reader, step)
            series.catch_up()
            for kind in {role.kind for role in series.roles.values()}:
                rows = [
                    second
                    for role in reader.roles(step.id)
                    if role.kind == kind
                    for second in reader.role_seconds(role.id)
                ]
                if not rows:
                    assert kind not in series.rates
                    continue
                counted = sum(row.statements if kind == "query" else row.rows for row in rows)
                assert series.done(kind, series.newest_ns) == counted
                assert series.newest_ns == max(row.t_ns for row in rows)
                assert series.done(kind, step.started_ns) == 0
                ends = sorted({row.t_ns for row in rows})
                if len(ends) > 1 and max(row.dt_ns for row in rows if row.t_ns == ends[-1]) < SECOND_NS / 2:
                    sliver = ends.pop()  # what the step's end left over is of the second before
                    rows = [row._replace(t_ns=ends[-1]) if row.t_ns == sliver else row for row in rows]
                    series.rates[kind].until[-1] = series.slowest[kind].until[-1] = ends[-1]
                assert series.rates[kind].until == ends
                for until, length, value in zip(ends, series.rates[kind].length, series.rates[kind].value, strict=True):
                    tick = [row for row in rows if row.t_ns == until]
                    done = sum(row.statements if kind == "query" else row.rows for row in tick)
                    assert value * length / SECOND_NS == pytest.approx(done)
                    assert series.slowest[kind].at(until) == max(row.max_us for row in tick) / 1000
            assert series.events == reader.events(step.id)


def rest(live: Growing, insert: int) -> None:
    """The last fraction of the step: 7.5 ms."""
    live.hand.at_ns += 7_500_000
    counted = (insert // 50, insert, 0, 900, histogram.pack({histogram.index(900): 1}))
    live.journal.add_role_seconds([RoleSecond(live.roles["insert"], live.hand.at_ns, 7_500_000, *counted)])
    live.journal.commit()


def test_a_steps_last_fraction_counts_to_the_second_before(tmp_path: Path) -> None:
    with growing(tmp_path) as live, JournalReader(live.run) as reader:
        grown = StepSeries(reader, reader.steps(live.attempt)[0])
        for _ in range(3):
            live.second(insert=1000)
            grown.catch_up()
        rest(live, 250)
        grown.catch_up()
        assert grown.rates["insert"].value == [1000, 1000, 1000], "either a second follows, or the step has ended"
        live.end_step()
        grown.catch_up()
        grown.catch_up()
        at_once = StepSeries(reader, reader.steps(live.attempt)[0])
        at_once.catch_up()
        for series in (grown, at_once):
            assert series.rates["insert"].value == [1000, 1000, pytest.approx(1250 / 1.0075)], "not 33,333"
            assert series.rates["insert"].until[-1] == series.newest_ns == live.hand.at_ns
            assert series.done("insert", live.hand.at_ns) == 3250 and series.done("delete", live.hand.at_ns) == 2700
            assert series.active["insert"].value == series.rates["insert"].value
            assert series.slowest["insert"].value[-1] == 0.9
            assert series.worked_s(live.hand.at_ns) == pytest.approx(3.0075)
            assert series.tick_started_ns(live.hand.at_ns) == START_NS + 2 * SECOND_NS
        with Player(live.run, live.hand.clock) as player:
            rates = {role.name: role.rate_per_s for role in player.look().roles}
        assert rates == {"insert": 1000, "delete": 900}, "of the last second that is one"


def test_a_role_that_joins_late_is_taken_in(tmp_path: Path) -> None:
    with growing(tmp_path) as live, JournalReader(live.run) as reader:
        series = StepSeries(reader, reader.steps(live.attempt)[0])
        live.second()
        series.catch_up()
        live.roles["delete"] = live.journal.add_role(live.step, 2, "query", 7, 8)
        live.second(delete=5000)
        series.catch_up()
        assert series.rates["query"].until == [live.hand.at_ns]
        assert series.rates["query"].value == [100.0]  # statements, not rows


VALUES = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 3), st.floats(0, 1e6)), max_size=20)


@settings(deadline=None)
@given(VALUES, st.integers(-5, 120))
def test_a_series_tells_the_newest_value_that_had_ended(parts: list[tuple[int, int, float]], t: int) -> None:
    series = Series()
    until = 0
    for gap, length, value in parts:
        until += gap + length
        series.add(until, length, value)
    ended = [value for end, value in zip(series.until, series.value, strict=True) if end <= t]
    assert series.at(t) == (ended[-1] if ended else None)


def test_the_median_is_of_the_window_only() -> None:
    series = Series()
    for second, value in enumerate((9.0, 9.0, 1.0, 2.0, 3.0)):
        series.add(second + 1, 1, value)
    assert series.median(2, 5) == 2.0
    assert series.median(5, 9) is None


@given(st.lists(st.tuples(st.integers(1, 10**9), st.floats(0, 1e6)), max_size=50))
def test_half_as_many_intervals_give_the_same_rates(parts: list[tuple[int, float]]) -> None:
    series, until = Series(), 0
    for length, value in parts:
        until += length
        series.add(until, length, value)
    before = sum(length * value for length, value in parts)
    series.halve()
    assert len(series.until) == len(series.length) == len(series.value) == (len(parts) + 1) // 2
    assert sum(map(mul, series.length, series.value)) == pytest.approx(before)
    assert sum(series.length) == until and series.until[-1:] == ([until] if parts else [])
    begins = [end - length for end, length in zip(series.until, series.length, strict=True)]
    assert begins == [0, *series.until[:-1]][: len(begins)]

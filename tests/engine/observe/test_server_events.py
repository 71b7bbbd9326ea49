"""Checkpoints from a server's counters, vacuums from its progress view."""

from __future__ import annotations

from dataclasses import replace

from engine.journal.rows import EventRow
from engine.observe.server_events import QUIET_NS, Checkpoints, Vacuums
from engine.postgres.activity import Vacuum
from engine.postgres.server_activity import Seen, Totals
from engine.view.events import event_words

S = 1_000_000_000
NOTHING = Totals(*(0,) * len(Totals._fields))


def test_a_checkpoint_lasts_from_its_count_to_its_times() -> None:
    known = Checkpoints()
    assert known.take(1 * S, NOTHING) == []
    counted = NOTHING._replace(timed=1)
    assert known.take(2 * S, counted) == []  # it may be skipped
    (began,) = known.take(3 * S, counted._replace(buffers=100))
    assert (began.started_ns, began.ended_ns, began.data["cause"]) == (1 * S, None, "time")
    assert known.take(4 * S, counted._replace(buffers=250)) == []
    (ended,) = known.take(5 * S, counted._replace(buffers=300, write_ms=2500, sync_ms=40))
    assert (ended.started_ns, ended.ended_ns) == (1 * S, 5 * S)
    assert ended.data == {"cause": "time", "total_s": 4.0, "buffers": 300, "write_s": 2.5, "sync_s": 0.04}


def test_a_quick_one_begins_and_ends_at_once_and_a_skipped_one_never_begins() -> None:
    known = Checkpoints()
    known.take(1 * S, NOTHING)
    quick = NOTHING._replace(requested=1, buffers=5, write_ms=3)
    began, ended = known.take(2 * S, quick)
    assert began.data == {"cause": "requested"} and ended.data["buffers"] == 5
    skipped = quick._replace(timed=1)
    assert known.take(3 * S, skipped) == [] and known.take(300 * S, skipped) == []


def test_one_whose_end_is_not_counted_is_over_when_it_writes_no_more_and_a_restart_ends_it() -> None:
    known = Checkpoints()
    known.take(1 * S, NOTHING)
    running = NOTHING._replace(timed=1, buffers=5)
    known.take(2 * S, running)
    assert known.take(2 * S + QUIET_NS, running) == []
    (ended,) = known.take(3 * S + QUIET_NS, running)
    assert ended.ended_ns == 2 * S
    known.take(40 * S, running._replace(timed=2, buffers=9))
    (ended,) = known.take(41 * S, NOTHING)
    assert ended.ended_ns == 41 * S and "buffers" not in ended.data


def test_a_vacuum_lasts_while_it_is_seen_and_says_who_began_it() -> None:
    known = Vacuums()
    seen = Seen((), vacuums=(Vacuum(7, "orders", "scanning heap", 0.1), Vacuum(8, "lines", "", 0.0)))
    seen = replace(seen, automatic=frozenset({7}))
    events = {event.data["pid"]: event for event in known.take(1 * S, seen)}
    assert (events[7].kind, events[7].data["operation"]) == ("autovacuum", "vacuum")
    assert (events[8].kind, events[8].data["text"]) == ("vacuum", "vacuum of lines")
    assert known.take(2 * S, seen) == []
    (ended,) = known.take(4 * S, replace(seen, vacuums=seen.vacuums[1:]))
    assert (ended.started_ns, ended.ended_ns, ended.data["elapsed_s"]) == (1 * S, 4 * S, 3.0)


def test_what_is_not_over_when_the_observation_ends_lasts_until_then() -> None:
    checkpoints, vacuums = Checkpoints(), Vacuums()
    checkpoints.take(1 * S, NOTHING)
    assert checkpoints.finish(1 * S) == []
    checkpoints.take(2 * S, NOTHING._replace(timed=1, buffers=5))
    (checkpoint,) = checkpoints.finish(9 * S)
    seen = Seen((), vacuums=(Vacuum(7, "orders", "scanning heap", 0.1), Vacuum(8, "lines", "", 0.0)))
    vacuums.take(2 * S, replace(seen, vacuums=seen.vacuums[:1]))
    began, *unfinished = vacuums.finish(9 * S, seen)  # the second one came after the last tick
    assert (began.started_ns, began.ended_ns) == (9 * S, None)
    assert [event.started_ns for event in (checkpoint, *unfinished)] == [1 * S, 2 * S, 9 * S]
    for event in (checkpoint, *unfinished):
        assert event.ended_ns == 9 * S and event.data["unfinished"] and "elapsed_s" not in event.data
    row = EventRow(1, 1, 1, checkpoint.kind, checkpoint.started_ns, checkpoint.ended_ns, None, dict(checkpoint.data))
    assert event_words(row, 9 * S) == "checkpoint begins: time, not over at the end"
    assert event_words(row, 5 * S) == "checkpoint begins: time"

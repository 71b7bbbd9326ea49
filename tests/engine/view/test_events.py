"""Events in words, and where a replay lands to show a stall."""

from __future__ import annotations

from engine.journal.rows import EventRow
from engine.view.events import AFTER_NS, landings_ns

SECOND_NS = 1_000_000_000


def stall(begin_s: float, end_s: float, step: int = 1) -> tuple[EventRow, ...]:
    begin_ns, end_ns = int(begin_s * SECOND_NS), int(end_s * SECOND_NS)
    return (EventRow(1, 1, step, "stall", begin_ns, end_ns, "insert", {}),)


def test_a_replay_seeks_between_this_stall_and_the_next() -> None:
    ends_ns: dict[int | None, int] = {1: 100 * SECOND_NS}
    alone, near, last = landings_ns([stall(10, 14), stall(30, 34), stall(36, 99)], ends_ns)
    assert alone == 14 * SECOND_NS + AFTER_NS
    assert near == 35 * SECOND_NS, "the next stall is not shown in its place"
    assert last == 100 * SECOND_NS


def test_stalls_that_touch_are_seen_from_the_end_of_the_first() -> None:
    assert landings_ns([stall(10, 14), stall(14, 20)], {})[0] == 14 * SECOND_NS

"""When clients of fixed transactions ended, by lines of the log that come in blocks, thread by thread."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from workloads.pgbench.completions import Ends

S = 1_000_000_000
BEGAN = 100 * S


def taken(clients: int, each: int, every: int, lines: Sequence[tuple[int, float, int]]) -> Ends:
    """Lines as (client, seconds into the step, number)."""
    ends = Ends(clients, each, BEGAN, every)
    for client, at_s, number in lines:
        ends.add(client, BEGAN + round(at_s * S), number, number)
    return ends


def test_the_first_end_parts_a_step_also_where_another_threads_lines_came_before() -> None:
    ends = taken(2, 4, 1, [(1, 1.0, 1), (1, 3.0, 2), (1, 5.0, 3), (1, 7.0, 4)])
    ends.settle(0)  # the other thread has written nothing yet
    for number, at_s in enumerate((0.5, 1.0, 1.5, 3.5), start=1):
        ends.add(0, BEGAN + round(at_s * S), number, number)
    ends.settle(BEGAN + 7 * S)
    assert ends.close(BEGAN + 9 * S) == BEGAN + 7 * S  # what pgbench does to end is none of it
    assert ends.first() == {"seconds": 3.5, "transactions": 4 + 2}


def test_what_is_surely_before_the_first_end_is_not_kept() -> None:
    ends = Ends(2, 100_000, BEGAN, 1)
    for number in range(1, 1001):
        for client in (0, 1):
            ends.add(client, BEGAN + number * S // 1000, number, number)
        ends.settle(BEGAN + number * S // 1000)
        assert all(len(points) <= 2 for points in ends._points)


def test_a_sampled_log_is_interpolated() -> None:
    lines = [(0, at_s, 100 * at_s) for at_s in (1, 2, 3)] + [(1, at_s, 50 * at_s) for at_s in (1, 3, 5)]
    ends = taken(2, 400, 16, lines)
    ends.settle(BEGAN + 5 * S)
    assert ends.close(BEGAN + 8 * S) == BEGAN + 8 * S
    assert ends.first() == {"seconds": 4.0, "transactions": pytest.approx(400 + 200)}


def test_one_client_ends_with_its_step() -> None:
    ends = taken(1, 2, 1, [(0, 1.0, 1), (0, 2.0, 2)])
    assert ends.close(BEGAN + 3 * S) == BEGAN + 2 * S and ends.first() == {}


def test_a_client_of_whom_nothing_is_known_may_have_ended_before_the_step() -> None:
    ends = taken(2, 40, 64, [(0, 1.0, 10), (0, 2.0, 30)])
    assert ends.close(BEGAN + 4 * S) == BEGAN + 4 * S
    assert ends.first() == {}


def test_little_is_kept_after_the_first_end() -> None:
    ends = taken(2, 1000, 1, [(1, 0.1, 999), (1, 0.2, 1000)])
    for number in range(1, 1001):
        ends.add(0, BEGAN + number * S // 100, number, number)
        ends.settle(BEGAN + number * S // 100)
    assert len(ends._points[0]) < 50 and ends.close(BEGAN + 20 * S) == BEGAN + 10 * S
    assert ends.first() == {"seconds": 0.2, "transactions": 1000 + 20}

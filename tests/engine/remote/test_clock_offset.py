"""The offset of another clock lies within its error, whatever the ways there and back take."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.remote import clock_offset
from engine.remote.clock_offset import Offset, Trip

SPAN = st.integers(0, 50_000_000)
AHEAD = st.integers(-(10**15), 10**15)


def trip(sent_ns: int, ahead_ns: int, there_ns: int, held_ns: int, back_ns: int) -> Trip:
    came = sent_ns + there_ns + ahead_ns
    return Trip(sent_ns, came, came + held_ns, sent_ns + there_ns + held_ns + back_ns)


@given(AHEAD, st.lists(st.tuples(st.integers(0, 10**15), SPAN, SPAN, SPAN), min_size=1, max_size=20))
def test_the_true_offset_is_within_the_error_of_the_best_trip(
    ahead_ns: int, trips: list[tuple[int, int, int, int]]
) -> None:
    offset = clock_offset.best([trip(sent, ahead_ns, *rest) for sent, *rest in trips])
    assert abs(offset.ahead_ns - ahead_ns) <= offset.error_ns + 1
    assert offset.error_ns <= min(there + back for _, there, _, back in trips) // 2
    assert offset.here(offset.there(10**18)) == 10**18 and offset.here(0) == offset.there(0) == 0


def test_clocks_that_run_apart_or_are_hardly_known_are_refused() -> None:
    first = Offset(5_000_000, 100_000, 0)
    assert not clock_offset.unsteady(first, Offset(5_900_000, 100_000, 100_000_000))  # a jump within the allowance
    assert not clock_offset.unsteady(first, Offset(55_000_000, 100_000, 60_000_000_000))  # 0.8 ms a second
    assert "moved by 69.8 ms against this machine's within 60.0 s" in clock_offset.unsteady(
        first, Offset(75_000_000, 100_000, 60_000_000_000)
    )
    assert not clock_offset.uncertain(Offset(0, clock_offset.MOST_ERROR_NS, 0))
    assert "known to 34 ms only" in clock_offset.uncertain(Offset(0, 34_000_000, 0))
    kept = clock_offset.record(first, Offset(5_500_000, 200_000, 10_000_000_000))
    assert kept["drift_ppm"] == 50 and kept["end_error_ms"] == 0.2

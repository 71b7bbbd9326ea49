"""Times at which probes are attached that are not there all the time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from probes import timing

S = 1_000_000_000


@given(st.integers(0, 10**13), st.integers(0, 10**12))
def test_windows_open_for_ten_seconds_of_every_minute(t_ns: int, began_ns: int) -> None:
    minute = range(began_ns + t_ns, began_ns + t_ns + 60 * S, S)
    assert sum(timing.in_window(second, began_ns) for second in minute) == 10
    assert timing.in_window(began_ns, began_ns) and not timing.in_window(began_ns - 1, began_ns)
    assert not timing.in_window(began_ns + 10 * S, began_ns)


def test_stall_probes_stay_for_five_seconds_after_it() -> None:
    assert not timing.around_stall(7 * S, None)
    assert timing.around_stall(7 * S, 7 * S) and timing.around_stall(12 * S - 1, 7 * S)
    assert not timing.around_stall(12 * S, 7 * S)

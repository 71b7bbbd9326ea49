"""A guest's clock beside this machine's: lateness of readings is no fault of it, jumps and a wrong pace are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import UserError
from engine.guest.clock_check import READINGS, GuestClock

SECOND_NS = 1_000_000_000
AHEAD_NS = 10**13  # of this machine's clock, which was booted before


@given(st.lists(st.integers(0, 30 * SECOND_NS), max_size=40))
def test_a_good_clock_is_good_however_late_most_readings_are(late_ns: list[int]) -> None:
    clock = GuestClock()
    for second, late in enumerate(late_ns):
        local_ns = second * SECOND_NS
        clock.read(local_ns, local_ns + AHEAD_NS + (late if second % READINGS else 0))


@pytest.mark.parametrize(
    ("pace", "jump_ns", "said"),
    [
        (1.0, 5 * SECOND_NS, "5.0 s ahead of this machine's in 20 s"),
        (1.0, -5 * SECOND_NS, "5.0 s behind this machine's in 29 s"),
        (2.7, 0, "1.7 s ahead of this machine's in 9 s"),
        (0.9, 0, "behind this machine's in "),
    ],
)
def test_a_clock_that_jumps_or_goes_wrong_is_told_with_its_error(pace: float, jump_ns: int, said: str) -> None:
    clock = GuestClock()
    with pytest.raises(UserError, match="the guest's clock went ") as caught:
        for second in range(60):
            local_ns = round(second * SECOND_NS * pace) + (jump_ns if second >= 20 else 0)
            clock.read(local_ns, second * SECOND_NS + AHEAD_NS)
    assert said in str(caught.value) and "\n" not in str(caught.value)

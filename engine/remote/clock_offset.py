"""The clock of another host: how far it is ahead of ours, and the error of that. Times are monotonic, in ns.

Each round trip has three known times: sent and received here, answered in between there. The answer was made at some
moment of the round trip, so its midpoint is wrong by at most half of it. The shortest is the most precise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

ROUND_TRIPS = 16  # of a measurement
MOST_ERROR_NS = 20_000_000  # beyond this a clock is refused
MOST_RUN = 0.001  # relative drift of two clocks; ntpd steers by at most half of it
SLACK_NS = 1_000_000


class Trip(NamedTuple):
    """A round trip: the other clock read `there_ns` on arrival and `left_ns` when the answer left."""

    sent_ns: int
    there_ns: int
    left_ns: int
    received_ns: int


class Offset(NamedTuple):
    """The other clock is `ahead_ns` of ours, give or take `error_ns`, measured at `at_ns` of ours."""

    ahead_ns: int
    error_ns: int
    at_ns: int

    def here(self, there_ns: int) -> int:
        """Convert a time of the other clock to ours; 0, which stands for no time, stays 0."""
        return there_ns - self.ahead_ns if there_ns else 0

    def there(self, here_ns: int) -> int:
        """The reverse of `here`."""
        return here_ns + self.ahead_ns if here_ns else 0


def offset_of(trip: Trip) -> Offset:
    """The offset from one round trip, without the time that the other host took to answer."""
    under_way_ns = (trip.received_ns - trip.sent_ns) - (trip.left_ns - trip.there_ns)
    ahead_ns = ((trip.there_ns - trip.sent_ns) + (trip.left_ns - trip.received_ns)) // 2
    return Offset(ahead_ns, max(0, under_way_ns) // 2, trip.received_ns)


def best(trips: Sequence[Trip]) -> Offset:
    return min(map(offset_of, trips), key=lambda offset: offset.error_ns)


def moved_ns(first: Offset, last: Offset) -> int:
    """The certain drift of the clocks: the change beyond both errors."""
    return max(0, abs(last.ahead_ns - first.ahead_ns) - first.error_ns - last.error_ns)


def unsteady(first: Offset, last: Offset) -> str:
    """The reason why times between two measurements cannot be converted, or ""."""
    moved, seconds = moved_ns(first, last), max(0, last.at_ns - first.at_ns) / 1e9
    if moved <= SLACK_NS + MOST_RUN * seconds * 1e9:
        return ""
    return (
        f"its clock moved by {moved / 1e6:.1f} ms against this machine's within {seconds:.1f} s "
        f"(limit: {SLACK_NS / 1e6:.0f} ms and {MOST_RUN * 1000:.0f} ms a second)"
    )


def uncertain(offset: Offset) -> str:
    """The reason why a clock is not known precisely enough, or ""."""
    if offset.error_ns <= MOST_ERROR_NS:
        return ""
    return (
        f"its clock is known to {offset.error_ns / 1e6:.0f} ms only (limit: {MOST_ERROR_NS / 1e6:.0f} ms), as the "
        f"shortest of {ROUND_TRIPS} round trips took {2 * offset.error_ns / 1e6:.0f} ms"
    )


def record(first: Offset, last: Offset) -> dict[str, float]:
    """The record for the journal: both measurements, and the drift."""
    seconds = (last.at_ns - first.at_ns) / 1e9
    return {
        "ahead_ms": first.ahead_ns / 1e6,
        "error_ms": first.error_ns / 1e6,
        "end_ahead_ms": last.ahead_ns / 1e6,
        "end_error_ms": last.error_ns / 1e6,
        "drift_ppm": (last.ahead_ns - first.ahead_ns) / 1000 / seconds if seconds > 0 else 0.0,
    }

"""A check that a guest's clock runs as fast as the host's: otherwise rates and times of the guest mean nothing."""

from __future__ import annotations

from collections import deque

from engine.core.errors import UserError

READINGS = 10  # the least late counts
ALLOWED_S, ALLOWED_PART = 1.0, 0.01  # allowed difference: absolute, and as a fraction of the time passed


class GuestClock:
    """Readings of a guest's clock, with the host's at arrival: late but never early, so the least late counts."""

    def __init__(self) -> None:
        self._recent: deque[int] = deque(maxlen=READINGS)
        self._first_ns: int | None = None  # this machine's initial lead
        self._began_ns = 0

    def read(self, guest_ns: int, here_ns: int) -> None:
        """Take a reading. Raises UserError once the guest's clock has jumped, or runs too fast or too slowly."""
        self._recent.append(here_ns - guest_ns)
        least = min(self._recent)
        if self._first_ns is None:
            self._first_ns, self._began_ns = least, here_ns
        if len(self._recent) < READINGS:
            self._first_ns = least  # the least late so far
        passed_s = (here_ns - self._began_ns) / 1e9
        behind_s = (least - self._first_ns) / 1e9
        if abs(behind_s) > ALLOWED_S + ALLOWED_PART * passed_s:
            raise UserError(
                f"the guest's clock went {abs(behind_s):.1f} s {'behind' if behind_s > 0 else 'ahead of'} this "
                f"machine's in {passed_s:.0f} s, so its times mean nothing: give it CPUs of its own (--guest-pin), or "
                f"another kernel"
            )

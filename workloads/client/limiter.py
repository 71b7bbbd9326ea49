"""The rate limiter: when a stream may continue. Pure arithmetic over the caller's clock values.

It is called once per round, `after` that was made, for the time of the next one. It answers with two times:
`go_ns`, which the caller waits for, and `intended_ns`, when the next round would have started without any delay.
Response times from the intended start include the statements that a stall prevented from being sent.
"""

from __future__ import annotations

SECOND_NS = 1_000_000_000
REFERENCE_SLACK_NS = 950_000_000  # a check at least this long after the previous one does not sleep


class Limiter:
    """The reference client's limiter: all rounds of a second in a burst at its start; lost time is never made up.

    Round 0 is followed by a sleep too, so the first second carries one statement. The sleep ends at its due time here;
    the reference adds its oversleep, well below a millisecond, to every second.

    With `even`, for servers in slices, the rounds of each second are spread evenly over it, the first one included: a
    server's second there lasts for several seconds of the clock, and bursts would leave most of those without any
    insert. Either way the rounds of N seconds take N seconds.
    """

    def __init__(self, rate_per_s: int, rows_per_round: int, start_ns: int, *, even: bool = False) -> None:
        self.rounds_per_s = max(1, -(-rate_per_s // rows_per_round))
        self._apart_ns = SECOND_NS // self.rounds_per_s if even else 0
        self._first_of_second = 0 if even else 1
        # The last round of a second is due at its end here: one that is late by less than a burst is as little lost.
        self._slack_ns = REFERENCE_SLACK_NS + (SECOND_NS if even else 0)
        self._checked_ns = start_ns
        self._intended_ns = start_ns

    def after(self, made_round: int, now_ns: int) -> tuple[int, int]:
        if place := (made_round + 1 - self._first_of_second) % self.rounds_per_s:
            go_ns = max(self._checked_ns + place * self._apart_ns, now_ns)
            return go_ns, min(self._intended_ns + place * self._apart_ns, go_ns)
        due_ns = self._checked_ns + SECOND_NS
        if now_ns - self._checked_ns < self._slack_ns:
            self._checked_ns = self._intended_ns = due_ns
            return max(due_ns, now_ns), due_ns
        self._checked_ns = now_ns
        self._intended_ns = min(due_ns, now_ns)
        return now_ns, self._intended_ns

"""The maker: decides which rounds of insert and delete statements exist, and from when on. Pure: no clock, no process.

For each round, the reference client's maker process puts one insert statement into a queue of capacity 8 and then one
delete statement into another. Both queues block when full, so neither stream gets further ahead of the other than a
queue plus one statement in flight. Here the queues are only counted: given the number of statements that each stream
has started, the maker returns the number of rounds made.
"""

from __future__ import annotations

from dataclasses import dataclass

from workloads.client.limiter import Limiter

QUEUE_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class Round:
    """A round: the earliest start of its statements, their intended start, and its lower key bound."""

    number: int
    go_ns: int
    intended_ns: int
    low_key: int


class Maker:
    """Makes rounds 0 .. rounds - 1 in order.

    `rounds_made` counts the rounds whose two statements are both in their queues. `go_ns` and `intended_ns` belong to
    the round in progress: its insert statement is in the queue from `go_ns` on. The low key is looked up again every
    `resync_rounds` plus one rounds; 0 is never. `first_low` None requests a lookup in round 0.
    """

    def __init__(
        self,
        rounds: int,
        rows_per_round: int,
        limiter: Limiter | None,
        *,
        deletes: bool,
        first_low: int | None = 0,
        resync_rounds: int = 0,
        start_ns: int = 0,
    ) -> None:
        self.rounds = rounds
        self.rounds_made = 0
        self.lookup_due = False
        self.go_ns = self.intended_ns = start_ns if limiter else 0
        self._rows = rows_per_round
        self._limiter = limiter
        self._deletes = deletes
        self._resync_every = resync_rounds + 1 if deletes and resync_rounds > 0 else 0
        self._low = first_low
        self._looked_up = -1  # round of the last lookup

    def make(self, inserts_started: int, deletes_started: int, now_ns: int) -> Round | None:
        """The next round if it can be made now, else None. Call again until None.

        A limited round is made ahead of its time, with `go_ns` in the future, if only the limiter holds it: the
        reference would make it then whatever the two streams do meanwhile. A round with a lookup is not, because it
        must see the table of that time.
        """
        number = self.rounds_made
        if number >= self.rounds or number >= inserts_started + QUEUE_ROUNDS:
            return None
        if self._deletes:
            if self._wants_lookup(number):
                # The lookup follows the insert statement into its queue and comes before the delete statement.
                self.lookup_due = now_ns >= self.go_ns
                return None
            if number >= deletes_started + QUEUE_ROUNDS:
                return None
        low = self._low or 0
        round_made = Round(number, self.go_ns, self.intended_ns, low)
        self._low = low + self._rows
        self.rounds_made = number + 1
        if self._limiter is not None:
            self.go_ns, self.intended_ns = self._limiter.after(number, max(self.go_ns, now_ns))
        return round_made

    def looked_up(self, low_key: int) -> None:
        self._low = low_key
        self._looked_up = self.rounds_made
        self.lookup_due = False

    def _wants_lookup(self, number: int) -> bool:
        if self._looked_up == number:
            return False
        if number == 0:
            return self._low is None
        return self._resync_every > 0 and number % self._resync_every == 0

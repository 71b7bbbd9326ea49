"""CPU time of functions per operation, of one server against another: where the difference is certain."""

from __future__ import annotations

import math
from dataclasses import dataclass

MOST_DIGITS = 6


@dataclass(frozen=True, slots=True)
class FunctionChange:
    """A function whose own CPU time per operation, without what it calls, differs by more than chance.

    In us per operation; `change_us` is `us` less `base_us`, up to rounding, and lies between `low_us` and `high_us`. Of
    the bounds of all functions that a comparison names, at most 5% are wrong on average. `share` is the change as a
    part of the base's sampled CPU time per operation.
    """

    name: str
    base_us: float
    us: float
    change_us: float
    low_us: float
    high_us: float
    share: float

    @property
    def digits(self) -> int:
        """Digits after the point: as many as the interval bears, and as bounds need that are not 0."""
        finest = min(self.high_us - self.low_us, 4 * abs(self.low_us), 4 * abs(self.high_us)) / 4
        return min(MOST_DIGITS, max(0, -math.floor(math.log10(finest)))) if finest > 0 else MOST_DIGITS

    @property
    def change_text(self) -> str:
        """`+0.80 us`."""
        return f"{self.change_us:+,.{self.digits}f} us"

    @property
    def bounds_text(self) -> str:
        """`[0.52, 1.08]`."""
        return f"[{self.low_us:,.{self.digits}f}, {self.high_us:,.{self.digits}f}]"

    @property
    def effect(self) -> str:
        """`+0.80 us [0.52, 1.08]`."""
        return f"{self.change_text} {self.bounds_text}"


@dataclass(frozen=True, slots=True)
class FunctionCosts:
    """The functions of a subject and its base in a step, by samples of which one ran.

    `samples` and `base_samples` are those within the step, at `hz` a second of a busy CPU; `base_us` and `us` the CPU
    time per operation that they make. `tested` functions had enough samples. `changes` are certain, the largest first;
    `reason` says why there can be none; if cells were sampled at different rates, all else is 0.
    """

    step: str
    subject: str
    pairs: int
    hz: int
    base_samples: int
    samples: int
    base_us: float
    us: float
    tested: int
    changes: tuple[FunctionChange, ...] = ()
    reason: str = ""

    def change(self, function: str) -> FunctionChange | None:
        return next((change for change in self.changes if change.name == function), None)

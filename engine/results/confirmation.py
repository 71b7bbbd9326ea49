"""What a second run says of the steps that a first one named slower or faster; what `bench confirm --json` prints."""

from __future__ import annotations

from dataclasses import dataclass

from engine.results.comparison import Ratio


@dataclass(frozen=True, slots=True)
class ConfirmedStep:
    """A step that was named by its rate, time or a response time: the ratio's `metric` says by which.

    The ratio of either run; `second` is null if the second run has none.
    """

    subject: str
    step: str
    confirmed: bool
    first: Ratio
    second: Ratio | None


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The two runs, and each step that the first named; `notes` say what is not the same in both, or too much so."""

    first: str
    second: str
    steps: tuple[ConfirmedStep, ...]
    notes: tuple[str, ...] = ()

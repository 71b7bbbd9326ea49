"""A sweep: steps that differ in one number only, such as their clients, and its part of a comparison."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """A step of a sweep, and its number."""

    step: str
    value: float


@dataclass(frozen=True, slots=True)
class Peak:
    """The peak of a subject's median rate; `ratio` is set if the base peaks there too, with a verdict."""

    subject: str
    rate_per_s: float
    value: float
    ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Level:
    """A rate that a step held for a while, in seconds since it began."""

    from_s: float
    until_s: float
    rate_per_s: float


@dataclass(frozen=True, slots=True)
class RateChange:
    """A step of one cell that had several rates in succession: see `analysis.statistics.change_points`."""

    step: str
    subject: str
    run: str
    cell: str
    repeat: int
    levels: tuple[Level, ...]


@dataclass(frozen=True, slots=True)
class Sweep:
    """The steps of a sweep by their number `name`, rising; `text` sums up the result in a sentence.

    `changes` are steps of single cells whose rate changed as they ran.
    """

    name: str
    unit: str
    points: tuple[Point, ...]
    peaks: tuple[Peak, ...] = ()
    text: str = ""
    changes: tuple[RateChange, ...] = ()

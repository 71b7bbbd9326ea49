"""A published table next to ours: ratios only, as the published figures are of another machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class PublishedColumn:
    """A column: `ours` is a subject of the comparison, `published` one of the publication; either may be empty."""

    ours: str
    published: str


@dataclass(frozen=True, slots=True)
class PublishedRatio:
    """Our ratio, with its 95% interval if known, and the published one."""

    ours: float | None = None
    low: float | None = None
    high: float | None = None
    published: float | None = None

    @property
    def within(self) -> bool | None:
        """Whether the published ratio lies in our interval; None if either is missing."""
        if self.published is None or self.low is None or self.high is None:
            return None
        return self.low <= self.published <= self.high


@dataclass(frozen=True, slots=True)
class PublishedLine:
    """A figure of a step: a ratio for each column."""

    step: str
    figure: str
    ratios: tuple[PublishedRatio, ...]


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table of the publication that a preset reproduces, with ours.

    Ratios by "subject" are to that of `base` (the publication's) and of `our_base`; by "line", to the first line of the
    same subject. `differs` lists the differences in conditions, `remarks` what else was published.
    """

    preset: str
    title: str
    source: str
    against: Literal["subject", "line"]
    base: str
    our_base: str
    columns: tuple[PublishedColumn, ...]
    lines: tuple[PublishedLine, ...]
    differs: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

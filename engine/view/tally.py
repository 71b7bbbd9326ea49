"""From points to columns of shares by sort, for values that cannot be averaged.

A point that overlaps several columns counts in each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.view.envelope import columns_of

Sort = int | str


class Tally:
    """Columns over [start, end) that grow with the points, which carry weights by sort."""

    def __init__(self, start: float, end: float, columns: int) -> None:
        self.start = start
        self.end = end
        self.columns: list[dict[Sort, float] | None] = [None] * columns

    def extend(self, untils: Sequence[float], lengths: Sequence[float], values: Sequence[Mapping[Sort, float]]) -> None:
        for until, length, weights in zip(untils, lengths, values, strict=True):
            if until <= self.start or until - length >= self.end:
                continue
            for column in columns_of(self.start, self.end, until - length, until, len(self.columns)):
                known = self.columns[column]
                if known is None:
                    known = self.columns[column] = {}
                for key, weight in weights.items():
                    known[key] = known.get(key, 0.0) + weight

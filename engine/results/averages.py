"""Averages of a figure over cells."""

from __future__ import annotations

from statistics import geometric_mean, median


def mean(values: list[float]) -> float | None:
    """The geometric mean, as ratios compare logs; with a zero among the values, the median. None without any."""
    return geometric_mean(values) if values and min(values) > 0 else middle(values)


def middle(values: list[float]) -> float | None:
    """The median, or None."""
    return median(values) if values else None

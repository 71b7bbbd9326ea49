"""Averages of a figure over cells."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import geometric_mean, median

from engine.results.cell_step import CellStep


def mean(values: list[float]) -> float | None:
    """The geometric mean, as ratios compare logs; with a zero among the values, the median. None without any."""
    return geometric_mean(values) if values and min(values) > 0 else middle(values)


def middle(values: Iterable[float | None]) -> float | None:
    """The median of those that are known; None without any."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


def mean_shares(cells: list[CellStep], role: str) -> dict[str, float]:
    """The mean of the cells' shares by event; empty if waits were not sampled."""
    shares = [cell.waits[role] for cell in cells if cell.waits.get(role)]
    events = dict.fromkeys(event for share in shares for event in share)
    return {event: sum(share.get(event, 0.0) for share in shares) / len(shares) for event in events}

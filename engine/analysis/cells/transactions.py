"""The times of a step's transactions, where its clients report each of them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median, stdev

from engine.results.cell_step import TransactionTimes


def times(lengths_ms: Sequence[float]) -> TransactionTimes | None:
    """Summarise the times of a step's transactions; None without any."""
    if not lengths_ms:
        return None
    return TransactionTimes(
        count=len(lengths_ms),
        total_s=sum(lengths_ms) / 1e3,
        mean_ms=fmean(lengths_ms),
        median_ms=median(lengths_ms),
        min_ms=min(lengths_ms),
        max_ms=max(lengths_ms),
        stddev_ms=stdev(lengths_ms) if len(lengths_ms) > 1 else None,
        each_ms=tuple(lengths_ms),
    )

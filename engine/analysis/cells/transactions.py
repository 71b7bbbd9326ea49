"""The times of a step's transactions, where its clients report each of them."""

from __future__ import annotations

from statistics import fmean, median, stdev
from typing import Annotated

from msgspec import Meta

from engine.core.record import converted
from engine.journal.totals import StepTotals
from engine.results.cell_step import TransactionTimes

TIMES = "times_ms"  # in the report of a step's clients, see `workloads.api.base.Launch`


def times(totals: StepTotals) -> TransactionTimes | None:
    """Summarise the times of a step's transactions; None without any. Raises UserError for a damaged record."""
    listed = totals.report.get(TIMES, [])
    lengths_ms = converted(listed, list[Annotated[float, Meta(ge=0, le=1e12)]], f"a step's totals: report: {TIMES}")
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

"""The times of transactions that are timed one by one: those that load a file."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median, stdev
from typing import Annotated

import msgspec
from msgspec import Meta

from engine.core.record import converted
from engine.journal.rows import StepRow, Transaction
from engine.journal.totals import StepTotals, ops
from engine.results.cell_step import TransactionTimes

LOAD = "load"  # in the report of a step's clients: what each transaction loads, see `workloads.base.Launch`


class _Load(msgspec.Struct, frozen=True):
    bytes: Annotated[int, Meta(ge=0)]
    rows: Annotated[int, Meta(ge=0)]
    sha256: str


def times(totals: StepTotals, step: StepRow, timed: Sequence[Transaction]) -> TransactionTimes | None:
    """Summarise a step's timed transactions; None without any. Raises UserError for a damaged record."""
    if not timed or totals.seconds <= 0:
        return None
    load = converted(totals.report[LOAD], _Load, "a step's totals: report: load")
    lengths_ms = [each.time_ns / 1e6 for each in timed]
    per_s = ops(step.kind, totals) / totals.seconds
    return TransactionTimes(
        count=len(timed),
        total_s=sum(lengths_ms) / 1e3,
        mean_ms=fmean(lengths_ms),
        median_ms=median(lengths_ms),
        min_ms=min(lengths_ms),
        max_ms=max(lengths_ms),
        stddev_ms=stdev(lengths_ms) if len(timed) > 1 else None,
        mb_per_s=per_s * load.bytes / 1e6,
        rows_per_s=per_s * load.rows,
        file_bytes=load.bytes,
        file_rows=load.rows,
        file_sha256=load.sha256,
        each=tuple((each.client, (each.ended_ns - step.started_ns) / 1e9, each.time_ns / 1e6) for each in timed),
    )

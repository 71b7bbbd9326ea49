"""Statements that last longer than slices, such as index builds, done a few times in each cell: their times compared.

Servers are interleaved until each has done its work, and each has its active time; blocks have no ratio of their own,
since nothing is known of a statement before it ends. A pair of clusters has the ratio of the sums of its repetitions'
times, and pairs are judged by their own scatter (Student's t). Scatter of repetitions is not an error of a pair's
ratio: they do not begin together, so that a machine that becomes slower hits them unequally, and they share their
clusters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from engine.analysis.cells.run_results import StepResult
from engine.core.record import converted
from engine.results.slice_ratio import LogRatio

Seconds = Annotated[float, Meta(ge=1e-9, le=1e9)]


def times_s(step: StepResult) -> tuple[Seconds, ...]:
    """The active times of an interleaved step's repetitions; empty if its clients did not time any."""
    listed = step.report.timing.times_s if step.slices else ()
    return converted(listed, tuple[Seconds, ...], "a step's totals: report: timing: times_s")


def log_ratio(base: Sequence[float], other: Sequence[float]) -> LogRatio:
    """ln(other's speed / base's) of a pair, over as many repetitions of both; without an error within it."""
    count = min(len(base), len(other))
    return LogRatio(math.log(sum(base[:count]) / sum(other[:count])), None, count)

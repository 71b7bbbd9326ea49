"""Times of statements and transactions: buckets, percentiles, and transactions timed one by one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from engine.analysis.cells import transactions
from engine.analysis.statistics import metrics
from engine.features.feature import Tables
from engine.journal.totals import LUMPED_ROLES, role_place
from engine.report.tables.section import Line, RoleTable, Table
from engine.results.averages import middle
from engine.results.cell_step import CellStep
from engine.results.comparison import Comparison
from engine.results.ratio import LATENCIES
from engine.results.section import Column, Figure, Section, Value, of_ratio
from workloads.api.base import role_kind
from workloads.client.histogram import REFERENCE_BUCKETS

BUCKETS_ACROSS = 6
BEYOND = REFERENCE_BUCKETS[-1][0]
SHOWN = ("service_p50_us", "service_p95_us", "service_p99_us", "service_p999_us")
STARTED = "not timed: each client's first transaction, if it was under way when the step began, and those that failed"


def buckets(comparison: Comparison) -> Iterable[Section]:
    """The reference's buckets per role in percent, all cells of a build together; `_joined` limits their number."""
    roles = {role_kind(name) for cell in comparison.cells for name in cell.roles}.difference(LUMPED_ROLES)
    for role in sorted(roles, key=role_place):
        counts: dict[tuple[str, str], list[int]] = {}
        longest: dict[tuple[str, str], float] = {}
        for cell in comparison.cells:
            place = cell.step, cell.subject
            for name in cell.roles:
                if role_kind(name) == role:
                    before = counts.get(place, [0] * len(REFERENCE_BUCKETS))
                    counts[place] = [sum(both) for both in zip(before, cell.bucket_counts[name], strict=True)]
                    longest[place] = max(longest.get(place, 0.0), cell.roles[name]["max_s"] or 0.0)
        yield from _bucket_table(role, counts, longest)(comparison)


def _joined(rows: Sequence[Mapping[str, float]]) -> dict[str, list[str]]:
    """The used buckets by upper bound; if too many, the least is joined with the next longer one."""
    labels = [label for label, _ in REFERENCE_BUCKETS]
    columns = {label: [label] for label in labels if any(row.get(label) for row in rows)}

    def most(label: str) -> float:
        return max(sum(row.get(part, 0.0) for part in columns[label]) for row in rows)

    while len(columns) > BUCKETS_ACROSS:
        order = list(columns)
        least = min(order[: -2 if BEYOND in columns else -1], key=most)  # the last holds everything longer
        columns[order[order.index(least) + 1]] += columns.pop(least)
    return columns


def _bucket_table(
    role: str, counts: Mapping[tuple[str, str], list[int]], longest: Mapping[tuple[str, str], float]
) -> Table:
    labels = _joined([metrics.bucket_percent(row) for row in counts.values()])

    def lines(_: Comparison, step: str, subject: str) -> Iterable[Line]:
        if (step, subject) in counts:
            percent = metrics.bucket_percent(counts[step, subject])
            texts = (metrics.bucket_text(sum(percent.get(part, 0.0) for part in parts)) for parts in labels.values())
            yield (*texts, f"{longest[step, subject]:.3f}"), ""

    headings = (*(f"<={label}" if label != BEYOND else ">16s" for label in labels), "max s")
    return Table(f"buckets.{role}", f"Response time of {role} statements (percent)", headings, lines)


def _latencies(comparison: Comparison, step: str, subject: str) -> Iterable[Line]:
    times_us = [comparison.figure(subject, step, name) for name in LATENCIES]
    if all(value is None for value in times_us):
        return
    yield times_us, ""
    ratios = [comparison.ratio(subject, step, name) for name in LATENCIES]
    if any(ratio is not None and ratio.low is not None for ratio in ratios):
        yield [of_ratio(ratio, remarks=ratio.remarks if ratio else ()) for ratio in ratios], ""
        yield [of_ratio(ratio, "interval") for ratio in ratios], "dim"


LATENCY = Table(
    "latency",
    "Response times of the measured statements (means of cells, ratios)",
    tuple(Column(name, "us") for name in LATENCIES.values()),
    _latencies,
)


def _percentiles(cells: list[CellStep], role: str) -> Sequence[Value] | None:
    """Medians of cells; for the maximum, the largest."""
    of_role = [cell.roles[role] for cell in cells if role in cell.roles]
    statements, *times_us = (middle(cell.get(name) for cell in of_role) for name in ("statements", "mean_us", *SHOWN))
    if statements is None:
        return None
    longest_s = max((time_s for cell in of_role if (time_s := cell.get("max_s")) is not None), default=None)
    return statements, *times_us, Figure(longest_s, unit="s")


PERCENTILES = RoleTable(
    "percentiles",
    "Response time (medians of cells; max of the worst)",
    (Column("statements", "count"), *(Column(name, "us") for name in ("mean", "p50", "p95", "p99", "p99.9", "max"))),
    lambda cell: (role for role in cell.roles if role_kind(role) not in LUMPED_ROLES),
    _percentiles,
)


def _transactions(comparison: Comparison, step: str, subject: str) -> Iterable[Line]:
    cells = comparison.of(subject, step)
    if times := transactions.times([ms for cell in cells if cell.transactions for ms in cell.transactions.each_ms]):
        count = Figure(times.count, remarks=(STARTED,) * (times.count < sum(cell.ops for cell in cells)))
        figures = (times.total_s, times.mean_ms, times.median_ms, times.min_ms, times.max_ms, times.stddev_ms)
        yield (count, *figures), ""


TRANSACTION_TIMES = Table(
    "transaction times",
    "Time of each transaction (ms; all cells together)",
    (Column("n", "count"), *(Column(name, "short") for name in ("total s", "mean", "median", "min", "max", "stddev"))),
    _transactions,
)

TABLES: Tables = {
    "latency": LATENCY,
    "buckets": buckets,
    "percentiles": PERCENTILES,
    "transaction times": TRANSACTION_TIMES,
}

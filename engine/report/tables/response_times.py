"""Times of statements and transactions: buckets, percentiles, and transactions timed one by one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median, stdev

from engine.analysis.statistics import metrics
from engine.journal.totals import role_place
from engine.report.tables.section import STEP_AND_BUILD, STEP_BUILD_AND_ROLE, Line, Table
from engine.results.averages import middle
from engine.results.comparison import Comparison
from engine.results.ratio import LATENCIES
from engine.results.section import Column, Figure, Section, Value, columns, of_ratio, row
from workloads.api.base import role_kind
from workloads.client.histogram import REFERENCE_BUCKETS

BUCKETS_ACROSS = 6
BEYOND = REFERENCE_BUCKETS[-1][0]
TIMED_ROLES = ("insert", "delete", "query")  # in this order, others after them
# With too few statements for a distribution; of a server that is only watched, no response times are known.
LUMPED_ROLES = ("index", "task", "server")
SHOWN = ("service_p50_us", "service_p95_us", "service_p99_us", "service_p999_us")
STARTED = "not timed: each client's first transaction, if it was under way when the step began, and those that failed"


def buckets(comparison: Comparison) -> Iterable[Section]:
    """The reference's buckets per role in percent, all cells of a build together; `_joined` limits their number."""
    others = {role_kind(name) for cell in comparison.cells for name in cell.roles}.difference(TIMED_ROLES, LUMPED_ROLES)
    for role in (*TIMED_ROLES, *sorted(others)):
        counts: dict[tuple[str, str], list[int]] = {}
        longest: dict[tuple[str, str], float] = {}
        for cell in comparison.cells:
            place = cell.step, cell.subject
            for name in cell.roles:
                if role_kind(name) == role:
                    before = counts.get(place, [0] * len(REFERENCE_BUCKETS))
                    counts[place] = [sum(both) for both in zip(before, cell.bucket_counts[name], strict=True)]
                    longest[place] = max(longest.get(place, 0.0), cell.roles[name]["max_s"] or 0.0)
        if counts:
            labels = _joined([metrics.bucket_percent(row) for row in counts.values()])
            yield from _bucket_table(role, labels, counts, longest)(comparison)


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
    role: str,
    labels: Mapping[str, Sequence[str]],
    counts: dict[tuple[str, str], list[int]],
    longest: dict[tuple[str, str], float],
) -> Table:
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
    tuple(Column(name, "us", "less") for name in LATENCIES.values()),
    _latencies,
)


def percentiles(comparison: Comparison) -> Iterable[Section]:
    """A row for each build and role of a step: medians of cells; for the maximum, the largest."""
    rows = []
    for step in comparison.steps:
        roles = {name for subject in comparison.names for cell in comparison.of(subject, step) for name in cell.roles}
        for role in sorted(roles, key=role_place):
            for subject in comparison.names if role_kind(role) not in LUMPED_ROLES else ():
                of_role = [cell.roles[role] for cell in comparison.of(subject, step) if role in cell.roles]

                def figures(name: str, of_role: list[dict[str, float | None]] = of_role) -> list[float]:
                    return [value for figures in of_role if (value := figures.get(name)) is not None]

                if statements := figures("statements"):
                    times_us = (middle(figures(name)) for name in ("mean_us", *SHOWN))
                    longest = Figure(max(figures("max_s"), default=None), unit="s")
                    values = (middle(statements), *times_us, longest)
                    rows.append(row(f"{subject} {role}", *values, step=step, subject=subject))
    times = (Column(name, "us") for name in ("mean", "p50", "p95", "p99", "p99.9", "max"))
    headings = columns(STEP_BUILD_AND_ROLE, Column("statements", "count"), *times)
    yield Section("percentiles", "Response time (medians of cells; max of the worst)", headings, tuple(rows))


def transaction_times(comparison: Comparison) -> Iterable[Section]:
    """The times of single transactions, all cells of a subject together; empty if nothing was timed."""
    rows = []
    for step in comparison.steps:
        for name in comparison.names:
            cells = comparison.of(name, step)
            if lengths_ms := [ms for cell in cells if cell.transactions for ms in cell.transactions.each_ms]:
                values = _times(lengths_ms, sum(cell.ops for cell in cells))
                rows.append(row(name, *values, step=step, subject=name))
    figures = (Column(name, "short") for name in ("total s", "mean", "median", "min", "max", "stddev"))
    title = "Time of each transaction (ms; all cells together)"
    yield Section("transaction times", title, columns(STEP_AND_BUILD, Column("n", "count"), *figures), tuple(rows))


def _times(lengths_ms: Sequence[float], done: int) -> tuple[Value, ...]:
    return (
        Figure(len(lengths_ms), remarks=(STARTED,) if len(lengths_ms) < done else ()),
        sum(lengths_ms) / 1e3,
        fmean(lengths_ms),
        median(lengths_ms),
        min(lengths_ms),
        max(lengths_ms),
        stdev(lengths_ms) if len(lengths_ms) > 1 else None,
    )

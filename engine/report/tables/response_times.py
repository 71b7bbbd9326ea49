"""How long statements and transactions took: buckets, percentiles, and transactions timed one by one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median, stdev

from engine.analysis.statistics import metrics
from engine.core.format import duration
from engine.journal.totals import role_place
from engine.report.tables.section import Notes, Rows, Section, Table, bounds, number, ratio_text
from engine.results.averages import middle
from engine.results.comparison import Comparison
from engine.results.ratio import LATENCIES
from workloads.api.base import role_kind
from workloads.client.histogram import REFERENCE_BUCKETS

BUCKETS_ACROSS = 6
BEYOND = REFERENCE_BUCKETS[-1][0]
TIMED_ROLES = ("insert", "delete", "query")  # in this order, others after them
# With too few statements for a distribution; of a server that is only watched, no response times are known.
LUMPED_ROLES = ("index", "task", "server")
SHOWN = ("service_p50_us", "service_p95_us", "service_p99_us", "service_p999_us")
STARTED = "not timed: each client's first transaction, if it was under way when the step began, and those that failed"


def buckets(comparison: Comparison, notes: Notes) -> Iterable[Section]:
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
            columns = _joined([metrics.bucket_percent(row) for row in counts.values()])
            yield from _bucket_table(role, columns, counts, longest)(comparison, notes)


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
    def rows(_: Comparison, __: Notes, step: str, subject: str) -> Rows:
        if (step, subject) in counts:
            percent = metrics.bucket_percent(counts[step, subject])
            texts = (metrics.bucket_text(sum(percent.get(part, 0.0) for part in parts)) for parts in labels.values())
            yield (*texts, f"{longest[step, subject]:.3f}"), ""

    columns = (*(f"<={label}" if label != BEYOND else ">16s" for label in labels), "max s")
    return Table(f"Response time of {role} statements (percent)", columns, rows)


def _latencies(comparison: Comparison, notes: Notes, step: str, subject: str) -> Rows:
    times_us = [comparison.figure(subject, step, name) for name in LATENCIES]
    if all(value is None for value in times_us):
        return
    yield tuple(duration(None if value is None else value / 1e6) for value in times_us), ""
    found = [comparison.ratio(subject, step, name) for name in LATENCIES]
    if any(ratio is not None and ratio.low is not None for ratio in found):
        yield tuple(f"{ratio_text(ratio)}{notes.mark(ratio.remarks)}" if ratio else "" for ratio in found), ""
        yield tuple(bounds(ratio) if ratio else "" for ratio in found), "dim"


LATENCY = Table(
    "Response times of the measured statements (means of cells, ratios)",
    tuple(LATENCIES.values()),
    _latencies,
)


def percentiles(comparison: Comparison, _: Notes) -> Iterable[Section]:
    """A row for each build and role of a step: medians of cells; for the maximum, the largest."""
    section = Section(
        "Response time (medians of cells; max of the worst)",
        ("step, build and role", "statements", "mean", "p50", "p95", "p99", "p99.9", "max"),
    )
    for step in comparison.steps:
        roles = {name for subject in comparison.names for cell in comparison.of(subject, step) for name in cell.roles}
        rows = []
        for role in sorted(roles, key=role_place):
            for subject in comparison.names if role_kind(role) not in LUMPED_ROLES else ():
                own = [cell.roles[role] for cell in comparison.of(subject, step) if role in cell.roles]

                def figures(name: str, own: list[dict[str, float | None]] = own) -> list[float]:
                    return [value for figures in own if (value := figures.get(name)) is not None]

                if figures("statements"):
                    times = (middle(figures(name)) for name in ("mean_us", *SHOWN))
                    texts = (duration(None if time is None else time / 1e6) for time in times)
                    count = f"{middle(figures('statements')):,.0f}"
                    greatest = duration(max(figures("max_s"), default=None))
                    rows.append(((f"  {subject} {role}", count, *texts, greatest), ""))
        section.add_step(step, rows)
    yield section


def transaction_times(comparison: Comparison, notes: Notes) -> Iterable[Section]:
    """The times of single transactions, all cells of a subject together; empty if nothing was timed."""
    section = Section(
        "Time of each transaction (ms; all cells together)",
        ("step and build", "n", "total s", "mean", "median", "min", "max", "stddev"),
    )
    for step in comparison.steps:
        rows = []
        for name in comparison.names:
            cells = comparison.of(name, step)
            if lengths_ms := [ms for cell in cells if cell.transactions for ms in cell.transactions.each_ms]:
                row = _row(lengths_ms, sum(cell.ops for cell in cells), notes)
                rows.append(((f"  {name}", *row), ""))
        section.add_step(step, rows)
    yield section


def _row(lengths_ms: Sequence[float], done: int, notes: Notes) -> tuple[str, ...]:
    whole = (fmean(lengths_ms), median(lengths_ms), min(lengths_ms), max(lengths_ms))
    return (
        f"{len(lengths_ms):,}" + (notes.mark((STARTED,)) if len(lengths_ms) < done else ""),
        _short(sum(lengths_ms) / 1e3),
        *map(_short, whole),
        _short(stdev(lengths_ms)) if len(lengths_ms) > 1 else "-",
    )


def _short(value: float | None) -> str:
    """Like `number`, but at most one decimal, for lack of room."""
    return f"{value:.1f}" if value is not None and 10 <= abs(value) < 100 else number(value)

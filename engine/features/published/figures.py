"""Our figures of each step as the published program prints them: its columns, by its formulas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from engine.analysis.cells.run_results import CellResult, RunResult, load
from engine.analysis.statistics.metrics import SLIVER_NS, counter_per, max_op_s, per
from engine.host.machine_counters import CPU_COLUMNS, cpu_busy_ns
from engine.journal.reader import JournalReader
from engine.journal.totals import StepTotals, ops, progress, rows
from engine.results.averages import middle
from engine.results.comparison import Comparison
from engine.results.section import NAME, Column, Section, columns, row
from workloads.api.base import role_kind

GIB = 2**30
ACROSS = 4  # subjects in one table
MIN_INTERVALS = 10  # the reference gives no percentile of fewer per-second rates

# The columns of the published line, in its order: unit and digits after the point.
PUBLISHED: dict[str, tuple[str, int]] = {
    "ips": ("rows/s", 0),
    "qps": ("queries/s", 0),
    "rps": ("reads/s", 0),
    "rmbps": ("MiB/s", 1),
    "wps": ("writes/s", 0),
    "wmbps": ("MiB/s", 1),
    "rpq": ("reads/op", 3),
    "rkbpq": ("kB/op", 3),
    "wpi": ("writes/insert", 3),
    "wkbpi": ("kB/insert", 3),
    "csps": ("switches/s", 0),
    "cpups": ("% of host", 1),
    "cspq": ("switches/op", 3),
    "cpupq": ("us/op", 1),
    "ccpupq": ("us/op", 1),
    "dbgb1": ("GiB", 1),
    "dbgb2": ("GiB", 1),
    "rss": ("GiB", 1),
    "maxop": ("s", 3),
    "p50": ("per s", 0),
    "p99": ("per s", 0),
}
# Counts of the reference that have no column: lookups of the least key, deletes that missed rows.
UNPUBLISHED: dict[str, tuple[str, int]] = {"minlk": ("lookups", 0), "minlkms": ("ms each", 3), "shortd": ("deletes", 0)}


def sections(comparison: Comparison) -> Iterable[Section]:
    names = {(cell.run, cell.cell): cell.subject for cell in comparison.cells}
    runs = [load(Path(folder)) for folder in comparison.measured.folders.values()]
    lines = [(names.get((cell.run, cell.cell.id)), step, line) for cell, step, line in _lines(runs)]
    measured = {step for _, step, line in lines if line["ips"] or line["qps"]}  # a pause has no figures
    for step in (step for step in comparison.steps if step in measured):
        for start in range(0, len(comparison.names), ACROSS):
            shown, shown_rows = comparison.names[start : start + ACROSS], []
            for figure, (unit, digits) in (PUBLISHED | UNPUBLISHED).items():
                values = [middle(line[figure] for *of, line in lines if of == [name, step]) for name in shown]
                if any(value is not None for value in values):
                    texts = ("NA" if value is None else _text(value, digits) for value in values)
                    shown_rows.append(row(figure, unit, *texts))
            title = f"{step}: the published figures (median of cells)"
            yield Section("figures", title, columns("", Column("unit", NAME), *shown), tuple(shown_rows))


def _lines(runs: Iterable[RunResult]) -> Iterable[tuple[CellResult, str, dict[str, float | None]]]:
    for run in runs:
        with JournalReader(run.path) as reader:
            for cell in run.cells:
                for step in cell.steps.values():
                    seconds = (
                        Second(role.client, role.name, row.t_ns, row.dt_ns, progress(role.name, row))
                        for role in reader.roles(step.id)
                        if role.client == 1  # like the reference, which takes percentiles of its first client
                        for row in reader.role_seconds(role.id)
                    )
                    yield cell, step.name, published(step.kind, step.totals, seconds)


@dataclass(frozen=True, slots=True)
class Second:
    """One connection's interval, as far as rates need it; intervals of one tick share their end `t_ns`."""

    client: int
    role: str
    t_ns: int
    dt_ns: int
    count: int  # see `progress`


def published(kind: str, totals: StepTotals, seconds: Iterable[Second] = ()) -> dict[str, float | None]:
    """The reference's own line for one step, by its column names and formulas, then the columns of `UNPUBLISHED`.

    `seconds` are for p50 and p99. Rates and percentages of the host are over the whole step, so they lack the
    reference's sampling error of `vmstat` (its means counted repeated header lines as zero). cpupq needs no count of
    CPUs: (us+sy)/100 x ncpu x T is the CPU time itself. An interleaved step has no counts of host and device: they
    include other servers' work.
    """
    count, inserted, elapsed = ops(kind, totals), rows(kind, totals), totals.seconds
    host, device = ({}, {}) if totals.paused else (totals.host, totals.device)
    busy_ns = cpu_busy_ns(host)
    all_ns = sum(host.get(name, 0) for name in CPU_COLUMNS)
    deletes, lookups = totals.of_kind("delete"), sum(role.min_lookups for role in totals.roles.values())
    percentiles = rate_percentiles(kind, (second for second in seconds if second.client == 1), (50, 99))
    return {
        "ips": per(inserted, elapsed),
        "qps": per(count, elapsed) if kind == "query" else 0.0,
        "rps": counter_per(device, "reads", elapsed),
        "rmbps": counter_per(device, "read_kb", elapsed * 1024),
        "wps": counter_per(device, "writes", elapsed),
        "wmbps": counter_per(device, "written_kb", elapsed * 1024),
        "rpq": counter_per(device, "reads", count),
        "rkbpq": counter_per(device, "read_kb", count),
        "wpi": counter_per(device, "writes", inserted),
        "wkbpi": counter_per(device, "written_kb", inserted),
        "csps": counter_per(host, "switches", elapsed),
        "cpups": per(100.0 * busy_ns, all_ns) if busy_ns is not None else None,
        "cspq": counter_per(host, "switches", count),
        "cpupq": per(busy_ns / 1000, count) if busy_ns is not None else None,
        "ccpupq": per(totals.client_cpu_ns / 1000, count),
        "dbgb1": totals.database_bytes / GIB or None,
        "dbgb2": (totals.cluster_bytes or 0) / GIB or None,
        "rss": (totals.rss_bytes or 0) / GIB or None,
        "maxop": max_op_s(totals),
        "p50": percentiles[0],
        "p99": percentiles[1],
        "minlk": lookups if deletes else None,
        "minlkms": per(sum(role.min_lookup_ns for role in totals.roles.values()) / 1e6, lookups),
        "shortd": sum(role.short_deletes for role in deletes) if deletes else None,
    }


def rate_percentiles(kind: str, seconds: Iterable[Second], percents: Sequence[float]) -> list[float | None]:
    """The rate sustained in each of `percents` of the one-second intervals, all connections added up.

    Of the rates in falling order, element number round(x / 100 x count), so the 99th is a low one. None for fewer than
    ten intervals. A sliver, as the last interval often is, belongs to the one before it.
    """
    role = "query" if kind == "query" else "insert"
    end = attrgetter("t_ns")
    intervals: list[tuple[int, int]] = []  # count, length
    for _, tick in groupby(sorted((second for second in seconds if role_kind(second.role) == role), key=end), end):
        parts = [(second.count, second.dt_ns) for second in tick]
        count, length_ns = sum(part[0] for part in parts), max(part[1] for part in parts)
        if length_ns < SLIVER_NS and intervals:
            count, length_ns = count + intervals[-1][0], length_ns + intervals.pop()[1]
        intervals.append((count, length_ns))
    rates = sorted((count * 1e9 / length_ns for count, length_ns in intervals if length_ns > 0), reverse=True)
    if len(rates) < MIN_INTERVALS:
        return [None] * len(percents)
    return [rates[max(1, int(percent / 100 * len(rates) + 0.5)) - 1] for percent in percents]


def _text(value: float, digits: int) -> str:
    """A published figure as printed; values below 10 with decimals get three."""
    return f"{value:,.{max(digits, 3) if digits and abs(value) < 10 else digits}f}"

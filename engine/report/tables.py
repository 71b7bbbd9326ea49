"""The tables of a comparison, of probes' figures too: headings and rows of text, whatever they are printed on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from engine.analysis import metrics
from engine.analysis.run_results import load, published_by_cell
from engine.core.format import duration, size
from engine.report import probe_tables
from engine.report.section import (
    STYLES,
    UNITS,
    WHERE,
    WITHHELD,
    WORSE,
    Notes,
    Rows,
    Section,
    Table,
    bounds,
    number,
    ratio_text,
)
from engine.results.cell_step import CellStep, Incident
from engine.results.comparison import DELETE_PLAN, PRIMARY_METRICS, RATE, TIME, Comparison, middle
from workloads.base import role_kind
from workloads.histogram import REFERENCE_BUCKETS

PER_OP = (
    ("server_cpu_us_per_op", "server\nCPU us"),
    ("client_cpu_us_per_op", "client\nCPU us"),
    ("ctx_switches_per_op", "ctx\nswitch"),
    ("runq_us_per_op", "run-q\nus"),
    ("wal_bytes_per_op", "WAL\nbytes"),
    ("read_kb_per_op", "kB\nread"),
    ("written_kb_per_op", "kB\ndirtied"),
    ("device_written_kb_per_op", "device\nkB wr."),
)
BUCKETS_ACROSS = 6
BEYOND = REFERENCE_BUCKETS[-1][0]
TIMED_ROLES = ("insert", "delete", "query")  # in this order, others after them
LUMPED_ROLES = ("index", "transaction", "task")  # whose statements are too few for a distribution
STRIP_COLUMNS = 34


def headline(comparison: Comparison, notes: Notes) -> list[Section]:
    """Throughput and cost per operation: what is printed at the end of a run."""
    found = [table.filled(comparison, notes) for table in (THROUGHPUT, TIMES, PLANNING, PER_OPERATION)]
    return [section for section in found if section.rows]


def sections(comparison: Comparison, notes: Notes, *, published: bool = False) -> list[Section]:
    """All tables that have rows."""
    stalls = STALLS.filled(comparison, notes)
    if not stalls.rows and comparison.cells:
        stalls.add("none in any cell", "", "", "", "")
    found = [
        *(table.filled(comparison, notes) for table in (THROUGHPUT, TIMES, PLANNING, EVERY_CELL, EVERY_TIME)),
        PER_OPERATION.filled(comparison, notes),
        *(table.filled(comparison, notes) for table in _response_times(comparison)),
        stalls,
        _hangs(comparison),
        *(table.filled(comparison, notes) for table in (KEPT_UP, SIZES)),
        *(_published(comparison) if published else ()),
        *probe_tables.probed(comparison, notes),
    ]
    return [section for section in found if section.rows]


def _judged(metric: str, comparison: Comparison, notes: Notes, step: str, subject: str) -> Rows:
    value = comparison.median(subject, step, metric)
    if value is None:
        return
    found, text = comparison.ratio(subject, step, metric), value_text(metric, value)
    if found is None:
        yield (text, "1" if subject == comparison.base else "", "", ""), ""
        return
    fewer = f", {found.pairs} pairs" if 1 < found.pairs < comparison.pairs else ""
    verdict = found.verdict_text + notes.mark(found.remarks) + fewer
    floor = f" (A/A {found.noise_floor:.1%})" if found.noise_floor is not None and not found.control else ""
    yield (text, ratio_text(found), bounds(found), verdict + floor), STYLES.get(found.sign, "")
    titles = {each.name: each.title for each in comparison.metrics}
    for cause in comparison.causes(found) if metric in PRIMARY_METRICS else ():
        yield ("", ratio_text(cause), bounds(cause), f"  {titles[cause.metric]}"), "dim"


def _every_cell(metric: str, comparison: Comparison, _: Notes, step: str, subject: str) -> Rows:
    """A dot for each cell, all builds of a step on one scale; a digit where several coincide."""
    values = comparison.values(subject, step, metric)
    everything = [value for other in comparison.names for value in comparison.values(other, step, metric)]
    if len(everything) > 1 and values:
        low, high = (value_text(metric, bound) for bound in (min(values), max(values)))
        yield (low, strip(values, min(everything), max(everything)), high), ""


def value_text(metric: str, value: float | None) -> str:
    """A figure that a step is judged by: a time with its unit."""
    return duration(value) if metric == TIME else number(value)


def strip(values: Sequence[float], low: float, high: float, columns: int = STRIP_COLUMNS) -> str:
    """One line of text with an `o` at each value's place between low and high."""
    counts = [0] * columns
    for value in values:
        counts[round((value - low) / (high - low) * (columns - 1)) if high > low else columns // 2] += 1
    return "".join("·" if count == 0 else "o" if count == 1 else str(min(count, 9)) for count in counts)


def _per_operation(comparison: Comparison, _: Notes, step: str, subject: str) -> Rows:
    values = [comparison.median(subject, step, name) for name, _ in PER_OP]
    if any(value is not None for value in values):
        yield tuple(map(number, values)), ""
        found = [comparison.ratio(subject, step, name) for name, _ in PER_OP]
        if any(ratio is not None for ratio in found):
            yield tuple(map(ratio_text, found)), "dim"


def _response_times(comparison: Comparison) -> Iterable[Table]:
    """Per role the reference's buckets in percent, all cells of a build together; see `_joined` for how many."""
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
            yield _bucket_table(
                role, _joined([metrics.bucket_percent(row) for row in counts.values()]), counts, longest
            )


def _joined(rows: Sequence[Mapping[str, float]]) -> dict[str, list[str]]:
    """The used buckets as columns, each called by the longest time that it holds.

    Where there are more than fit, that which is least in all rows is joined with the next longer one.
    """
    labels = [label for label, _ in REFERENCE_BUCKETS]
    columns = {label: [label] for label in labels if any(row.get(label) for row in rows)}

    def most(label: str) -> float:
        return max(sum(row.get(part, 0.0) for part in columns[label]) for row in rows)

    while len(columns) > BUCKETS_ACROSS:
        order = list(columns)
        least = min(order[: -2 if BEYOND in columns else -1], key=most)  # the last is of all that is longer
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


def _stalls(comparison: Comparison, _: Notes, step: str, subject: str) -> Rows:
    cells = comparison.of(subject, step)
    longest = _longest_incident(cells)
    if longest is not None:
        seconds = f"! {sum(cell.stall_s for cell in cells):.1f}"
        stalled = f"{sum(bool(cell.stalls) for cell in cells)} of {len(cells)}"
        yield (seconds, stalled, f"{longest.seconds:.1f} {longest.roles}", longest.main.cause), WORSE


def _hangs(comparison: Comparison) -> Section:
    """What was seen of the longest stall of each step and build at the moment in which it began."""
    section = Section("Where the longest stalls were blocked when they began", ("step and build", WHERE))
    for step in comparison.steps:
        for name in comparison.names:
            longest = _longest_incident(comparison.of(name, step))
            for place, line in enumerate(longest.where if longest is not None else ()):
                section.add(f"{step} {name}" if place == 0 else "", line)
    return section


def _longest_incident(cells: Sequence[CellStep]) -> Incident | None:
    found = (incident for cell in cells for incident in cell.incidents)
    return max(found, key=lambda incident: incident.seconds, default=None)


def _kept_up(comparison: Comparison, _: Notes, step: str, subject: str) -> Rows:
    judged = [cell.sla for cell in comparison.of(subject, step) if cell.sla is not None]
    if judged:
        passed = sum(sla.passed for sla in judged)
        worst = min(sla.achieved_per_s / sla.target_per_s for sla in judged)
        ok = passed == len(judged)
        state = f"{'ok' if ok else 'x missed'} {passed}/{len(judged)}"
        published = sum(sla.reference_passed for sla in judged)
        cells = (number(judged[0].target_per_s), f"{worst:.1%}", state, f"{published}/{len(judged)}")
        yield cells, "" if ok else WITHHELD


def _sizes(comparison: Comparison, _: Notes, step: str, subject: str) -> Rows:
    if comparison.of(subject, step):
        names = ("heap_bytes", "index_bytes", "database_bytes", "cluster_bytes")
        found = (comparison.median(subject, step, name) for name in names)
        heap, indexes, database, cluster = ("-" if value is None else size(value) for value in found)
        ratios = [ratio_text(comparison.ratio(subject, step, name)) for name in names[:2]]
        yield (heap, ratios[0], indexes, ratios[1], database, cluster), ""


def _published(comparison: Comparison) -> list[Section]:
    runs = [load(Path(folder)) for folder in comparison.folders.values()]
    names = {(cell.run, cell.cell): cell.subject for cell in comparison.cells}
    lines = [(names.get((cell.run, cell.cell.id)), step, line) for cell, step, line in published_by_cell(runs)]
    found = []
    measured = {step for _, step, line in lines if line["ips"] or line["qps"]}  # a pause has no figures
    for step in (step for step in comparison.steps if step in measured):
        for start in range(0, len(comparison.names), 4):
            shown = comparison.names[start : start + 4]
            section = Section(f"{step}: the published figures (median of cells)", ("", "unit", *shown))
            for figure, (unit, digits) in (metrics.PUBLISHED | metrics.UNPUBLISHED).items():
                values = [
                    middle(
                        [v for of, at, line in lines if (of, at) == (name, step) and (v := line[figure]) is not None]
                    )
                    for name in shown
                ]
                if any(value is not None for value in values):
                    texts = ("NA" if value is None else metrics.published_text(value, digits) for value in values)
                    section.add(figure, unit, *texts)
            found.append(section)
    return found


THROUGHPUT = Table(
    "Throughput (median of cells, ratio to base)",
    (UNITS, "ratio", "95 %", "verdict"),
    partial(_judged, RATE),
    below="",
)
TIMES = Table(
    "Time (median of cells, ratio to base; less is better)",
    ("time", "ratio", "95 %", "verdict"),
    partial(_judged, TIME),
    below="",
)
PLANNING = Table(
    "Planning a DELETE (median of cells, ratio to base; less is better)",
    ("us", "ratio", "95 %", "verdict"),
    partial(_judged, DELETE_PLAN),
    below="",
)
EVERY_CELL = Table(f"Every cell ({UNITS})", ("lowest", "", "highest"), partial(_every_cell, RATE))
EVERY_TIME = Table("Every cell (time)", ("shortest", "", "longest"), partial(_every_cell, TIME))
PER_OPERATION = Table(
    "Per operation (median of cells; below it the ratio to base)", tuple(title for _, title in PER_OP), _per_operation
)
STALLS = Table("Stalls", ("seconds", "cells", "longest", "its cause"), _stalls)
KEPT_UP = Table(
    "Insert rate kept up (95 % rule)",
    ("target\nrows/s", "lowest\nachieved", "SLA cells", "by whole\nseconds"),
    _kept_up,
)
SIZES = Table("Sizes after the step", ("heap", "/ base", "indexes", "/ base", "database", "data\nfolder"), _sizes)

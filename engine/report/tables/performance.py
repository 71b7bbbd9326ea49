"""Speed and cost: primary metrics, sweeps, SLAs and sizes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from engine.report.tables.section import UNITS, Line, Table, per_operation, with_units
from engine.report.tables.text_plots import strip
from engine.results.comparison import Comparison
from engine.results.ratio import DELETE_PLAN, PRIMARY_METRICS, RATE, TIME, Ratio
from engine.results.section import WORDS, Column, Figure, Row, Section, columns, of_ratio, row

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
READS = ("reads_per_op", "pages_read_per_op", "read_kb_per_op", "read_us_per_op", "rate_per_s")
PAGES, LEAST_READS = "pages_read_per_op", 0.01
ROOM = 54  # for the dots of all subjects and their marks
NAME = 13  # letters of a subject in a heading's line
TWO_MODES = "2 modes"


def _judged(metric: str, comparison: Comparison, step: str, subject: str) -> Iterable[Line]:
    value = comparison.figure(subject, step, metric)
    if value is None:
        return
    ratio = comparison.ratio(subject, step, metric)
    if ratio is None:
        yield (value, "1" if subject == comparison.base else "", ""), ""
        return
    yield (value, of_ratio(ratio), Figure(_verdict(ratio, comparison), remarks=ratio.remarks)), ratio.sign
    titles = {known.name: known.title for known in comparison.metrics}
    for cause in comparison.causes(ratio) if metric in PRIMARY_METRICS else ():
        yield ("", of_ratio(cause), f"  {titles[cause.metric]}"), "dim"


def _verdict(ratio: Ratio, comparison: Comparison) -> str:
    fewer = f", {ratio.pairs} pairs" if 1 < ratio.pairs < comparison.pairs else ""
    floor = f" (A/A {ratio.noise_floor:.1%})" if ratio.noise_floor is not None and not ratio.control else ""
    return f"{ratio.verdict_text}{fewer}{floor}"


def _every_cell(metric: str, comparison: Comparison, step: str, subject: str) -> Iterable[Line]:
    """A dot for each cell, all builds of a step on one scale; a digit where several coincide."""
    values = comparison.values(subject, step, metric)
    everything = [value for other in comparison.names for value in comparison.values(other, step, metric)]
    if len(everything) > 1 and values:
        yield (min(values), strip(values, min(everything), max(everything)), max(values)), ""


def _reads(comparison: Comparison, step: str, subject: str) -> Iterable[Line]:
    if max((comparison.figure(name, step, PAGES) or 0.0 for name in comparison.names), default=0.0) >= LEAST_READS:
        yield from per_operation(READS, comparison, step, subject)


def _kept_up(comparison: Comparison, step: str, subject: str) -> Iterable[Line]:
    judged = [cell.sla for cell in comparison.of(subject, step) if cell.sla is not None]
    if judged:
        passed = sum(sla.passed for sla in judged)
        worst = min(sla.achieved_per_s / sla.target_per_s for sla in judged)
        ok = passed == len(judged)
        state = f"{'ok' if ok else 'x missed'} {passed}/{len(judged)}"
        published = sum(sla.reference_passed for sla in judged)
        yield (judged[0].target_per_s, worst, state, f"{published}/{len(judged)}"), "" if ok else "?"


def _sizes(comparison: Comparison, step: str, subject: str) -> Iterable[Line]:
    if comparison.of(subject, step):
        names = ("heap_bytes", "index_bytes", "database_bytes", "cluster_bytes")
        heap, indexes, database, cluster = (comparison.figure(subject, step, name) for name in names)
        if any((heap, indexes, database, cluster)):  # none of a server that is only watched
            ratios = [of_ratio(comparison.ratio(subject, step, name)) for name in names[:2]]
            yield (heap, ratios[0], indexes, ratios[1], database, cluster), ""


def repeats(comparison: Comparison) -> Iterable[Section]:
    """Every repeat of a sweep's steps, as dots."""
    for sweep in comparison.section("sweep"):
        names = [column.name for column in sweep.columns[1:] if column.name in comparison.names]
        points = [(point.name, point.step) for point in sweep.rows if point.step]
        marks = {(name, step): _modes(comparison, name, step) for _, step in points for name in names}
        room = ROOM // len(names) - max(map(len, marks.values()))
        rows = []
        for value, step in points:
            every = [value for name in comparison.names for value in comparison.values(name, step, RATE)]
            if len(every) > 1:
                dots = (
                    strip(comparison.values(name, step, RATE), min(every), max(every), room) + marks[name, step]
                    for name in names
                )
                rows.append(row(value, min(every), *dots, max(every)))
        if not rows:
            continue
        swept = sweep.columns[0].name
        unit = comparison.units[points[0][1]]  # of all its steps
        title = f"Every repeat by number of {swept} ({unit}, lowest to highest of a row)"
        yield Section("repeats", title, columns(swept, "lowest", *names, "highest"), tuple(rows))


def _modes(comparison: Comparison, name: str, step: str) -> str:
    spread = comparison.spread(name, step, RATE)
    return f" {TWO_MODES}" if spread is not None and spread.bimodal else ""


@dataclass(frozen=True, slots=True)
class Judged:
    """The table of a metric with verdicts: a line for each step, or for each of its subjects if these are not two."""

    title: str
    heading: str
    metric: str

    def __call__(self, comparison: Comparison) -> Iterable[Section]:
        lines, unit = partial(_judged, self.metric), "s" if self.metric == TIME else ""
        judged = (Column("ratio", "ratio", bounds="95%"), Column("verdict", WORDS))
        if len(comparison.names) != 2:
            headings = (Column(self.heading, unit), *judged)
            yield from Table(self.metric, self.title, headings, lines, below="")(comparison)
            return
        names = (Column("\n".join(textwrap.wrap(name, NAME)), unit) for name in comparison.names)
        rows: list[Row] = []
        for step in comparison.steps:
            base, other = (list(lines(comparison, step, name)) for name in comparison.names)
            figure = base[0][0][0] if base else None
            for place, ((value, *verdict), mark) in enumerate(other or [((None, "", ""), "")] * bool(base)):
                start = ("", "") if place else (step, figure)
                rows.append(row(str(start[0]), start[1], value, *verdict, subject=comparison.names[1], mark=mark))
        title = with_units(self.title, comparison)
        yield Section(self.metric, title, columns("step", *names, *judged), tuple(rows))


THROUGHPUT = Judged(f"Throughput in {UNITS} (mean of cells, ratio to base)", UNITS, RATE)
TIMES = Judged("Time (mean of cells, ratio to base; less is better)", "time", TIME)
PLANNING = Judged("Planning a DELETE in us (mean of cells, ratio to base; less is better)", "us", DELETE_PLAN)
EVERY_CELL = Table("cells", f"Every cell ({UNITS})", ("lowest", "", "highest"), partial(_every_cell, RATE))
EVERY_TIME = Table(
    "times", "Every cell (time)", (Column("shortest", "s"), "", Column("longest", "s")), partial(_every_cell, TIME)
)
PER_OPERATION = Table(
    "per operation",
    "Per operation (mean of cells; below it the ratio to base)",
    tuple(title for _, title in PER_OP),
    partial(per_operation, [name for name, _ in PER_OP]),
)
READ = Table(
    "reads",
    "Reads per operation (mean of cells; below it the ratio to base)",
    ("reads\n(18 on)", "pages\nread", "kB from\ndevice", "us\nreading", UNITS),
    _reads,
)
KEPT_UP = Table(
    "kept up",
    "Insert rate kept up (95% rule)",
    ("target\nrows/s", Column("lowest\nachieved", "share"), "SLA cells", "by whole\nseconds"),
    _kept_up,
)
SIZES = Table(
    "sizes",
    "Sizes after the step",
    (Column("heap", "bytes"), "/ base", Column("indexes", "bytes"), "/ base", Column("database", "bytes"),
     Column("data\nfolder", "bytes")),
    _sizes,
)  # fmt: skip

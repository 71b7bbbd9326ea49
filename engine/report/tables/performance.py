"""How fast and how costly: primary metrics, sweeps, SLAs and sizes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from engine.core.format import size
from engine.report.tables.section import (
    STYLES,
    UNITS,
    WITHHELD,
    Notes,
    Rows,
    Section,
    Table,
    bounds,
    number,
    ratio_text,
    value_text,
    with_units,
)
from engine.report.tables.text_plots import strip
from engine.results.comparison import Comparison
from engine.results.ratio import DELETE_PLAN, PRIMARY_METRICS, RATE, TIME
from engine.results.sweep import Sweep

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
ACROSS = 3  # subjects in one table of 80 columns
ROOM = 54  # for the dots of all subjects and their marks
NAME = 13  # letters of a subject in a heading's line
TWO_MODES = "2 modes"
CHANGED = "in one repeat or more the rate changed within the step: see below, when and from what to what"


def _judged(metric: str, comparison: Comparison, notes: Notes, step: str, subject: str) -> Rows:
    value = comparison.figure(subject, step, metric)
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


def _per_operation(comparison: Comparison, _: Notes, step: str, subject: str) -> Rows:
    values = [comparison.figure(subject, step, name) for name, _ in PER_OP]
    if any(value is not None for value in values):
        yield tuple(map(number, values)), ""
        found = [comparison.ratio(subject, step, name) for name, _ in PER_OP]
        if any(ratio is not None for ratio in found):
            yield tuple(map(ratio_text, found)), "dim"


def _reads(comparison: Comparison, _: Notes, step: str, subject: str) -> Rows:
    least = max((comparison.figure(name, step, PAGES) or 0.0 for name in comparison.names), default=0.0)
    if least >= LEAST_READS:
        for place, show in enumerate((_figure_of, _ratio_of)):
            texts = tuple(show(comparison, step, subject, name) for name in READS)
            if any(texts):
                yield texts, "dim" if place else ""


def _figure_of(comparison: Comparison, step: str, subject: str, metric: str) -> str:
    return number(comparison.figure(subject, step, metric))


def _ratio_of(comparison: Comparison, step: str, subject: str, metric: str) -> str:
    return ratio_text(comparison.ratio(subject, step, metric))


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
        found = [comparison.figure(subject, step, name) for name in names]
        if not any(found):  # of a server that is only watched
            return
        heap, indexes, database, cluster = ("-" if value is None else size(value) for value in found)
        ratios = [ratio_text(comparison.ratio(subject, step, name)) for name in names[:2]]
        yield (heap, ratios[0], indexes, ratios[1], database, cluster), ""


def sweeps(comparison: Comparison, notes: Notes) -> Iterable[Section]:
    """Each sweep's figures with their ratios, the peaks below; then every repeat."""
    for sweep, names in _parts(comparison):
        yield _figures(comparison, sweep, names)
        yield _repeats(comparison, sweep, names, notes)


def sweep_figures(comparison: Comparison, _: Notes) -> Iterable[Section]:
    yield from (_figures(comparison, sweep, names) for sweep, names in _parts(comparison))


def _parts(comparison: Comparison) -> Iterable[tuple[Sweep, Sequence[str]]]:
    for sweep in comparison.sweeps:
        for start in range(0, len(comparison.names), ACROSS):
            yield sweep, comparison.names[start : start + ACROSS]


def _figures(comparison: Comparison, sweep: Sweep, names: Sequence[str]) -> Section:
    section = Section(f"{sweep.unit} by number of {sweep.name} (mean of cells, ratio to base)", (sweep.name, *names))
    for point in sweep.points:
        section.add(f"{point.value:g}", *(_figure(comparison, name, point.step) for name in names))
    peaks = {peak.subject: peak for peak in sweep.peaks}
    shown = [peaks.get(name) for name in names]
    section.add(
        "peak",
        *(
            "-"
            if peak is None
            else number(peak.rate_per_s)
            + (f"  {peak.ratio:.3f}" if peak.ratio and peak.subject != comparison.base else "")
            for peak in shown
        ),
    )
    section.add(f"{sweep.name} at peak", *("-" if peak is None else f"{peak.value:g}" for peak in shown))
    return section


def _figure(comparison: Comparison, name: str, step: str) -> str:
    ratio = comparison.ratio(name, step, RATE)
    against = f" {ratio_text(ratio)}" if ratio is not None else ""
    return number(comparison.figure(name, step, RATE)) + against


def _repeats(comparison: Comparison, sweep: Sweep, names: Sequence[str], notes: Notes) -> Section:
    section = Section(
        f"Every repeat by number of {sweep.name} ({sweep.unit}, lowest to highest of a row)",
        (sweep.name, "lowest", *names, "highest"),
    )
    changed = {(change.subject, change.step) for change in sweep.changes}
    marks = {
        (name, point.step): _modes(comparison, name, point.step)
        + (notes.mark((CHANGED,)) if (name, point.step) in changed else "")
        for point in sweep.points
        for name in names
    }
    columns = ROOM // len(names) - max(map(len, marks.values()))
    for point in sweep.points:
        every = [value for name in comparison.names for value in comparison.values(name, point.step, RATE)]
        if len(every) > 1:
            dots = (
                strip(comparison.values(name, point.step, RATE), min(every), max(every), columns)
                + marks[name, point.step]
                for name in names
            )
            section.add(f"{point.value:g}", number(min(every)), *dots, number(max(every)))
    return section


def _modes(comparison: Comparison, name: str, step: str) -> str:
    spread = comparison.spread(name, step, RATE)
    return f" {TWO_MODES}" if spread is not None and spread.bimodal else ""


@dataclass(frozen=True, slots=True)
class Judged:
    """The table of a metric with verdicts: a line for each step, or for each of its subjects if these are not two."""

    title: str
    unit: str
    metric: str

    def __call__(self, comparison: Comparison, notes: Notes) -> Iterable[Section]:
        rows = partial(_judged, self.metric)
        if len(comparison.names) != 2:
            yield from Table(self.title, (self.unit, "ratio", "95%", "verdict"), rows, below="")(comparison, notes)
            return
        names = ("\n".join(textwrap.wrap(name, NAME)) for name in comparison.names)
        section = Section(with_units(self.title, comparison), ("step", *names, "ratio", "95%", "verdict"))
        for step in comparison.steps:
            base, other = (list(rows(comparison, notes, step, name)) for name in comparison.names)
            figure = base[0][0][0] if base else "-"
            for place, ((value, *judged), style) in enumerate(other or [(("-", "", "", ""), "")] * bool(base)):
                section.add(*(("", "") if place else (step, figure)), value, *judged, style=style)
        yield section


THROUGHPUT = Judged(f"Throughput in {UNITS} (mean of cells, ratio to base)", UNITS, RATE)
TIMES = Judged("Time (mean of cells, ratio to base; less is better)", "time", TIME)
PLANNING = Judged("Planning a DELETE in us (mean of cells, ratio to base; less is better)", "us", DELETE_PLAN)
EVERY_CELL = Table(f"Every cell ({UNITS})", ("lowest", "", "highest"), partial(_every_cell, RATE))
EVERY_TIME = Table("Every cell (time)", ("shortest", "", "longest"), partial(_every_cell, TIME))
PER_OPERATION = Table(
    "Per operation (mean of cells; below it the ratio to base)", tuple(title for _, title in PER_OP), _per_operation
)
READ = Table(
    "Reads per operation (mean of cells; below it the ratio to base)",
    ("reads\n(18 on)", "pages\nread", "kB from\ndevice", "us\nreading", UNITS),
    _reads,
)
KEPT_UP = Table(
    "Insert rate kept up (95% rule)",
    ("target\nrows/s", "lowest\nachieved", "SLA cells", "by whole\nseconds"),
    _kept_up,
)
SIZES = Table("Sizes after the step", ("heap", "/ base", "indexes", "/ base", "database", "data\nfolder"), _sizes)

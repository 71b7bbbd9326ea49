"""The tables of a comparison, of probes' figures too: headings and rows of text, whatever they are printed on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from engine.analysis import metrics
from engine.analysis.results import load, published_by_cell
from engine.core.cell_step import CellStep, Incident
from engine.core.comparison import RATE, TIME, Comparison, Ratio, middle
from engine.core.format import duration, size
from engine.core.totals import role_place
from probes.table import PHASES
from workloads.base import role_kind
from workloads.histogram import REFERENCE_BUCKETS

BETTER, WORSE, WITHHELD = "#0072B2", "#D55E00", "#CC79A7"
ARROWS = {"better": "▲", "worse": "▼"}
STYLES = {"better": BETTER, "worse": WORSE, "?": WITHHELD, "=": "dim", "~": "dim"}  # by sign
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
TIMED_ROLES = ("insert", "delete", "query")  # in this order, others after them
LUMPED_ROLES = ("index", "transaction", "task")  # whose statements are too few for a distribution
STRIP_COLUMNS = 34
WHERE = "where"  # a column of words
UNITS = "{units}"  # in titles and headings: what the rates of the steps count


Row = tuple[tuple[str, ...], str]  # cells, style


@dataclass(slots=True)
class Section:
    """A table: a heading, its columns, rows of text with their styles. A row of one cell is a step's name."""

    title: str
    columns: tuple[str, ...]
    rows: list[Row] = field(default_factory=list)

    def add(self, *cells: str) -> None:
        """Adds a row without a style."""
        self.rows.append((cells, ""))

    def add_step(self, step: str, rows: Sequence[Row]) -> None:
        """Adds the rows of a step below its name; nothing where there are none."""
        self.rows += [((step,), "bold"), *rows] if rows else []


class Notes:
    """Numbered reasons, each printed once below the tables."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[str, ...], int] = {}

    def mark(self, reasons: tuple[str, ...]) -> str:
        """The mark of these reasons: `(1)`; empty where there are none."""
        if not reasons:
            return ""
        return f" ({self.numbers.setdefault(reasons, len(self.numbers) + 1)})"

    def lines(self) -> list[str]:
        """What the marks mean."""
        return [f"({number}) {'; '.join(reasons)}" for reasons, number in self.numbers.items()]


Rows = Iterable[Row]  # of one subject in one step
ProbedRow = Callable[[list[dict[str, Any]], Notes], tuple[str, ...] | None]  # of the cells' figures of one role


@dataclass(frozen=True, slots=True)
class Table:
    """What a section by steps is made of: its heading, its columns but the first, the rows of a step and subject.

    All rows of a subject but the first are called `below`.
    """

    title: str
    columns: tuple[str, ...]
    rows: Callable[[Comparison, Notes, str, str], Rows]
    below: str = "    / base"

    def filled(self, comparison: Comparison, notes: Notes) -> Section:
        """The section: the subject's name stands before the first of its rows."""
        of_rates = (unit for step, unit in comparison.units.items() if comparison.judged_by(step) == RATE)
        units = tuple(dict.fromkeys(of_rates)) or ("ops/s",)
        columns = (column.replace(UNITS, " or\n".join(units)) for column in self.columns)
        section = Section(self.title.replace(UNITS, " or ".join(units)), ("step and build", *columns))
        for step in comparison.steps:
            rows = [
                ((f"  {name}" if place == 0 else self.below, *cells), style)
                for name in comparison.names
                for place, (cells, style) in enumerate(self.rows(comparison, notes, step, name))
            ]
            section.add_step(step, rows)
        return section


def headline(comparison: Comparison, notes: Notes) -> list[Section]:
    """Throughput and cost per operation: what is printed at the end of a run."""
    found = [table.filled(comparison, notes) for table in (THROUGHPUT, TIMES, PER_OPERATION)]
    return [section for section in found if section.rows]


def sections(comparison: Comparison, notes: Notes, *, published: bool = False) -> list[Section]:
    """All tables that have rows."""
    probed = list(_probed(comparison, notes))  # first, so that their reasons have the first numbers
    stalls = STALLS.filled(comparison, notes)
    if not stalls.rows and comparison.cells:
        stalls.add("none in any cell", "", "", "", "")
    found = [
        *(table.filled(comparison, notes) for table in (THROUGHPUT, TIMES, EVERY_CELL, EVERY_TIME, PER_OPERATION)),
        *(table.filled(comparison, notes) for table in _response_times(comparison)),
        stalls,
        _hangs(comparison),
        *(table.filled(comparison, notes) for table in (KEPT_UP, SIZES)),
        *(_published(comparison) if published else ()),
        *probed,
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
    floor = f" (A/A {found.noise_floor:.1%})" if found.noise_floor is not None and not found.arm else ""
    yield (text, ratio_text(found), bounds(found), verdict + floor), STYLES.get(found.sign, "")
    titles = {each.name: each.title for each in comparison.metrics}
    for cause in comparison.causes(found):
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
    """Per role the reference's buckets in percent, all cells of a build together; empty buckets are not shown."""
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
        labels = [label for label, _ in REFERENCE_BUCKETS]
        used = [label for place, label in enumerate(labels) if any(row[place] for row in counts.values())]
        for start in range(0, len(used), BUCKETS_ACROSS):
            yield _bucket_table(role, used[start : start + BUCKETS_ACROSS], counts, longest)


def _bucket_table(
    role: str,
    labels: Sequence[str],
    counts: dict[tuple[str, str], list[int]],
    longest: dict[tuple[str, str], float],
) -> Table:
    def rows(_: Comparison, __: Notes, step: str, subject: str) -> Rows:
        if (step, subject) in counts:
            percent = metrics.bucket_percent(counts[step, subject])
            texts = (metrics.bucket_text(percent.get(label, 0.0)) for label in labels)
            yield (*texts, f"{longest[step, subject]:.3f}"), ""

    columns = (*(f"<={label}" if label != "gt" else ">16s" for label in labels), "max s")
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


def _probed(comparison: Comparison, notes: Notes) -> Iterable[Section]:
    """What probes saw, by step, role and subject: planning, phases of statements, waits for a CPU."""
    for title, columns, row in PROBED:
        section = Section(title, ("step, build and role", *columns))
        for step in comparison.steps:
            rows = [
                ((f"  {name} {role}", *cells), "")
                for role in _roles(comparison, step)
                for name in comparison.names
                if (cells := row(_figures(comparison, name, step, role), notes)) is not None
            ]
            section.add_step(step, rows)
        yield section


def _planning(cells: list[dict[str, Any]], notes: Notes) -> tuple[str, ...] | None:
    """How often and how long a role planned, and what of it was reading index ends.

    A mark leads to why there is no figure per statement.
    """
    if not any(cell.get("plan_n") for cell in cells):
        return None
    return (
        number(_middle(cells, "plan_n")),
        number(_middle(cells, "plan_mean_us")),
        number(_largest(cells, "plan_p99_us")),
        number(_largest(cells, "plan_max_us")),
        number(_middle(cells, "plan_us_per_statement")) + notes.mark(_reasons(cells)),
        percent(_middle(cells, "endpoint_share")),
        number(_middle(cells, "leaf_pages_per_plan")),
    )


def _phases(cells: list[dict[str, Any]], _: Notes) -> tuple[str, ...] | None:
    """How the time of statements splits; the last column says how it was found."""
    found = [cell for cell in cells if cell.get("phases")]
    if not found:
        return None
    shares = [[cell["phases"].get(phase, 0.0) for cell in found] for phase in (*PHASES, "other")]
    ways = sorted({str(cell["phases_by"]) for cell in found})
    return (*(percent(middle(values)) for values in shares), "/".join(ways))


def _run_queue(cells: list[dict[str, Any]], _: Notes) -> tuple[str, ...] | None:
    """How long the server processes of a role waited for a CPU."""
    if not any(cell.get("runq_us") for cell in cells):
        return None
    quantiles = (number(_largest(cells, f"runq_{name}_us")) for name in ("p50", "p99", "max"))
    return number((_middle(cells, "runq_us") or 0) / 1000), *quantiles


def _roles(comparison: Comparison, step: str) -> tuple[str, ...]:
    """The roles of a step's connections that any probe saw."""
    there = {role for subject in comparison.names for cell in comparison.of(subject, step) for role in _seen(cell)}
    return tuple(sorted(there, key=role_place))


def _seen(cell: CellStep) -> Iterable[str]:
    return (role for role in cell.probes if role in cell.roles)


def _figures(comparison: Comparison, subject: str, step: str, role: str) -> list[dict[str, Any]]:
    return [cell.probes[role] for cell in comparison.of(subject, step) if role in _seen(cell)]


def _reasons(cells: list[dict[str, Any]]) -> tuple[str, ...]:
    """Why there is no figure per statement, or one of few frames."""
    withheld = [f"withheld: {cell['plan_withheld']}" for cell in cells if "plan_withheld" in cell]
    few = ["few frames in this step: partial seconds distort the figures" for cell in cells if "plan_frames" in cell]
    return tuple(dict.fromkeys(withheld + (few if not withheld else [])))


def _middle(cells: list[dict[str, Any]], name: str) -> float | None:
    return middle([cell[name] for cell in cells if cell.get(name) is not None])


def _largest(cells: list[dict[str, Any]], name: str) -> float | None:
    return max((cell[name] for cell in cells if cell.get(name) is not None), default=None)


def number(value: float | None) -> str:
    """Four digits or so, thousands separated."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2 if abs(value) >= 1 else 3
    return f"{value:,.{digits}f}"


def percent(value: float | None) -> str:
    """`12.3%`; a dash where there is no value."""
    return "-" if value is None else f"{value:.1%}"


def ratio_text(ratio: Ratio | None) -> str:
    if ratio is None or ratio.ratio is None:
        return ""
    sign = ratio.sign
    return f"{ARROWS.get(sign, sign)}{ratio.ratio:.{3 if ratio.ratio < 100 else 0}f}"


def bounds(ratio: Ratio) -> str:
    return "" if ratio.low is None or ratio.high is None else f"{ratio.low:.3f}-{ratio.high:.3f}"


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
PROBED: tuple[tuple[str, tuple[str, ...], ProbedRow], ...] = (
    ("Planner (medians of cells; p99 and max of the worst)",
     ("plan-\nnings", "us\neach", "p99\n<= us", "max\nus", "us per\nstatem.", "index\nends", "leaf\npages"), _planning),
    ("Phases of statements (medians of cells)", (*PHASES, "other", "by"), _phases),
    ("Waits for a CPU (median of cells; p50, p99 and max of the worst)",
     ("ms\nin all", "p50\n<= us", "p99\n<= us", "max\nus"), _run_queue),
)  # fmt: skip

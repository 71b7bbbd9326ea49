"""The tables of a comparison: headings and rows of text, whatever they are then printed on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine import hangs, metrics
from engine.comparison import Comparison, Ratio, middle
from engine.model import Subject, sla
from engine.results import StepResult, published_by_cell
from workloads.histogram import REFERENCE_BUCKETS

GLYPHS = {"faster": "▲", "slower": "▼", "same": "=", "inconclusive": "~", "withheld": "?", "none": " "}
STYLES = {"faster": "#0072B2", "slower": "#D55E00", "withheld": "#CC79A7", "same": "dim", "inconclusive": "dim"}
PER_OP = (
    ("dbms_cpu_us_per_op", "server\nCPU us"),
    ("client_cpu_us_per_op", "client\nCPU us"),
    ("ctx_switches_per_op", "ctx\nswitch"),
    ("runq_us_per_op", "run-q\nus"),
    ("wal_bytes_per_op", "WAL\nbytes"),
    ("read_kb_per_op", "kB\nread"),
    ("written_kb_per_op", "kB\ndirtied"),
    ("device_written_kb_per_op", "device\nkB wr."),
)
BUCKETS_ACROSS = 6
STRIP_COLUMNS = 34
WHERE = "where"  # a column of words

Rows = Iterable[tuple[tuple[str, ...], str]]  # of one subject in one step: cells, style


@dataclass(slots=True)
class Section:
    """A table: a heading, its columns, rows of text. A row of one cell is a step's name. `styles` are by row."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    styles: list[str] = field(default_factory=list)

    def add(self, *cells: str, style: str = "") -> None:
        """Adds a row."""
        self.rows.append(cells)
        self.styles.append(style)


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


def headline(comparison: Comparison, notes: Notes) -> list[Section]:
    """How fast, and at what cost per operation: what a run ends with."""
    return [section for section in (_throughput(comparison, notes), _per_operation(comparison)) if section.rows]


def sections(comparison: Comparison, notes: Notes, *, published: bool = False) -> list[Section]:
    """All tables that have rows."""
    found = [
        _throughput(comparison, notes),
        _every_cell(comparison),
        _per_operation(comparison),
        *_response_times(comparison),
        _stalls(comparison),
        _hangs(comparison),
        _sla(comparison),
        _sizes(comparison),
    ]
    if published:
        found += _published(comparison)
    return [section for section in found if section.rows]


def _by_step(comparison: Comparison, section: Section, row: Callable[[str, Subject], Rows]) -> Section:
    """Fills a table: a step's name, then the rows of each subject (cells, style) indented below it."""
    for step in comparison.steps:
        rows = [
            (f"  {name}" if place == 0 else "    / base", cells, style)
            for subject, name in comparison.names.items()
            for place, (cells, style) in enumerate(row(step, subject))
        ]
        if rows:
            section.add(step, style="bold")
            for title, cells, style in rows:
                section.add(title, *cells, style=style)
    return section


def _throughput(comparison: Comparison, notes: Notes) -> Section:
    def rows(step: str, subject: Subject) -> Rows:
        rate = middle(comparison.values(subject, step, "rate_per_s"))
        if rate is None:
            return
        found = comparison.ratio(subject, step, "rate_per_s")
        if found is None:
            yield (number(rate), "1" if subject == comparison.base else "", "", ""), ""
            return
        words = {"none": "", "inconclusive": "inconclusive" + _more(found.more_pairs)}
        fewer = f", {found.pairs} pairs" if 1 < found.pairs < comparison.most_pairs() else ""
        verdict = words.get(found.verdict, found.verdict) + notes.mark(found.reasons) + fewer
        floor = f" (A/A {found.noise_floor:.1%})" if found.noise_floor is not None and subject.arm == "" else ""
        yield (number(rate), _ratio_text(found), _bounds(found), verdict + floor), STYLES.get(found.verdict, "")

    columns = ("step and build", "rows/s or\nqueries/s", "ratio", "95 %", "verdict")
    return _by_step(comparison, Section("Throughput (median of cells, ratio to base)", columns), rows)


def _every_cell(comparison: Comparison) -> Section:
    """A dot for each cell, all builds of a step on one scale; a digit where several coincide."""

    def rows(step: str, subject: Subject) -> Rows:
        values = comparison.values(subject, step, "rate_per_s")
        everything = [value for other in comparison.names for value in comparison.values(other, step, "rate_per_s")]
        if len(everything) < 2 or not values:
            return
        yield (number(min(values)), strip(values, min(everything), max(everything)), number(max(values))), ""

    section = Section("Every cell", ("step and build", "lowest", "ops/s", "highest"))
    return _by_step(comparison, section, rows)


def strip(values: Sequence[float], low: float, high: float, columns: int = STRIP_COLUMNS) -> str:
    """One line of text with an `o` at each value's place between low and high."""
    counts = [0] * columns
    for value in values:
        counts[round((value - low) / (high - low) * (columns - 1)) if high > low else columns // 2] += 1
    return "".join("·" if count == 0 else "o" if count == 1 else str(min(count, 9)) for count in counts)


def _per_operation(comparison: Comparison) -> Section:
    def rows(step: str, subject: Subject) -> Rows:
        values = [middle(comparison.values(subject, step, name)) for name, _ in PER_OP]
        if any(value is not None for value in values):
            yield tuple(number(value) for value in values), ""
            found = [comparison.ratio(subject, step, name) for name, _ in PER_OP]
            if any(ratio is not None for ratio in found):
                yield tuple(_ratio_text(ratio) for ratio in found), "dim"

    columns = ("step and build", *(title for _, title in PER_OP))
    return _by_step(comparison, Section("Per operation (median of cells; below it the ratio to base)", columns), rows)


def _response_times(comparison: Comparison) -> list[Section]:
    """Per role the reference's buckets in percent, all cells of a build together; empty buckets are not shown."""
    return [section for role in ("insert", "delete", "query") for section in _role_times(comparison, role)]


def _role_times(comparison: Comparison, role: str) -> Iterable[Section]:
    counts: dict[tuple[str, Subject], list[int]] = {}
    longest: dict[tuple[str, Subject], float] = {}
    for step in comparison.steps:
        for subject in comparison.names:
            totals = [part for result in comparison.of(subject, step) for part in result.totals.of_kind(role)]
            if totals:
                counts[step, subject] = [sum(column) for column in zip(*(t.buckets for t in totals), strict=True)]
                longest[step, subject] = max(part.max_ns for part in totals) / 1e9
    used = [label for place, (label, _) in enumerate(REFERENCE_BUCKETS) if any(row[place] for row in counts.values())]
    for start in range(0, len(used), BUCKETS_ACROSS):
        yield _bucket_section(comparison, role, used[start : start + BUCKETS_ACROSS], counts, longest)


def _bucket_section(
    comparison: Comparison,
    role: str,
    labels: Sequence[str],
    counts: dict[tuple[str, Subject], list[int]],
    longest: dict[tuple[str, Subject], float],
) -> Section:
    def rows(step: str, subject: Subject) -> Rows:
        if (step, subject) in counts:
            percent = metrics.bucket_percent(counts[step, subject])
            texts = (metrics.bucket_text(percent.get(label, 0.0)) for label in labels)
            yield (*texts, f"{longest[step, subject]:.3f}"), ""

    columns = ("step and build", *(f"<={label}" if label != "gt" else ">16s" for label in labels), "max s")
    return _by_step(comparison, Section(f"Response time of {role} statements (percent)", columns), rows)


def _stalls(comparison: Comparison) -> Section:
    def rows(step: str, subject: Subject) -> Rows:
        results = comparison.of(subject, step)
        stalled = [result for result in results if result.stalls]
        longest = _longest_stall(results)
        if longest is not None:
            causes = longest.get("causes") or []
            why = str(causes[0].get("text", causes[0].get("kind", ""))) if causes else ""
            yield (
                (
                    f"! {sum(result.stall_s for result in results):.1f}",
                    f"{len(stalled)} of {len(results)}",
                    f"{longest['duration_s']:.1f} {longest['role']}",
                    why,
                ),
                STYLES["slower"],
            )

    section = _by_step(
        comparison, Section("Stalls", ("step and build", "seconds", "cells", "longest", "its cause")), rows
    )
    if not section.rows and comparison.cells:
        section.add("none in any cell", "", "", "", "")
    return section


def _hangs(comparison: Comparison) -> Section:
    """What was seen of the longest stall of each step and build at the moment in which it began."""

    section = Section("Where the longest stalls hung when they began", ("step and build", WHERE))
    for step in comparison.steps:
        for subject, name in comparison.names.items():
            longest = _longest_stall(comparison.of(subject, step)) or {}
            for place, line in enumerate(hangs.lines(str(longest.get("role", "")), longest.get("snapshot"))):
                section.add(f"{step} {name}" if place == 0 else "", line)
    return section


def _longest_stall(results: Sequence[StepResult]) -> dict[str, Any] | None:
    stalls = (stall for result in results for stall in result.stalls)
    return max(stalls, key=lambda stall: float(stall["duration_s"]), default=None)


def _sla(comparison: Comparison) -> Section:
    def rows(step: str, subject: Subject) -> Rows:
        judged = [a for a in (sla(r.kind, r.totals) for r in comparison.of(subject, step)) if a is not None]
        if judged:
            passed = sum(agreement.passed for agreement in judged)
            worst = min(agreement.achieved_per_s / agreement.target_per_s for agreement in judged)
            ok = passed == len(judged)
            state = f"{'ok' if ok else 'x missed'} {passed}/{len(judged)}"
            published = sum(agreement.reference_passed for agreement in judged)
            cells = (number(judged[0].target_per_s), f"{worst:.1%}", state, f"{published}/{len(judged)}")
            yield cells, "" if ok else STYLES["withheld"]

    columns = ("step and build", "target\nrows/s", "lowest\nachieved", "SLA cells", "by whole\nseconds")
    return _by_step(comparison, Section("Insert rate kept up (95 % rule)", columns), rows)


def _sizes(comparison: Comparison) -> Section:
    def median_of(results: list[StepResult], value: Callable[[StepResult], int]) -> float | None:
        return middle([float(value(result)) for result in results])

    def rows(step: str, subject: Subject) -> Rows:
        results = comparison.of(subject, step)
        if results:
            heap, index = (comparison.ratio(subject, step, name) for name in ("heap_bytes", "index_bytes"))
            yield (
                (
                    size(median_of(results, lambda result: result.totals.heap_bytes)),
                    _ratio_text(heap),
                    size(median_of(results, lambda result: result.totals.index_bytes)),
                    _ratio_text(index),
                    size(median_of(results, lambda result: result.totals.database_bytes)),
                    size(median_of(results, lambda result: result.totals.cluster_bytes)),
                ),
                "",
            )

    columns = ("step and build", "heap", "/ base", "indexes", "/ base", "database", "data\nfolder")
    return _by_step(comparison, Section("Sizes after the step", columns), rows)


def _published(comparison: Comparison) -> list[Section]:
    lines = published_by_cell(comparison.runs)
    names = list(comparison.names.items())
    found = []
    measured = {step for _, step, line in lines if line["ips"] or line["qps"]}  # a pause has no figures
    for step in (step for step in comparison.steps if step in measured):
        for start in range(0, len(names), 4):
            shown = names[start : start + 4]
            section = Section(f"{step}: the published figures (median of cells)", ("", "unit", *(n for _, n in shown)))
            for figure, (unit, digits) in (metrics.PUBLISHED | metrics.BESIDE_PUBLISHED).items():
                values = [
                    middle(
                        [
                            v
                            for cell, of, line in lines
                            if of == step and cell.cell.subject == subject and (v := line[figure]) is not None
                        ]
                    )
                    for subject, _ in shown
                ]
                if any(value is not None for value in values):
                    texts = ("NA" if value is None else metrics.published_text(value, digits) for value in values)
                    section.add(figure, unit, *texts)
            found.append(section)
    return found


def number(value: float | None) -> str:
    """Four digits or so, thousands separated."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2 if abs(value) >= 1 else 3
    return f"{value:,.{digits}f}"


def size(value: float | None) -> str:
    """Bytes in KiB, MiB or GiB."""
    if value is None:
        return "-"
    for unit, bytes_ in (("G", 2**30), ("M", 2**20), ("K", 2**10)):
        if value >= bytes_:
            return f"{value / bytes_:.1f}{unit}"
    return f"{value:.0f}"


def _ratio_text(ratio: Ratio | None) -> str:
    if ratio is None or ratio.ratio is None:
        return ""
    return (
        f"{GLYPHS[ratio.verdict]}{ratio.ratio:.3f}"
        if ratio.ratio < 100
        else f"{GLYPHS[ratio.verdict]}{ratio.ratio:.0f}"
    )


def _bounds(ratio: Ratio) -> str:
    return "" if ratio.low is None or ratio.high is None else f"{ratio.low:.3f}-{ratio.high:.3f}"


def _more(pairs: int | None) -> str:
    return f", +{pairs} pair{'s' if pairs != 1 else ''}" if pairs is not None else ""

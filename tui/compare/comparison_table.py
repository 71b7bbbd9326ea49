"""The table of a comparison: one line per step and metric, one column per subject. Pure: values to lines."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.core.format import duration, short
from engine.results.cell_step import SLA, STALLS
from engine.results.comparison import (
    DELETE_PLAN,
    DURATIONS,
    PRIMARY_METRICS,
    RATE,
    TIME,
    Comparison,
    Ratio,
)
from engine.results.comparison import ComparedSubject as Subject
from tui.glyphs import Glyphs
from tui.marks import Line, Span, cut, fit

Sort = Literal["steps", "effect", "verdict"]
SORTS: tuple[Sort, ...] = ("steps", "effect", "verdict")

SHORT = {  # titles of metrics for a narrow column
    RATE: "ops/s",
    "server_cpu_us_per_op": "cpu us/op",
    "client_cpu_us_per_op": "client us",
    "ctx_switches_per_op": "switch/op",
    "runq_us_per_op": "runq us/op",
    "plan_us_per_op": "plan us/op",
    DELETE_PLAN: "plan us/del",
    "instructions_per_op": "instr/op",
    "latency_p50_us": "p50 us",
    "latency_p95_us": "p95 us",
    "latency_p99_us": "p99 us",
    "latency_max_us": "longest us",
    "wal_bytes_per_op": "wal B/op",
    "read_kb_per_op": "read kB/op",
    "reads_per_op": "reads/op",
    "pages_read_per_op": "pages/op",
    "read_us_per_op": "read us/op",
    "written_kb_per_op": "dirty kB/op",
    "device_written_kb_per_op": "dev kB/op",
    "heap_bytes": "heap",
    "index_bytes": "indexes",
    TIME: "time",
    "user_s": "user",
    "system_s": "system",
    "memory_bytes": "memory",
    STALLS: "stalls",
    SLA: "sla",
}
OPS = {"rows": "row", "queries": "query", "transactions": "xact"}  # the operation that a figure is given per
USUAL = (
    *PRIMARY_METRICS,
    "server_cpu_us_per_op",
    DELETE_PLAN,
    "wal_bytes_per_op",
    STALLS,
    SLA,
)  # the default selection
MARKS = {"better": "better", "worse": "worse", "=": "dim", "~": "dim", "?": "sla"}  # by sign
RANKS = ("worse", "?", "~", " ", "better", "=")  # signs, the most worrying first

METRIC_CELLS = 13
BASE_CELLS = 12
RATIO_CELLS = 19  # sign, ratio, interval, and a blank
CONTROL_CELLS = 8  # of an A/A control: sign, ratio, and a blank
VALUE_CELLS = 8  # the subject's own value, if there is room
WORD_CELLS = 26  # extra width of the whole interval, a verdict in words, and a blank


@dataclass(frozen=True, slots=True)
class Row:
    step: str
    metric: str


@dataclass(frozen=True, slots=True)
class Layout:
    """Column widths, and how many subjects fit from `first` on."""

    step: int
    base: int
    ratio: int
    words: bool
    values: bool
    first: int
    count: int


def rows(comparison: Comparison, shown: Sequence[str], sort: Sort, wanted: str) -> list[Row]:
    """Lines with a value and every word of `wanted`, by `sort`."""
    every = [Row(step, metric) for step in comparison.steps for metric in shown]
    shown_rows = [row for row in every if _holds_something(comparison, row) and _has_words(comparison, row, wanted)]
    if sort == "effect":
        return sorted(shown_rows, key=lambda row: -_effect(_ratios(comparison, row)))
    if sort == "verdict":
        return sorted(shown_rows, key=lambda row: _worst(comparison, row))
    return shown_rows


def name_of(comparison: Comparison, row: Row) -> str:
    """A line's metric in short."""
    unit = comparison.units.get(row.step, SHORT[RATE])
    if row.metric == RATE:
        return unit
    per = f"/{OPS.get(unit.removesuffix('/s'), 'op')}"
    name = SHORT.get(row.metric, row.metric)
    return named if len(named := name.replace("/op", per)) < METRIC_CELLS else name


def title_of(comparison: Comparison, row: Row) -> str:
    """A line's metric in full, as `bench compare` names it."""
    if row.metric in PRIMARY_METRICS:
        return name_of(comparison, row)
    return titles(comparison).get(row.metric, SHORT.get(row.metric, row.metric))


def titles(comparison: Comparison) -> dict[str, str]:
    return {metric.name: metric.title for metric in comparison.metrics}


def choices(comparison: Comparison | None) -> list[tuple[str, str]]:
    known = titles(comparison) if comparison is not None else {}
    return [(name, {**known, STALLS: STALLS, SLA: "insert rate kept up"}.get(name, name)) for name in SHORT]


def step_cells(comparison: Comparison) -> int:
    """Width of the column of steps, including the cursor and a blank."""
    return 1 + max(6, *(len(name) + 1 for name in comparison.steps)) if comparison.steps else 8


def layout(comparison: Comparison, columns: int, chosen: int, first: int = 0) -> Layout:
    """Fit the columns, scrolled from `first` until the chosen subject is visible."""
    step = step_cells(comparison)
    others = comparison.others
    room = columns - step - METRIC_CELLS
    base = BASE_CELLS if room - BASE_CELLS >= _needed(others, RATIO_CELLS) or len(others) < 2 else 0
    room -= base
    words = room >= _needed(others, RATIO_CELLS + WORD_CELLS)
    ratio = RATIO_CELLS + (WORD_CELLS if words else 0)
    values = room >= _needed(others, ratio) + VALUE_CELLS * len(others)
    room -= VALUE_CELLS * len(others) if values else 0
    first = max(0, min(first, chosen))
    while _fitting(others[first:], room, ratio) <= chosen - first:
        first += 1
    return Layout(step, base, ratio, words, values, first, _fitting(others[first:], room, ratio))


def header(comparison: Comparison, at: Layout, chosen: int, glyphs: Glyphs) -> Line:
    spans: list[Span] = [(f" {'step':<{at.step - 1}}{'metric':<{METRIC_CELLS}}", "dim")]
    if at.base:
        spans.append(((comparison.base if len(comparison.base) < at.base else "base").ljust(at.base), "base"))
    shown = comparison.others[at.first : at.first + at.count]
    for place, subject in enumerate(shown, at.first):
        wide = _width(subject, at.ratio) + VALUE_CELLS * at.values - 1
        more = (place == at.first > 0) or (place == at.first + at.count - 1 < len(comparison.others) - 1)
        name = cut(subject.name if wide > len("A/A") + 5 or not subject.control else "A/A", wide - 4 * more, glyphs)
        name = f"< {name}" if place == at.first > 0 else name
        name = f"{name} >" if place == at.first + at.count - 1 < len(comparison.others) - 1 else name
        spans += [(name.ljust(wide), "chosen" if place == chosen else "strong"), (" ", "")]
    return tuple(spans)


def table(
    comparison: Comparison,
    shown: Sequence[Row],
    at: Layout,
    cursor: tuple[int, int],
    top: int,
    height: int,
    glyphs: Glyphs,
) -> list[Line]:
    """The lines from `top` on; `cursor` is the chosen line and subject."""
    lines: list[Line] = []
    for place, row in enumerate(shown[top : top + height], top):
        here = place == cursor[0]
        metric = cut(name_of(comparison, row), METRIC_CELLS - 1, glyphs).ljust(METRIC_CELLS)
        spans: list[Span] = [(">" if here else " ", "chosen"), (row.step.ljust(at.step - 1), "strong" if here else "")]
        spans.append((metric, "strong" if here else ""))
        if at.base:
            spans += padded(base_cell(comparison, row), at.base)
        for column, subject in enumerate(comparison.others[at.first : at.first + at.count], at.first):
            wide = _width(subject, at.ratio)
            found = padded(cell(comparison, row, subject, glyphs, wide - 1, words=at.words), wide - 1)
            if at.values:
                judged = row.metric not in (STALLS, SLA)
                value = comparison.figure(subject.name, row.step, row.metric) if judged else None
                spans.append((f"{figure_text(row.metric, value) if value is not None else '':<{VALUE_CELLS}}", ""))
            chosen = here and column == cursor[1]
            spans += [(text, "cursor" if chosen else mark) for text, mark in found]
            spans.append((" ", ""))
        lines.append(tuple(spans))
    return lines


def cell(comparison: Comparison, row: Row, subject: Subject, glyphs: Glyphs, cells: int, *, words: bool) -> list[Span]:
    """A subject's column: sign, ratio, interval, and the verdict in words if it fits."""
    if row.metric in (STALLS, SLA):
        return [counted(comparison, row, subject.name, cells)]
    ratio = comparison.ratio(subject.name, row.step, row.metric)
    if ratio is None or ratio.ratio is None:
        value = comparison.figure(subject.name, row.step, row.metric)
        return [(f"  {figure_text(row.metric, value)}" if value is not None else "  -", "dim")]
    spans = [(f"{sign(ratio, glyphs)} {ratio_text(ratio.ratio)}", MARKS.get(ratio.sign, ""))]
    if cells >= RATIO_CELLS - 1:
        spans.append((f" {bounds_text(ratio, whole=words):<{11 if words else 10}}", "dim"))
    if words:
        spans.append((f" {verdict_words(ratio)}", MARKS.get(ratio.sign, "")))
    return spans


def verdict_words(ratio: Ratio, *, whole: bool = True) -> str:
    """The verdict in a word or two: `slower`, `needs 8 more pairs`; empty without a verdict."""
    if ratio.verdict == "undecided" and ratio.more_pairs and not ratio.flagged:
        return f"{'needs ' * whole}{ratio.more_pairs} more pair{'s' * (ratio.more_pairs != 1)}"
    words = ratio.verdict_text.partition(", +")[0]
    return words if whole else words.partition(" among")[0].partition(",")[0]


def base_cell(comparison: Comparison, row: Row) -> list[Span]:
    if row.metric in (STALLS, SLA):
        return [counted(comparison, row, comparison.base, BASE_CELLS - 1)]
    return [(figure_text(row.metric, comparison.figure(comparison.base, row.step, row.metric)), "base")]


def counted(comparison: Comparison, row: Row, subject: str, room: int) -> Span:
    """A subject's stalls or SLA in `room` cells: `! 7.5 s in 2/3`, `! 2/3`, `x 71% 2/6`, `x 2/6`, `  ok 6/6`."""
    cells = comparison.of(subject, row.step)
    if row.metric == STALLS:
        stalled = [cell for cell in cells if cell.stalls]
        if not stalled:
            return ("  none" if cells else "  -", "dim")
        share = f"{len(stalled)}/{len(cells)}"
        seconds = f"{sum(cell.stall_s for cell in cells):.1f} s"
        return _fitting_text((f"! {seconds} in {share}", f"! {seconds} {share}", f"! {share}"), room), "stall"
    judged = [cell for cell in cells if cell.sla is not None]
    passed = sum(bool(cell.sla and cell.sla.passed) for cell in judged)
    share = f"{passed}/{len(judged)}"
    if passed == len(judged):
        return _fitting_text((f"  ok {share}", f"ok {share}"), room) if judged else "  -", "dim"
    worst = min(value for cell in judged if (value := cell.figure(SLA)) is not None)
    return _fitting_text((f"x {worst:.0%} {share}", f"x {share}"), room), "sla"


def figure_text(metric: str, value: float | None) -> str:
    """A figure in at most seven cells; times with their unit."""
    return duration(value) if metric in DURATIONS else short(value)


def sign(ratio: Ratio, glyphs: Glyphs) -> str:
    return {"better": glyphs.better, "worse": glyphs.worse}.get(ratio.sign, ratio.sign)


def ratio_text(ratio: float) -> str:
    """A ratio in five cells: three decimals, fewer from 100 on."""
    return f"{ratio:.3f}" if ratio < 9.9995 else f"{ratio:.2f}" if ratio < 99.995 else f"{ratio:5.0f}"


def bounds_text(ratio: Ratio, *, whole: bool = False) -> str:
    """An interval in at most ten cells (`.926-.942`, `.995-1.013`, `1.07-1.09`), or `whole`, as in `bench compare`."""
    if whole or not ratio.bounds:
        return "-".join(f"{bound:.3f}" for bound in ratio.bounds or ())
    if round(ratio.bounds[0], 3) >= 1:
        return "-".join(f"{bound:.2f}" if bound < 9.995 else f"{bound:.0f}" for bound in ratio.bounds)
    return "-".join(map(_bound, ratio.bounds))


def padded(spans: Iterable[Span], cells: int) -> list[Span]:
    kept = list(fit(tuple(spans), cells))
    missing = cells - sum(len(text) for text, _ in kept)
    if missing > 0 and kept:
        kept[-1] = (kept[-1][0] + " " * missing, kept[-1][1])
    return kept


def _bound(value: float) -> str:
    text = f"{value:.3f}"
    if value < 1 and text.startswith("0"):
        return text[1:]
    return text if value < 1.1 else f"{value:.2f}" if value < 9.995 else f"{value:.0f}"


def _holds_something(comparison: Comparison, row: Row) -> bool:
    cells = [cell for cell in comparison.cells if cell.step == row.step]
    if row.metric == STALLS:
        return any(cell.stalls for cell in cells)
    return any(cell.figure(row.metric) is not None for cell in cells)


def _has_words(comparison: Comparison, row: Row, wanted: str) -> bool:
    verdicts = (f"{ratio.verdict} {ratio.verdict_text}" for ratio in _ratios(comparison, row))
    text = " ".join((row.step, row.metric, name_of(comparison, row), title_of(comparison, row), *verdicts)).lower()
    return all(word in text for word in wanted.lower().split())


def _ratios(comparison: Comparison, row: Row) -> list[Ratio]:
    ratios = (comparison.ratio(s.name, row.step, row.metric) for s in comparison.others if not s.control)
    return [ratio for ratio in ratios if ratio is not None]


def _effect(ratios: Sequence[Ratio]) -> float:
    return max((abs(math.log(ratio.ratio)) for ratio in ratios if ratio.ratio), default=-1.0)


def _worst(comparison: Comparison, row: Row) -> tuple[int, float]:
    ratios = _ratios(comparison, row)
    if row.metric in (STALLS, SLA):
        marks = {counted(comparison, row, subject.name, BASE_CELLS)[1] for subject in comparison.others}
        return (0 if marks & {"stall", "sla"} else len(RANKS), 0.0)
    rank = min((RANKS.index(ratio.sign) for ratio in ratios), default=len(RANKS))
    return rank, -_effect([ratio for ratio in ratios if RANKS.index(ratio.sign) == rank])


def _width(subject: Subject, ratio: int) -> int:
    return CONTROL_CELLS if subject.control == "aa" and ratio == RATIO_CELLS else ratio


def _needed(others: Sequence[Subject], ratio: int) -> int:
    return sum(_width(subject, ratio) for subject in others)


def _fitting(others: Sequence[Subject], room: int, ratio: int) -> int:
    """Number of columns that fit, at least one."""
    count = 0
    for subject in others:
        room -= _width(subject, ratio)
        if room < -1:  # the last column needs no blank after it
            break
        count += 1
    return max(1, count)


def _fitting_text(forms: Sequence[str], room: int) -> str:
    return next((form for form in forms if len(form) <= room), forms[-1])

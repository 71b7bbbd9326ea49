"""The lines of a comparison's table, one per step and metric, and how they are sorted and worded. Pure."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.core.format import duration, short
from engine.results.cell_step import SLA, STALLS
from engine.results.comparison import Comparison
from engine.results.ratio import DELETE_PLAN, DURATIONS, PRIMARY_METRICS, RATE, TIME, Ratio
from tui.glyphs import Glyphs
from tui.marks import Span, fit, fitting

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
VALUE_CELLS = 8  # the subject's own value, if there is room


@dataclass(frozen=True, slots=True)
class RowKey:
    step: str
    metric: str


def rows(comparison: Comparison, shown: Sequence[str], sort: Sort, wanted: str) -> list[RowKey]:
    """Lines with a value and every word of `wanted`, by `sort`."""
    every = [RowKey(step, metric) for step in comparison.steps for metric in shown]
    shown_rows = [row for row in every if _holds_something(comparison, row) and _has_words(comparison, row, wanted)]
    if sort == "effect":
        return sorted(shown_rows, key=lambda row: -_effect(_ratios(comparison, row)))
    if sort == "verdict":
        return sorted(shown_rows, key=lambda row: _worst(comparison, row))
    return shown_rows


def name_of(comparison: Comparison, row: RowKey) -> str:
    """A line's metric in short."""
    unit = comparison.units.get(row.step, SHORT[RATE])
    if row.metric == RATE:
        return unit
    per = f"/{OPS.get(unit.removesuffix('/s'), 'op')}"
    name = SHORT.get(row.metric, row.metric)
    return named if len(named := name.replace("/op", per)) < METRIC_CELLS else name


def title_of(comparison: Comparison, row: RowKey) -> str:
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


def verdict_words(ratio: Ratio, *, full: bool = True) -> str:
    """The verdict in a word or two: `slower`, `a little slower`, `needs 8 more pairs`; empty without a verdict."""
    if ratio.verdict == "undecided" and ratio.more_pairs and not ratio.flagged:
        return f"{'needs ' * full}{ratio.more_pairs} more pair{'s' * (ratio.more_pairs != 1)}"
    words = ratio.verdict_text.partition(", +")[0]
    return words.removeprefix("same, ") if full else words.partition(" among")[0].partition(",")[0]


def counted(comparison: Comparison, row: RowKey, subject: str, room: int) -> Span:
    """A subject's stalls or SLA in `room` cells: `! 7.5 s in 2/3`, `!8 s 2/3`, `! 2/3`, `x 71% 2/6`, `ok 6/6`."""
    cells = comparison.of(subject, row.step)
    if row.metric == STALLS:
        stalled = [cell for cell in cells if cell.stalls]
        if not stalled:
            return ("  none" if cells else "  -", "dim")
        share = f"{len(stalled)}/{len(cells)}"
        seconds = sum(cell.stall_s for cell in cells)
        total = f"! {seconds:.1f} s"
        forms = (f"{total} in {share}", f"{total} {share}", f"!{seconds:.0f} s {share}", f"! {share}")
        return fitting(forms, room), "stall"
    judged = [cell for cell in cells if cell.sla is not None]
    passed = sum(bool(cell.sla and cell.sla.passed) for cell in judged)
    share = f"{passed}/{len(judged)}"
    if passed == len(judged):
        return fitting((f"  ok {share}", f"ok {share}"), room) if judged else "  -", "dim"
    worst = min(value for cell in judged if (value := cell.figure(SLA)) is not None)
    return fitting((f"x {worst:.0%} {share}", f"x {share}"), room), "sla"


def figure_text(metric: str, value: float | None) -> str:
    """A figure in at most seven cells; times with their unit."""
    return duration(value) if metric in DURATIONS else short(value)


def sign(ratio: Ratio, glyphs: Glyphs) -> str:
    return {"better": glyphs.better, "worse": glyphs.worse}.get(ratio.sign, ratio.sign)


def ratio_text(ratio: float) -> str:
    """A ratio in five cells: three decimals, fewer from 100 on."""
    return f"{ratio:.3f}" if ratio < 9.9995 else f"{ratio:.2f}" if ratio < 99.995 else f"{ratio:5.0f}"


def bounds_text(ratio: Ratio) -> str:
    """An interval as in `bench compare`: `0.926-0.942`; empty without one."""
    return "-".join(f"{bound:.3f}" for bound in ratio.bounds or ())


def padded(spans: Iterable[Span], cells: int) -> list[Span]:
    kept = list(fit(tuple(spans), cells))
    missing = cells - sum(len(text) for text, _ in kept)
    if missing > 0 and kept:
        kept[-1] = (kept[-1][0] + " " * missing, kept[-1][1])
    return kept


def _holds_something(comparison: Comparison, row: RowKey) -> bool:
    cells = [cell for cell in comparison.cells if cell.step == row.step]
    if row.metric == STALLS:
        return any(cell.stalls for cell in cells)
    return any(cell.figure(row.metric) is not None for cell in cells)


def _has_words(comparison: Comparison, row: RowKey, wanted: str) -> bool:
    verdicts = (f"{ratio.verdict} {ratio.verdict_text}" for ratio in _ratios(comparison, row))
    text = " ".join((row.step, row.metric, name_of(comparison, row), title_of(comparison, row), *verdicts)).lower()
    return all(word in text for word in wanted.lower().split())


def _ratios(comparison: Comparison, row: RowKey) -> list[Ratio]:
    ratios = (comparison.ratio(s.name, row.step, row.metric) for s in comparison.others if not s.control)
    return [ratio for ratio in ratios if ratio is not None]


def _effect(ratios: Sequence[Ratio]) -> float:
    return max((abs(math.log(ratio.ratio)) for ratio in ratios if ratio.ratio), default=-1.0)


def _worst(comparison: Comparison, row: RowKey) -> tuple[int, float]:
    ratios = _ratios(comparison, row)
    if row.metric in (STALLS, SLA):
        marks = {counted(comparison, row, subject.name, BASE_CELLS)[1] for subject in comparison.others}
        return (0 if marks & {"stall", "sla"} else len(RANKS), 0.0)
    rank = min((RANKS.index(ratio.sign) for ratio in ratios), default=len(RANKS))
    return rank, -_effect([ratio for ratio in ratios if RANKS.index(ratio.sign) == rank])

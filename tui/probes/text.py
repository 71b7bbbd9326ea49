"""The Probes screen as lines: the table, histograms as bars, the strip over time, and remarks."""

import math
import textwrap
import time
from collections.abc import Mapping, Sequence

from engine.core.format import clock, short
from engine.journal.rows import EventRow, ProbeFrame
from engine.view.envelope import columns_of
from engine.view.probe_series import HeatColumn, Histogram, add_pairs, quantile_us
from tui.glyphs import Glyphs
from tui.marks import Line, Span, cut, fit, joined, line
from tui.probes.probe_status import ProbeRow

NAMES = {
    "runq_us": "run queue",
    "slice_us": "on a CPU",
    "plan_us": "planner",
    "plan_hist_us": "planner",
    "ep_hist_us": "index ends",
}
SHARES = (  # fields that split a whole, by probe; others are shown as rates
    ("phases", ("parse_us", "analyze_us", "plan_us", "execute_us")),
    ("sched", ("oncpu_us", "sum_us", "off_sleep_us", "off_disk_us", "off_stopped_us", "off_other_us")),
    ("procsched", ("oncpu_us", "runq_us")),
    ("offcpu", ("runq_us", "asleep_us", "disk_us", "client_us", "stopped_us")),
)
WORDS = {
    "oncpu_us": "on a CPU",
    "runq_us": "ready, waiting",
    "sum_us": "planning",
    "plan_n": "plannings",
    "ep_n": "index ends",
    "ep_us": "index ends",
    "leaf_pages": "leaf pages",
    "off_sleep_us": "asleep",
    "asleep_us": "asleep",
    "disk_us": "disk",
    "client_us": "for its client",
    "stopped_us": "stopped",
    "off_disk_us": "disk",
    "off_stopped_us": "stopped",
    "off_other_us": "off, other",
}


def size_us(value: int) -> str:
    """A bucket's bound: `64`, `1k`, `4M` (powers of 1024)."""
    for limit, unit in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "k")):
        if value >= limit:
            return f"{value // limit}{unit}"
    return str(value)


def bucket_words(low: int, high: int) -> str:
    """The range of buckets `low` to `high`: `64-128`, `1k-2k`, `0`."""
    if high == 0:
        return "0"
    return f"{size_us(0 if low == 0 else 1 << (low - 1))}-{size_us(1 << high)}"


def grouped(histogram: Histogram, rows: int) -> list[tuple[int, int, int]]:
    """Merge neighbours into at most `rows` (lowest bucket, highest, count), omitting empty ones: a tail stays close."""
    together = 1
    while True:
        groups: dict[int, int] = {}
        for bucket, count in histogram.items():
            groups[bucket // together] = groups.get(bucket // together, 0) + count
        groups = {bucket: count for bucket, count in groups.items() if count}
        if len(groups) <= max(1, rows):
            return [(b * together, (b + 1) * together - 1, groups[b]) for b in sorted(groups)]
        together *= 2


def bars(
    histogram: Histogram, stalled: Mapping[int, str], cells: int, rows: int, *, log: bool, glyphs: Glyphs
) -> list[Line]:
    """A histogram as text bars; a bucket in `stalled` is labelled with the time of the stall that filled it."""
    groups = grouped(histogram, rows)
    most = max((count for _, _, count in groups), default=1)
    room = max(4, cells - 9 - 7 - (11 if stalled else 0))
    lines = []
    for low, high, count in groups:
        share = math.log1p(count) / math.log1p(most) if log else count / most
        filled = max(1, round(share * room))
        word = next((stalled[bucket] for bucket in range(high, low - 1, -1) if bucket in stalled), "")
        lines.append(
            line(
                (f"{bucket_words(low, high):>9} ", "dim"),
                (glyphs.levels[-1] * filled, "stall" if word else "rate"),
                (" " * (room - filled) + f"{short(count):>5}", ""),
                *([(f" ! {word}", "worse")] if word else []),
            )
        )
    return lines


def stalled_buckets(
    frames: Sequence[ProbeFrame], field: str, histogram: Histogram, stalls: Sequence[EventRow], wall_ns: int
) -> dict[int, str]:
    """The buckets of a histogram that were mostly filled during a stall, with the time of that stall.

    `frames` belong to the histogram, at least around stalls. `wall_ns` added to monotonic time gives wall-clock
    time.
    """
    within: Histogram = {}
    times: dict[int, str] = {}
    for frame in frames:
        stall = next((stall for stall in stalls if _overlaps(frame, stall)), None)
        if stall is not None:
            add_pairs(within, frame.data.get(field) or ())
            began = time.strftime("%H:%M:%S", time.localtime((stall.started_ns + wall_ns) / 1e9))
            times |= {bucket: began for bucket, _ in frame.data.get(field) or ()}
    return {bucket: times[bucket] for bucket, count in within.items() if count > histogram[bucket] / 2}


def _overlaps(frame: ProbeFrame, stall: EventRow) -> bool:
    ended_ns = stall.ended_ns if stall.ended_ns is not None else frame.t_ns
    return frame.t_ns > stall.started_ns and frame.t_ns - frame.dt_ns < ended_ns


def named(field: str) -> str:
    return NAMES.get(field, field.removesuffix("_us"))


def summary(name: str, histogram: Histogram, longest_us: int | None) -> Line:
    """A histogram in one line: `planner us  12.3k p50<128 p99<512 max 4.1k`."""
    n = sum(histogram.values())
    spans: list[Span] = [(f" {named(name)} us", "strong"), (f"  {short(n)}", "")]
    for q, word in ((0.5, "p50"), (0.99, "p99")):
        bound = quantile_us(histogram, q)
        if bound is not None:
            spans.append((f" {word}<{size_us(bound + 1)}", ""))
    if longest_us:
        spans.append((f" max {short(longest_us)}", ""))
    return tuple(spans)


def figure_lines(probe: str, figures: Mapping[str, int], seconds: float, cells: int, glyphs: Glyphs) -> list[Line]:
    """Figures of a probe other than histograms: shares as bars, all else per second."""
    lines: list[Line] = []
    parts = {name: figures[name] for name in dict(SHARES).get(probe, ()) if figures.get(name)}
    parts |= {name: count for name, count in figures.items() if name.startswith("phase ")}
    parts_total = sum(parts.values())
    room = max(4, cells - 16 - 6)
    for name, value in parts.items():
        words = name.removeprefix("phase ") if probe in ("phases", "stacks") else _words(probe, name)
        filled = round(value / parts_total * room)
        text = (f" {words.removesuffix('_us'):<15}", "dim"), (glyphs.levels[-1] * filled, "rate")
        lines.append(line(*text, (" " * (room - filled) + f"{value / parts_total:5.0%}", "")))
    for name, value in figures.items():
        if name in parts or name in ("processes", "max_us") or not value:
            continue
        if name.endswith("_us") and seconds > 0:
            lines.append(line((f" {_words(probe, name):<15}", "dim"), f" {value / seconds / 10_000:.1f}% of the time"))
        elif seconds > 0:
            lines.append(line((f" {_words(probe, name):<15}", "dim"), f" {short(value / seconds)}/s"))
    n, total = figures.get("n", 0), figures.get("sum_us", 0)
    if n and total:
        lines.append(line((f" {'mean':<15}", "dim"), f" {short(total / n)} us"))
    if figures.get("max_us"):
        lines.append(line((f" {'longest':<15}", "dim"), f" {short(figures['max_us'])} us"))
    return lines


def _words(probe: str, name: str) -> str:
    if name == "sum_us" and probe in ("sched", "runq"):
        return "ready, waiting"
    if name == "n":
        return {"planner": "plannings", "runq": "waits"}.get(probe, "times")
    return WORDS.get(name, name)


# -- over time


def strip(columns: Sequence[HeatColumn | None], stalled: set[int], rows: int, glyphs: Glyphs) -> list[Line]:
    """A field over time: its highest values in one row, or a heat map or bars; blank without a frame."""
    if rows >= 3 and any(column is not None and column.counts for column in columns):
        return _heat(columns, stalled, rows, glyphs)
    if rows >= 3:
        return _bars_of_columns(columns, stalled, rows, glyphs)
    peaks = [math.log1p(column.peak) for column in columns if column is not None]
    least, most = min(peaks, default=0.0), max(peaks, default=0.0)
    steps = len(glyphs.levels) - 1
    spans: list[Span] = []
    for x, column in enumerate(columns):
        character = " "
        if column is not None:
            share = (math.log1p(column.peak) - least) / (most - least) if most > least else 0.0
            character = glyphs.levels[1 + round(share * (steps - 1))]
        spans.append((character, "stall" if x in stalled else "rate"))
    return [joined(spans)]


def _bars_of_columns(columns: Sequence[HeatColumn | None], stalled: set[int], rows: int, glyphs: Glyphs) -> list[Line]:
    """Bars from 0 to the highest value of each column; a column with a frame shows at least a trace."""
    most = max((column.peak for column in columns if column is not None), default=0.0)
    steps = len(glyphs.levels) - 1
    heights = [
        None if column is None else max(1, round(column.peak / most * rows * steps) if most else 0)
        for column in columns
    ]
    rows_of_bars = []
    for row in reversed(range(rows)):
        spans = [
            (" " if height is None else glyphs.levels[max(0, min(steps, height - row * steps))],
             "stall" if x in stalled else "rate")
            for x, height in enumerate(heights)
        ]  # fmt: skip
        rows_of_bars.append(joined(spans))
    return rows_of_bars


def axis_line(axis: tuple[int, int], stalled: set[int], cells: int, glyphs: Glyphs) -> Line:
    """The foot of the strip: its first and last second, and `!` during stalls."""
    left, right = "00:00:00 ", f" {clock((axis[1] - axis[0]) / 1e9)}"
    middle = range(len(left), max(len(left), cells - len(right)))
    spans = [("!", "worse") if x in stalled else (glyphs.rule, "dim") for x in middle]
    return ((left, "dim"), *joined(spans), (right, "dim"))


def stalled_columns(axis: tuple[int, int], at_ns: int, stalls: Sequence[EventRow], cells: int) -> set[int]:
    """The columns with a stall, as far as recorded at a time."""
    spans = ((stall.started_ns, min(stall.ended_ns or at_ns, at_ns)) for stall in stalls)
    return {x for from_, until in spans for x in columns_of(*axis, from_, until, cells)}


HEAT_LABEL = 10  # cells


def _heat(columns: Sequence[HeatColumn | None], stalled: set[int], rows: int, glyphs: Glyphs) -> list[Line]:
    """Buckets from top to bottom over time; the shade is the share of the column's count."""
    everything: Histogram = {}
    for column in columns:
        if column is not None:
            add_pairs(everything, column.counts.items())
    steps = len(glyphs.levels) - 1
    lines = []
    for low, high, _ in reversed(grouped(everything, rows)):
        spans: list[Span] = []
        for x in range(HEAT_LABEL, len(columns)):
            column = columns[x]
            count = sum(column.counts.get(bucket, 0) for bucket in range(low, high + 1)) if column is not None else 0
            total = sum(column.counts.values()) if column is not None else 0
            share = math.log1p(count) / math.log1p(total) if count else 0.0
            character = glyphs.levels[max(1, round(share * steps))] if count else " "
            spans.append((character, "stall" if x in stalled else "rate"))
        lines.append(((f"{bucket_words(low, high):>9} ", "dim"), *joined(spans)))
    return lines


# -- the table, and what to know

COLUMNS = (("probe", 11), ("needs", 21), ("state", 16), ("cost", 19), ("events/s", 8))
NEEDS = {
    "bpftrace": "BPF",
    "sched tracepoints": "tracepoints",
    "a binary with its symbol table": "symbols",
    "frame pointers in the binary for more than the innermost function": "frame pointers",
    "a kernel with scheduler information": "schedstat",
    "PostgreSQL 13": "13+",
    "pg_stat_statements loaded, track_planning on": "pg_stat_statements",
}


def table(rows: Sequence[ProbeRow], cursor: int, columns: int, glyphs: Glyphs) -> list[Line]:
    """The heading and a row per probe; a wide screen gives the extra room to needs and cost."""
    over = max(0, columns - 80)
    less = max(0, 80 - columns)
    widths = {**dict(COLUMNS), "needs": 21 + over // 2 - less // 2, "cost": 19 + over - over // 2 - (less - less // 2)}

    def padded(text: str, name: str) -> str:
        short = cut(text, widths[name], glyphs)
        return short.rjust(widths[name]) if name == "events/s" else short.ljust(widths[name])

    heading = " ".join(["", *(padded(name, name) for name, _ in COLUMNS)])
    lines = [line((heading, "dim"))]
    for place, row in enumerate(rows):
        rate = short(row.events_per_s) if row.events_per_s is not None else "-"
        marks = ["strong", "dim", row.mark, "", "rate"]
        needs = ", ".join(NEEDS.get(need, need) for need in row.needs)
        # 80 columns show the bare figure; the rest is in the remarks.
        cost = row.cost if over else row.cost.split(";")[0].split(" (2")[0]
        texts = (row.probe, needs, row.state, cost, rate)
        cells = [padded(text, name) for text, (name, _) in zip(texts, COLUMNS, strict=True)]
        if place == cursor:
            lines.append(((">" + " ".join(cells).ljust(columns - 1), "cursor"),))
        else:
            lines.append(tuple((f" {text}", mark) for text, mark in zip(cells, marks, strict=True)))
    return lines


def remarks(rows: Sequence[ProbeRow], chosen: int, columns: int, lines: int, glyphs: Glyphs) -> list[Line]:
    """Remarks on the chosen probe first, then on others; each probe's newest remark, folded."""
    if not rows:
        return []
    order = [rows[chosen], *(row for place, row in enumerate(rows) if place != chosen)]
    texts: dict[str, str] = {}
    for row in order:
        if row.remarks:
            texts.setdefault(row.remarks[-1], row.probe)
    remark_lines: list[Line] = []
    if not order[0].remarks:
        known = f"{order[0].question} Costs {order[0].cost}." if order[0].question else "looking up its needs and cost"
        about = f"{order[0].probe}: {known}"
        remark_lines += [line((f" {text}", "dim")) for text in textwrap.wrap(about, columns - 1)]
    for text, probe in texts.items():
        named = text if text.startswith(("probes:", f"{probe}:")) else f"{probe}: {text}"
        remark_lines += [line((f" {part}", "warning")) for part in textwrap.wrap(f"? {named}", columns - 1)]
    if len(remark_lines) > lines:
        remark_lines = [
            *remark_lines[: lines - 1],
            fit((*remark_lines[lines - 1], (" ...", "dim")), columns, glyphs.ellipsis),
        ]
    return remark_lines

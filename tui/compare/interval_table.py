"""The table of a comparison with intervals drawn, one line per step and metric on a shared axis. Values to lines."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.results.cell_step import SLA, STALLS
from engine.results.comparison import ComparedSubject as Subject
from engine.results.comparison import Comparison
from engine.results.ratio import Ratio
from tui.compare import forest
from tui.compare.comparison_table import (
    BASE_CELLS,
    MARKS,
    METRIC_CELLS,
    VALUE_CELLS,
    RowKey,
    bounds_text,
    counted,
    figure_text,
    name_of,
    padded,
    ratio_text,
    sign,
    step_cells,
    verdict_words,
)
from tui.glyphs import Glyphs
from tui.marks import Line, Span, cut, line

LEAST_AXIS = 21
RATIO_CELLS = 8  # sign, ratio, and a blank
NAME_CELLS = 17  # maximum width of a subject's column
NARROW_BASE, WIDE_BASE = 9, 20
BOUNDS_CELLS = 12
WORDS, LONG_WORDS = 14, 20


@dataclass(frozen=True, slots=True)
class Layout:
    """Column widths, 0 for a hidden column; `subjects` are those that fit from `first` on."""

    step: int
    base: int
    value: int
    subjects: tuple[int, ...]
    bounds: int
    words: int
    axis: int
    first: int


def layout(comparison: Comparison, columns: int, chosen: int, first: int = 0) -> Layout:
    """Fit the columns, scrolled from `first` until the chosen subject is visible."""
    step, others = step_cells(comparison), comparison.others
    base = BASE_CELLS if columns >= 80 else NARROW_BASE
    room = columns - step - METRIC_CELLS - LEAST_AXIS
    if len(others) > 2 and room - base < len(others) * RATIO_CELLS:
        base = 0
    room -= base
    wanted = [max(RATIO_CELLS, min(len(subject.name) + 1, NAME_CELLS)) for subject in others]
    if len(others) == 1:
        wanted = [RATIO_CELLS]  # its name stands above the words, too
    widths = next(
        (fit for most in (NAME_CELLS, 12, 10, RATIO_CELLS) if sum(fit := [min(w, most) for w in wanted]) <= room),
        [RATIO_CELLS] * len(others),
    )
    first = max(0, min(first, chosen))
    while sum(widths[first : chosen + 1]) > room and first < chosen:
        first += 1
    shown: list[int] = []
    for width in widths[first:]:
        if shown and sum(shown) + width > room:
            break
        shown.append(width)
    left = room - sum(shown)
    needed = {"words": 0, "value": 0, "bounds": 0, "base": base}
    # Columns added as long as the axis keeps its minimum width.
    for name, cells, axis in (
        ("words", WORDS, LEAST_AXIS), ("value", VALUE_CELLS, 31), ("bounds", BOUNDS_CELLS, 35),
        ("words", LONG_WORDS, 41), ("base", WIDE_BASE, 45),
    ):  # fmt: skip
        more = cells - needed[name]
        if left + LEAST_AXIS - more >= axis and (name != "value" or len(others) == 1) and (name != "base" or base):
            needed[name], left = cells, left - more
    axis = left + LEAST_AXIS
    return Layout(
        step,
        needed["base"],
        needed["value"],
        tuple(shown),
        needed["bounds"],
        needed["words"],
        axis - (axis % 2 == 0),
        first,
    )


def ratios(comparison: Comparison, rows: Sequence[RowKey]) -> list[Ratio]:
    """Every ratio of every line and subject, so that the axis is stable while scrolling."""
    all_ratios = (comparison.ratio(s.name, row.step, row.metric) for row in rows for s in comparison.others)
    return [ratio for ratio in all_ratios if ratio is not None]


def header(comparison: Comparison, at: Layout, on: forest.RatioAxis, chosen: int, glyphs: Glyphs) -> Line:
    spans: list[Span] = [(f" {'step':<{at.step - 1}}{'metric':<{METRIC_CELLS}}", "dim")]
    if at.base:
        spans.append(((comparison.base if len(comparison.base) < at.base else "base").ljust(at.base), "base"))
    spans.append((" " * at.value, ""))
    others = comparison.others
    if len(others) == 1:
        room = at.subjects[0] + at.bounds + at.words
        spans.append((cut(others[0].name, room - 1, glyphs).ljust(room), "chosen"))
    else:
        last = at.first + len(at.subjects) - 1
        for place, width in enumerate(at.subjects, at.first):
            before, after = place == at.first > 0, place == last < len(others) - 1
            subject = others[place]
            name = "A/A" if subject.control == "aa" and width < len(subject.name) + 1 else subject.name
            name = f"{'<' * before}{cut(name, width - 1 - before - after, glyphs)}{'>' * after}"
            spans += [(name.ljust(width - 1), "chosen" if place == chosen else "strong"), (" ", "")]
        spans.append((" " * (at.bounds + at.words), ""))
    return (*spans, *forest.ticks(on))


def table(
    comparison: Comparison,
    shown: Sequence[RowKey],
    at: Layout,
    on: forest.RatioAxis,
    cursor: tuple[int, int],
    top: int,
    height: int,
    glyphs: Glyphs,
) -> list[Line]:
    """The lines from `top` on: the chosen subject's intervals drawn, the others' ratios as numbers."""
    return [
        _row(comparison, row, at, on, cursor[1], glyphs, here=place == cursor[0])
        for place, row in enumerate(shown[top : top + height], top)
    ]


def _row(
    comparison: Comparison, row: RowKey, at: Layout, on: forest.RatioAxis, chosen: int, glyphs: Glyphs, *, here: bool
) -> Line:
    strong = "strong" if here else ""
    metric = cut(name_of(comparison, row), METRIC_CELLS - 1, glyphs).ljust(METRIC_CELLS)
    spans: list[Span] = [(">" if here else " ", "chosen"), (row.step.ljust(at.step - 1) + metric, strong)]
    if at.base:
        spans += padded(_base(comparison, row, at.base - 1), at.base)
    subject = comparison.others[chosen]
    measured = comparison.ratio(subject.name, row.step, row.metric)
    if row.metric in (STALLS, SLA):
        return (*spans, *_counts(comparison, row, at, chosen, here=here))
    if at.value:
        value = comparison.figure(subject.name, row.step, row.metric)
        spans.append((f"{figure_text(row.metric, value):<{at.value}}", ""))
    for place, width in enumerate(at.subjects, at.first):
        other = comparison.others[place]
        number = padded(_ratio(comparison, row, other, glyphs), width - 1)
        here_too = here and place == chosen
        spans += [(text, "cursor" if here_too else mark) for text, mark in number]
        spans.append((" ", ""))
    if at.bounds:
        bounds = bounds_text(measured) if measured else ""
        spans.append((f"{cut(bounds, at.bounds - 1, glyphs):<{at.bounds}}", "dim"))
    mark = MARKS.get(measured.sign, "") if measured else ""
    if at.words:
        text = verdict_words(measured, full=at.words >= LONG_WORDS) if measured else ""
        spans.append((f"{cut(text, at.words - 1, glyphs):<{at.words}}", mark))
    rest = (comparison.ratio(other.name, row.step, row.metric) for other in comparison.others if other is not subject)
    points = [ratio.ratio for ratio in rest if ratio is not None and ratio.ratio]
    return (*spans, *forest.whisker(on, measured, "" if mark == "dim" else mark, glyphs, points))


def _ratio(comparison: Comparison, row: RowKey, subject: Subject, glyphs: Glyphs) -> list[Span]:
    ratio = comparison.ratio(subject.name, row.step, row.metric)
    if ratio is None or ratio.ratio is None:
        return [("  -", "dim")]
    return [(f"{sign(ratio, glyphs)} {ratio_text(ratio.ratio)}", MARKS.get(ratio.sign, ""))]


def _base(comparison: Comparison, row: RowKey, room: int) -> list[Span]:
    if row.metric in (STALLS, SLA):
        return [counted(comparison, row, comparison.base, room)]
    return [(figure_text(row.metric, comparison.figure(comparison.base, row.step, row.metric)), "base")]


def _counts(comparison: Comparison, row: RowKey, at: Layout, chosen: int, *, here: bool) -> list[Span]:
    spans: list[Span] = [(" " * at.value, "")]
    for place, width in enumerate(at.subjects, at.first):
        room = width + (at.bounds + at.words if len(comparison.others) == 1 else 0)
        text, mark = counted(comparison, row, comparison.others[place].name, room - 1)
        mark = "cursor" if here and place == chosen and mark == "dim" else mark
        spans += padded([(text, mark)], room)
    return spans


def small(comparison: Comparison, rows: Sequence[RowKey], columns: int, glyphs: Glyphs) -> list[Line]:
    """The verdicts on rates with their intervals, for a small terminal."""
    step = step_cells(comparison)
    name = min(16, max((len(subject.name) for subject in comparison.others), default=0)) + 1
    cells = columns - step - name - RATIO_CELLS - WORDS - 1
    on = forest.axis(ratios(comparison, rows), comparison.margin, cells)
    lines = [line(("COMPARE", "strong"), f" base {comparison.base}, {comparison.pairs} pairs")]
    lines.append(line(" " * (step + name + RATIO_CELLS + WORDS), *forest.ticks(on)))
    for row in rows:
        for subject in comparison.others:
            ratio = comparison.ratio(subject.name, row.step, row.metric)
            if ratio is not None and ratio.ratio is not None:
                mark = MARKS.get(ratio.sign, "")
                head = f"{row.step:<{step}}{cut(subject.name, name - 1, glyphs):<{name}}"
                text = f"{sign(ratio, glyphs)} {ratio_text(ratio.ratio)} {verdict_words(ratio, full=False)}"
                drawn = forest.whisker(on, ratio, "" if mark == "dim" else mark, glyphs)
                lines.append((*line(head, (f"{text:<{RATIO_CELLS + WORDS}}", mark)), *drawn))
    return lines

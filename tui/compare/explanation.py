"""The parts around the table of a comparison: dots, causes, comparability, and the verdict in words."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from engine.results.cell_step import SLA, STALLS, CellStep
from engine.results.comparison import ComparedSubject as Subject
from engine.results.comparison import Comparison
from engine.results.ratio import PRIMARY_METRICS, Ratio
from engine.results.section import bounds_text as interval
from engine.results.section import text
from tui.compare.comparison_table import (
    MARKS,
    METRIC_CELLS,
    RowKey,
    bounds_text,
    counted,
    figure_text,
    name_of,
    ratio_text,
    sign,
    title_of,
)
from tui.compare.dot_plot import DotRow, strips
from tui.compare.meanings import meaning
from tui.glyphs import Glyphs
from tui.marks import Line, Span, fit, folded, hanging, line, rule

PER_OP = (
    "user_s", "system_s", "memory_bytes",
    "server_cpu_us_per_op", "instructions_per_op",
    "plan_us_per_op", "delete_plan_us", "runq_us_per_op", "wal_bytes_per_op", "read_kb_per_op",
    "reads_per_op", "pages_read_per_op", "read_us_per_op", "written_kb_per_op",
    "device_written_kb_per_op", "ctx_switches_per_op", "client_cpu_us_per_op",
)  # fmt: skip
MOST_ROWS = 5  # of a section
STRENGTH = {"worse": 0, "better": 0, "?": 1, "~": 2, " ": 2, "=": 3}  # by sign
LEGEND = (("better", "better"), ("worse", "worse"), ("=", "same"), ("~", "undecided"),
          ("?", "verdict withheld"))  # fmt: skip


def title(comparison: Comparison, sort: str, wanted: str, busy: bool) -> Line:
    """The comparison and its design, the most important words first: the line may be cut."""
    pairs = comparison.pairs
    turns = "ABBA" if comparison.measured.design == "cells" else f"in {comparison.measured.design}"
    by_pairs = f"{pairs} pairs {turns}  95% CI" if pairs > 1 else "1 pair, no verdicts" if pairs else "no pairs"
    margin = f"margin {comparison.margin:.0%}" if comparison.margin >= 0.01 else f"margin {comparison.margin:.1%}"
    spans: list[Span] = [(" COMPARE ", "title"), ("  comparing..." if busy else "", "chosen")]
    spans.append((f" base {comparison.base}  {by_pairs}  {margin}", ""))
    if sort != "steps":
        spans.append((f"  by {sort}", "chosen"))
    if wanted:
        spans.append((f"  /{wanted}", "chosen"))
    workload = comparison.measured.workload
    clients = f" {workload.clients} clients" if workload.clients != 1 else ""
    kernels = ", ".join(comparison.measured.kernels)
    spans.append((f"  {workload.text}{clients}", "dim"))
    spans.append((f"  linux {kernels}" if kernels and kernels != "host" else "", "dim"))
    return tuple(spans)


def answer(comparison: Comparison, subject: Subject, columns: int, most: int, glyphs: Glyphs) -> list[Line]:
    """The answer about the chosen subject in at most `most` lines; `enter` shows all of it."""
    lines = answer_lines(comparison, subject, columns, glyphs)
    if len(lines) > most:
        lines[most - 1] = fit((*lines[most - 1], (" " * columns, "")), columns, glyphs.ellipsis)  # there is more
    return lines[:most]


def answer_lines(comparison: Comparison, subject: Subject, columns: int, glyphs: Glyphs) -> list[Line]:
    texts = (text.replace("±", glyphs.plus_minus) for text in comparison.answer_for(subject.name))
    return [line for text in texts for line in folded(text, columns, "strong")]


def dot_rows(comparison: Comparison, row: RowKey, chosen: Subject | None, height: int) -> list[DotRow]:
    """Every cell's value in a line of the table: the baseline's first, then the subjects that fit."""
    others = [subject.name for subject in comparison.others]
    place = others.index(chosen.name) if chosen is not None else 0
    room = max(1, height - 1)
    first = max(0, min(place - room + 1, len(others) - room))
    names = [comparison.base, *others[first : first + room]]
    return [
        DotRow(
            name,
            tuple(comparison.values(name, row.step, row.metric)),
            _modes(comparison, row, name),
            "base" if name == comparison.base else "rate",
            chosen is not None and name == chosen.name,
            row.metric,
        )
        for name in names
    ]


def further_dots(
    comparison: Comparison, rows: Sequence[RowKey], row: RowKey, chosen: Subject, room_each: int, room: int,
    columns: int, glyphs: Glyphs,
) -> list[Line]:  # fmt: skip
    """Every cell's value in other lines of the table, the same step's first, as far as they fit."""
    dots: list[Line] = []
    for other in sorted(rows, key=lambda other: other.step != row.step):
        if (
            other == row
            or other.metric in (STALLS, SLA)
            or not comparison.values(chosen.name, other.step, other.metric)
        ):
            continue
        drawn = strips(dot_rows(comparison, other, chosen, room_each), columns, glyphs)
        if len(dots) + 1 + len(drawn) > room:
            break
        dots += [line((f" {other.step} {title_of(comparison, other)}", "dim")), *drawn]
    return dots


def why(comparison: Comparison, row: RowKey, subject: Subject, glyphs: Glyphs, columns: int, height: int) -> list[Line]:
    """Possible reasons for a ratio: the two largest causes, stalls, phases, and figures per operation by difference."""
    base = comparison.baseline_of(subject.name)
    lines = [
        *_plan_lines(comparison, row.step, subject.name, columns),
        *_section_lines(comparison, row.step, subject.name),
        *_stall_lines(comparison, row.step, base, subject.name, columns),
    ]
    phases = _phases(comparison, row.step, base, subject.name, glyphs)
    if phases:
        lines.append(line((phases, "")))
    ratios = [ratio for name in PER_OP if (ratio := comparison.ratio(subject.name, row.step, name)) is not None]
    for ratio in sorted((r for r in ratios if r.ratio), key=_importance):
        values = [
            figure_text(ratio.metric, comparison.figure(name, row.step, ratio.metric)) for name in (base, subject.name)
        ]
        name = name_of(comparison, RowKey(row.step, ratio.metric))
        text = f"{name:<{METRIC_CELLS}}{values[0]:>6} {glyphs.arrow} {values[1]:<6}"
        found_text = f"{sign(ratio, glyphs)} {ratio_text(ratio.ratio or 0)}"
        lines.append(line(text, (found_text, MARKS.get(ratio.sign, ""))))
    if not lines:
        lines = [line(("nothing was counted per operation", "dim"))]
    return [fit(text, columns, glyphs.ellipsis) for text in lines[:height]]


def comparable(comparison: Comparison, subject: Subject, glyphs: Glyphs, columns: int, height: int) -> list[Line]:
    """The comparability checks in whole sentences, failed ones first."""
    checks = comparison.checks(subject.name)
    lines: list[Line] = []
    for check in checks:
        if not check.ok:
            lines += hanging(("? ", "warning"), f"{check.what}: {check.text}", columns + 1)
    measured = [check for check in checks if check.ok and any(letter.isdigit() for letter in check.text)]
    lines += [line(("ok ", "better"), f"{check.what} {check.text}") for check in measured]
    same = ", ".join(check.what for check in checks if check.ok and check not in measured)
    if same:
        lines += hanging(("ok ", "better"), same, columns + 1)
    if len(lines) > height:
        lines = [*lines[: height - 1], line((f"{len(lines) - height + 1} more: enter", "dim"))]
    return [fit(text, columns, glyphs.ellipsis) for text in lines]


def verdict(comparison: Comparison, row: RowKey, subject: Subject, glyphs: Glyphs) -> Line:
    base = comparison.baseline_of(subject.name)
    head = f" {row.step} {name_of(comparison, row)}, {subject.name}: "
    if row.metric in (STALLS, SLA):
        return line(head, counted(comparison, row, subject.name, 40), " against ", counted(comparison, row, base, 40))
    ratio = comparison.ratio(subject.name, row.step, row.metric)
    if ratio is None:
        return line(head, ("not measured on both sides", "dim"))
    if ratio.ratio is None:
        return line(head, ("; ".join(ratio.remarks) or "no ratio", "dim"))
    spans = line(head, (f"{sign(ratio, glyphs)}{ratio_text(ratio.ratio)}", MARKS.get(ratio.sign, "")))
    interval = f" {bounds_text(ratio)}" if ratio.bounds else ""
    words = ratio.verdict_text
    floor = f" (A/A {ratio.noise_floor:.1%})" if ratio.noise_floor is not None and not subject.control else ""
    pairs = f", {ratio.pairs} pairs" if 1 < ratio.pairs < comparison.pairs else ""
    return (*spans, (interval, ""), (f" {words}" if words else " no verdict", MARKS.get(ratio.sign, "")),
            (f"{floor}{pairs}", "dim"))  # fmt: skip


def remark(comparison: Comparison, row: RowKey, subject: Subject, glyphs: Glyphs) -> Line:
    """The reason of a withheld verdict, or another note on this line; otherwise the legend."""
    ratio = comparison.ratio(subject.name, row.step, judged_by(comparison, row))
    if ratio is not None and ratio.remarks and ratio.ratio is not None:
        return line((f" {'; '.join(ratio.remarks)}", "sla" if ratio.verdict == "withheld" else "dim"))
    if 0 < comparison.pairs < 3:
        given = (
            "one pair: ratios only, no verdict can be given" if comparison.pairs == 1 else "two pairs: no verdict yet"
        )
        return line((f" {given}; --repeats 4 or more", "warning"))
    about_step = [f for f in comparison.remarks.findings if f.startswith(f"{row.step}: ")]
    named = [f for f in about_step if f" {subject.name} " in f] or about_step
    if named and row.metric in PRIMARY_METRICS:
        return line((f" {named[0]}", "warning"))
    return legend(glyphs) if row.metric in PRIMARY_METRICS else explained(comparison, row)


def explained(comparison: Comparison, row: RowKey) -> Line:
    return line((f" {name_of(comparison, row)}: {text}" if (text := meaning(comparison, row)) else "", "dim"))


def judged_by(comparison: Comparison, row: RowKey) -> str:
    """A line's primary metric, which figures per operation help to explain."""
    return comparison.primary_metric(row.step) if row.metric in (STALLS, SLA) else row.metric


def legend(glyphs: Glyphs) -> Line:
    signs = {"better": glyphs.better, "worse": glyphs.worse}
    return line((" " + "  ".join(f"{signs.get(name, name)} {words}" for name, words in LEGEND), "dim"))


def nothing(comparison: Comparison) -> list[Line]:
    if not comparison.others:
        return [line(" there is nothing to compare with the base")]
    lines = [line(" no cell has finished yet: nothing to compare")] if not comparison.cells else []
    lines += [line((f" {cell.text}", "dim")) for cell in comparison.remarks.left_out]
    return lines or [line(" no line matches the filter; an empty filter (/) shows all")]


def rules(row: RowKey, subject: Subject, columns: int, glyphs: Glyphs) -> Line:
    wide = columns // 2
    why = rule(f"why {row.step}: base {glyphs.arrow} {subject.name}", wide - 1, glyphs)
    return (*why, (" ", ""), *rule("Comparable?", columns - wide, glyphs))


def roles(cells: Iterable[CellStep]) -> tuple[str, ...]:
    done: Counter[str] = Counter()
    for cell in cells:
        done.update({role: int(figures.get("statements") or 0) for role, figures in cell.roles.items()})
    return tuple(role for role, _ in done.most_common())


def _importance(ratio: Ratio) -> tuple[int, float]:
    return STRENGTH[ratio.sign], -abs(math.log(ratio.ratio or 1.0))


def _modes(comparison: Comparison, row: RowKey, name: str) -> str:
    spread = comparison.spread(name, row.step, row.metric)
    if spread is None:
        return ""
    if spread.bimodal:
        return f"two modes, {spread.gap:.0%} apart"
    return f"varies by {spread.cv:.0%}" if spread.wide else ""


def _plan_lines(comparison: Comparison, step: str, subject: str, columns: int) -> list[Line]:
    """A changed plan explains more than where the time went."""
    changes = comparison.changed_plans(subject, step)
    lines = [line for change in changes[:1] for line in folded(change.findings[0], columns, "strong")]
    return [*lines, line((f" and {len(changes) - 1} more plans: p", "dim"))] if len(changes) > 1 else lines


def _section_lines(comparison: Comparison, step: str, subject: str) -> list[Line]:
    """The findings of sections on a step and subject: the last figure of each row, its name, and the interval.

    A figure without a unit is named by its column, too.
    """
    lines: list[Line] = []
    for section in comparison.sections:
        rows, last = section.of(step, subject), section.columns[-1]
        deep = any(row.depth for row in rows)  # those at the margin are headings then
        shown = [
            (row, row.values[-1])
            for row in rows
            if row.values and not isinstance(row.values[-1], str | None) and (row.depth or not deep)
        ]
        if all(row.mark == "dim" and not interval(figure, last.unit) for row, figure in shown):
            continue
        for row, figure in shown[:MOST_ROWS]:
            value = text(figure, last.unit) + " us" * (last.unit == "change")
            bounds = f"  {interval(figure, last.unit)}".rstrip()
            mark = row.mark if row.mark == "dim" else "strong"
            name = f"{row.name}, {' '.join(last.name.split())}" if last.unit in ("", "count") else row.name
            lines.append(line((f"{value:>5} ", mark), (name, mark.replace("strong", "")), (bounds, "dim")))
        if len(shown) > MOST_ROWS:
            lines.append(line((f"and {len(shown) - MOST_ROWS} more (bench compare --all)", "dim")))
    return lines


def _stall_lines(comparison: Comparison, step: str, base: str, subject: str, columns: int) -> list[Line]:
    lines = []
    for name in (subject, base):
        stalls = [stall for cell in comparison.of(name, step) for stall in cell.stalls]
        if stalls:
            longest = max(stalls, key=lambda stall: stall.duration_s)
            head = f"! {longest.duration_s:.1f}s {longest.role} "
            who = "base: " if name == base else ""
            lines.append(fit(line((head, "stall"), f" {who}{longest.cause or 'no cause found'}"), columns))
    return lines


def _phases(comparison: Comparison, step: str, base: str, subject: str, glyphs: Glyphs) -> str:
    """Shares of statement time on both sides: `plan 20%→31%`."""

    def shares(name: str) -> dict[str, float]:
        phases = [cell.phases for cell in comparison.of(name, step) if cell.phases]
        return {phase: sum(f.get(phase, 0.0) for f in phases) / len(phases) for phase in phases[0]} if phases else {}

    ours, theirs = shares(base), shares(subject)
    if not ours or not theirs:
        return ""
    both = {phase: (ours[phase], theirs.get(phase, 0.0)) for phase in ours if phase != "other"}
    return " ".join(f"{phase} {one:.0%}{glyphs.arrow}{two:.0%}" for phase, (one, two) in both.items())

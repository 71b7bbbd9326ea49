"""What stands beside the table of a comparison: the dots, why, what was found alike, and the verdict in words."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

from tui.compare.comparison import Comparison, Ratio, Subject, verdict_words
from tui.compare.dots import DotRow
from tui.compare.table import (
    MARKS,
    SHORT,
    SLA,
    STALLS,
    Row,
    bounds_text,
    counted,
    name_of,
    ratio_text,
    sign,
)
from tui.glyphs import Glyphs
from tui.marks import Line, Span, fit, line, width
from tui.numbers import short

PER_OP = (
    "dbms_cpu_us_per_op", "plan_us_per_op", "runq_us_per_op", "wal_bytes_per_op", "read_kb_per_op", "written_kb_per_op",
    "device_written_kb_per_op", "ctx_switches_per_op", "client_cpu_us_per_op",
)  # fmt: skip
STRENGTH = {"slower": 0, "faster": 0, "withheld": 1, "inconclusive": 2, "none": 2, "same": 3}
LEGEND = (("better", "better for you"), ("worse", "worse"), ("=", "same"), ("~", "inconclusive"),
          ("?", "verdict withheld"))  # fmt: skip


def title(comparison: Comparison, sort: str, wanted: str, busy: bool) -> Line:
    """What is compared, and how: what matters most first, for where it is cut."""
    pairs = comparison.pairs
    by_pairs = f"{pairs} pairs ABBA  95% CI" if pairs > 1 else "1 pair, no verdicts" if pairs else "no pairs"
    margin = f"margin {comparison.margin:.0%}" if comparison.margin >= 0.01 else f"margin {comparison.margin:.1%}"
    spans: list[Span] = [(" COMPARE ", "title"), ("  comparing..." if busy else "", "chosen")]
    spans.append((f" base {comparison.base}  {by_pairs}  {margin}", ""))
    if sort != "steps":
        spans.append((f"  by {sort}", "chosen"))
    if wanted:
        spans.append((f"  /{wanted}", "chosen"))
    workload = comparison.workload
    named = " ".join(str(workload[key]) for key in ("name", "generation", "scale") if workload.get(key))
    clients = f" {workload['clients']} clients" if workload.get("clients", 1) != 1 else ""
    kernels = ", ".join(comparison.kernels)
    spans.append((f"  {named}{clients}", "dim"))
    spans.append((f"  linux {kernels}" if kernels and kernels != "host" else "", "dim"))
    return tuple(spans)


def dot_rows(comparison: Comparison, row: Row, chosen: Subject | None, height: int) -> list[DotRow]:
    """Every cell's value in a line of the table: the base's first, and as many others as fit, the chosen among them."""
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
        )
        for name in names
    ]


def why(comparison: Comparison, row: Row, subject: Subject, glyphs: Glyphs, columns: int, height: int) -> list[Line]:
    """What may be behind a step's ratio: stalls, phases, and the figures per operation, those that differ first."""
    base = comparison.opposite(subject)
    lines = _stall_lines(comparison, row.step, base, subject.name, columns)
    phases = _phases(comparison, row.step, base, subject.name)
    if phases:
        lines.append(line((phases, "")))
    found = [ratio for name in PER_OP if (ratio := comparison.ratio(row.step, subject.name, name)) is not None]
    for ratio in sorted((r for r in found if r.ratio), key=_importance):
        values = [short(comparison.median(name, row.step, ratio.metric)) for name in (base, subject.name)]
        text = f"{SHORT[ratio.metric]:<12}{values[0]:>6} > {values[1]:<6}"
        found_text = f"{sign(ratio, glyphs)} {ratio_text(ratio.ratio or 0)}"
        lines.append(line(text, (found_text, MARKS.get(ratio.verdict, ""))))
    if not lines:
        lines = [line(("nothing was counted per operation", "dim"))]
    return [fit(each, columns, glyphs.ellipsis) for each in lines[:height]]


def alike(comparison: Comparison, subject: Subject, glyphs: Glyphs, columns: int, height: int) -> list[Line]:
    """What was looked at to see whether the cells are of one kind: what was not comes first, in whole sentences."""
    checks = comparison.likeness.get(subject.name, ())
    lines: list[Line] = []
    for check in checks:
        if not check.ok:
            parts = textwrap.wrap(f"{check.what}: {check.text}", max(10, columns - 2)) or [""]
            lines += [line(("? " if place == 0 else "  ", "warning"), part) for place, part in enumerate(parts)]
    measured = [check for check in checks if check.ok and any(letter.isdigit() for letter in check.text)]
    lines += [line(("ok ", "better"), f"{check.what} {check.text}") for check in measured]
    same = ", ".join(check.what for check in checks if check.ok and check not in measured)
    if same:
        parts = textwrap.wrap(same, max(10, columns - 3))
        lines += [line(("ok " if place == 0 else "   ", "better"), part) for place, part in enumerate(parts)]
    if len(lines) > height:
        lines = [*lines[: height - 1], line((f"{len(lines) - height + 1} more: enter", "dim"))]
    return [fit(each, columns, glyphs.ellipsis) for each in lines]


def verdict(comparison: Comparison, row: Row, subject: Subject, glyphs: Glyphs) -> Line:
    """The chosen ratio as a sentence."""
    base = comparison.opposite(subject)
    head = f" {row.step} {name_of(comparison, row)}, {subject.name}: "
    if row.metric in (STALLS, SLA):
        return line(head, counted(comparison, row, subject.name, 40), " against ", counted(comparison, row, base, 40))
    found = comparison.ratio(row.step, subject.name, row.metric)
    if found is None:
        return line(head, ("not measured on both sides", "dim"))
    if found.ratio is None:
        return line(head, ("; ".join(found.reasons) or "no ratio", "dim"))
    spans = line(head, (f"{sign(found, glyphs)}{ratio_text(found.ratio)}", MARKS.get(found.verdict, "")))
    interval = f" {bounds_text(found, whole=True)}" if found.low is not None else ""
    words = verdict_words(found)
    floor = f" (A/A {found.noise_floor:.1%})" if found.noise_floor is not None and not subject.arm else ""
    pairs = f", {found.pairs} pairs" if 1 < found.pairs < comparison.pairs else ""
    return (*spans, (interval, ""), (f" {words}" if words else " no verdict", MARKS.get(found.verdict, "")),
            (f"{floor}{pairs}", "dim"))  # fmt: skip


def remark(comparison: Comparison, row: Row, subject: Subject, glyphs: Glyphs) -> Line:
    """Why a verdict was withheld, or what else must be known of this line; the legend where there is nothing."""
    found = comparison.ratio(row.step, subject.name, judged_by(row))
    if found is not None and found.reasons and found.ratio is not None:
        return line((f" {'; '.join(found.reasons)}", "sla" if found.verdict == "withheld" else "dim"))
    if 0 < comparison.pairs < 3:
        given = (
            "one pair: ratios only, no verdict can be given" if comparison.pairs == 1 else "two pairs: no verdict yet"
        )
        return line((f" {given}; --repeats 3 or more, better 5", "warning"))
    own = [f for f in comparison.findings if f.startswith(f"{row.step}: ")]
    named = [f for f in own if f" {subject.name} " in f] or own
    if named and row.metric == "rate_per_s":
        return line((f" {named[0]}", "warning"))
    return legend(glyphs)


def judged_by(row: Row) -> str:
    """The metric whose verdict a line is about: what is counted bears on the rate's."""
    return "rate_per_s" if row.metric in (STALLS, SLA) else row.metric


def folded(text: str, columns: int, mark: str = "", indent: int = 1) -> list[Line]:
    """Text in as many lines as it takes; further lines are indented by two more."""
    parts = textwrap.wrap(text, max(10, columns - indent - 2))
    return [line((" " * (indent + 2 * (place > 0)) + part, mark)) for place, part in enumerate(parts)]


def legend(glyphs: Glyphs) -> Line:
    """What the signs mean."""
    signs = {"better": glyphs.better, "worse": glyphs.worse}
    return line((" " + "  ".join(f"{signs.get(name, name)} {words}" for name, words in LEGEND), "dim"))


def nothing(comparison: Comparison) -> list[Line]:
    """What is shown where no cell can be compared."""
    lines = [line(" no cell has finished yet: nothing to compare")] if not comparison.cells else []
    lines += [line((f" {text}", "dim")) for text in left_out(comparison)]
    return lines or [line(" no line holds all of what is looked for: / with nothing shows all again")]


def left_out(comparison: Comparison) -> list[str]:
    """Cells that are not in it, and why, as `bench compare` says it."""
    return [
        f"left out: {cell['name']} repeat {cell['repeat']} ({cell['run']} {cell['cell']}) {cell['state']}"
        + (f": {cell['reason']}" if cell["reason"] else "")
        for cell in comparison.left_out
    ]


def rule(text: str, columns: int, glyphs: Glyphs, right: str = "") -> Line:
    """A line that begins a part of the screen."""
    text = f" {text} "[: max(0, columns - 4)]
    right = f" {right} " if right else ""
    rest = columns - 1 - len(text) - len(right) - 1
    if rest < 1:
        right, rest = "", columns - 2 - len(text)
    return line(
        (glyphs.rule, "dim"), (text, "strong"), (glyphs.rule * rest, "dim"), (right, "dim"), (glyphs.rule, "dim")
    )


def beside(left: Sequence[Line], right: Sequence[Line], columns: int, height: int, glyphs: Glyphs) -> list[Line]:
    """Two columns of lines, the left one so wide."""
    lines: list[Line] = []
    for y in range(height):
        ours = fit(left[y], columns - 2, glyphs.ellipsis) if y < len(left) else ()
        theirs = right[y] if y < len(right) else ()
        lines.append((("", ""), *ours, (" " * (columns - 1 - width(ours)), ""), (glyphs.bar, "dim"), *theirs))
    return lines


def _importance(ratio: Ratio) -> tuple[int, float]:
    return STRENGTH[ratio.verdict], -abs(math.log(ratio.ratio or 1.0))


def _modes(comparison: Comparison, row: Row, name: str) -> str:
    spread = comparison.spreads.get((row.step, name, row.metric))
    if spread is None:
        return ""
    if spread.two_modes:
        return f"two modes, gap {spread.gap:.0%}"
    return f"CV {spread.cv:.0%}" if spread.wide else ""


def _stall_lines(comparison: Comparison, step: str, base: str, subject: str, columns: int) -> list[Line]:
    """The longest stall of each side that has any, with its likeliest cause."""
    lines = []
    for name in (subject, base):
        stalls = [stall for cell in comparison.of(name, step) for stall in cell.stalls]
        if stalls:
            longest = max(stalls, key=lambda stall: stall.get("duration_s", 0.0))
            cause = cause_text(longest)
            head = f"! {longest.get('duration_s', 0.0):.1f}s {longest.get('role', '')} "
            who = "base: " if name == base else ""
            lines.append(fit(line((head, "stall"), f" {who}{cause}"), columns))
    return lines


def cause_text(stall: object) -> str:
    """A stall's likeliest cause for a person."""
    causes = stall.get("causes") if isinstance(stall, dict) else None
    return str(causes[0].get("text", causes[0].get("kind", ""))) if causes else "no cause found"


def _phases(comparison: Comparison, step: str, base: str, subject: str) -> str:
    """How the time of statements splits on both sides: `plan 20>31%`."""

    def shares(name: str) -> dict[str, float]:
        found = [cell.figures["phases"] for cell in comparison.of(name, step) if cell.figures.get("phases")]
        return {phase: sum(f.get(phase, 0.0) for f in found) / len(found) for phase in found[0]} if found else {}

    ours, theirs = shares(base), shares(subject)
    if not ours or not theirs:
        return ""
    return " ".join(f"{phase} {ours[phase]:.0%}>{theirs.get(phase, 0.0):.0%}" for phase in ours if phase != "other")

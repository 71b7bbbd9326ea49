"""A comparison as plain text of at most 60 lines of 72 columns, to paste into a mail to pgsql-hackers.

It has the answer, how it was measured, a line for each step and subject, what is flagged, and what is withheld and why.
What does not fit is left to the page, which it names.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

from engine.core.text import Visible, visible, visible_lines
from engine.journal.runs import reference
from engine.report import origins, render
from engine.report.origins import Origins
from engine.report.tables.response_times import percentiles
from engine.report.tables.section import Notes, Section, bounds, ratio_text, value_text
from engine.results.comparison import TIME, Comparison

COLUMNS, LINES = 72, 60
GAP = "  "
RANK = {"faster": 0, "slower": 0, "withheld": 1, "inconclusive": 2}  # of the table's rows, where not all fit
HEAD = ("step", "build", "base", "ratio", "95 %", "verdict")
BUILD, BASE = 1, 2  # columns of the table
WORDS = ("step", "build", "verdict", "step, build and role")  # columns aligned to the left
TIMES = ("step, build and role", "p50", "p99", "max")  # columns of response times
MOST_ANSWERS, MOST_FACTS, MOST_LEGEND = 14, 10, 8  # lines
KEPT = 12  # lines that a table of many steps leaves to what follows
FIRM = re.compile(r"\[[^\[\]]{1,40}\]|[±+-]?[\d.,]+ (?:%|[kMGT]?B\b|[mu]?s\b)")  # never broken at a line's end
DRIFT = "drift at "  # begins a remark about a cell's machine
SHORTEST = 9  # length to which a name is cut
NO_BREAK = "\N{NO-BREAK SPACE}"
Line = tuple[str, ...]  # the cells of a table's row


def text(comparison: Comparison, known: Origins) -> Visible:
    notes = Notes()
    rows = _rows(comparison, notes)
    answer = _cut([line for each in comparison.answer for line in _folded(each.text)], MOST_ANSWERS)
    facts = _cut([line for each in (*render.header(comparison), *known.machines) for line in _folded(each)], MOST_FACTS)
    others = {*comparison.findings, *(cell.text for cell in comparison.left_out)}
    legend = _cut(
        [line for each in render.footer(comparison) if each not in others for line in _folded(each)], MOST_LEGEND
    )
    page = _page(comparison)
    left = LINES - sum(len(part) + 1 for part in (answer, facts, legend, page))

    table = _table(comparison, rows, left - KEPT)
    left -= len(table)
    used = [note for note in notes.lines() if any(f" {note.split()[0]}" in row for row in table)]
    below = _cut([line for each in used for line in _folded(each)], left - 2 * KEPT // 3)
    left -= len(below)
    causes = _listed("Flagged:", _causes(comparison), left - KEPT // 3)
    left -= len(causes) + 1
    findings = _listed("To be known:", _findings(comparison), left)
    left -= len(findings) + 1
    whole = []  # printed whole or not at all
    for part in (_command(known), _times(comparison)):
        if len(part) < left:
            whole.append(part)
            left -= len(part) + 1
    parts = (answer, facts, [*table, *below, *legend], causes, findings, *whole, page)
    return visible_lines("\n\n".join("\n".join(part) for part in parts if part) + "\n")


def further(comparison: Comparison, known: Origins) -> list[Section]:
    found = [*percentiles(comparison, Notes()), origins.comparability(comparison), *known.sections]
    return [section for section in found if section.rows]


def _rows(comparison: Comparison, notes: Notes) -> list[tuple[str, Line]]:
    found: list[tuple[str, Line]] = []
    for step in comparison.steps:
        metric, unit = comparison.primary_metric(step), comparison.units.get(step, "")
        for subject in comparison.others:
            ratio = comparison.ratio(subject.name, step, metric)
            if ratio is not None:
                base = value_text(metric, comparison.figure(comparison.baseline_of(subject.name), step, metric))
                verdict = f"{ratio.missing or ratio.verdict_text}{notes.mark(ratio.remarks)}".strip()
                figures = (base if metric == TIME else f"{base} {unit}", ratio_text(ratio), bounds(ratio))
                found.append((ratio.verdict, (step, subject.name, *figures, verdict)))
    return found


def _table(comparison: Comparison, rows: Sequence[tuple[str, Line]], lines: int) -> list[str]:
    """As many rows as fit: those that differ first, then the inconclusive ones."""
    if not rows:
        return []
    most = len(rows) if len(rows) < lines else max(1, lines - 2)
    chosen = sorted(sorted(range(len(rows)), key=lambda place: (RANK.get(rows[place][0], 3), place))[:most])
    shown = [HEAD, *(rows[place][1] for place in chosen)]
    needless = BUILD if len(comparison.others) == 1 else BASE  # the same in all lines, or in all lines of a step
    shown = [(*row[:needless], *row[needless + 1 :]) for row in shown]
    found = _columns(shown)
    over = max(map(len, found)) - COLUMNS
    if over > 0 and needless == BASE:
        longest = max(len(row[BUILD]) for row in shown) - over
        found = _columns([(row[0], _shortened(row[BUILD], longest), *row[BUILD + 1 :]) for row in shown])
    more = len(rows) - most
    return [*found, *([f"and {more} more line{'s' if more > 1 else ''}: see the page"] if more > 0 else [])]


def _shortened(name: str, longest: int) -> str:
    """Shorten a long name in the middle: builds differ at either end."""
    half = (max(longest, SHORTEST) - 1) // 2
    return name if len(name) <= 2 * half + 1 else f"{name[:half]}…{name[-half:]}"


def _columns(rows: Sequence[Line]) -> list[str]:
    rows = [tuple(map(visible, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*(row for row in rows if len(row) > 1), strict=True)]
    left = [heading in WORDS for heading in rows[0]]
    return [
        GAP.join(
            f"{cell:{'<' if at_left else '>'}{width}}" for cell, width, at_left in zip(row, widths, left, strict=False)
        ).rstrip()
        for row in rows
    ]


def _causes(comparison: Comparison) -> list[str]:
    found = []
    titles = {metric.name: metric.title for metric in comparison.metrics}
    for step in comparison.steps:
        for subject in comparison.others:
            ratio = comparison.ratio(subject.name, step, comparison.primary_metric(step))
            if ratio is None:
                continue
            name = f"{step} {subject.name}" if len(comparison.others) > 1 else step
            told = [f"{titles[each.metric]} {each.ratio:.3f} [{bounds(each)}]" for each in comparison.causes(ratio)]
            attribution = comparison.attribution(subject.name, step)
            if attribution is not None and attribution.causes:
                told.append(attribution.text)
            found += [f"{name}: {'; '.join(told)}"] if told else []
    return found


def _findings(comparison: Comparison) -> list[str]:
    """What is left out, and further remarks; of drift, which many cells have, only the first."""
    drifts = [text for text in comparison.findings if text.startswith(DRIFT)]
    others = [text for text in comparison.findings if text not in drifts]
    more = f"; {len(drifts) - 1} more of drift: see the page" if len(drifts) > 1 else ""
    return [*(cell.text for cell in comparison.left_out), *others, *(f"{text}{more}" for text in drifts[:1])]


def _times(comparison: Comparison) -> list[str]:
    (section,) = percentiles(comparison, Notes())
    places = [section.columns.index(name) for name in TIMES]
    rows = [tuple(row[place] for place in places) if len(row) > 1 else row for row, _ in section.rows]
    return [section.title, *_columns([TIMES, *rows])]


def _page(comparison: Comparison) -> list[str]:
    folders = [Path(folder) for folder in comparison.folders.values()]
    runs = " ".join(map(reference, folders))
    told = (
        "Every cell, costs, response times, stalls, waits, sizes, settings and builds are on the page that this writes:"
    )
    return [*_folded(told), *_shell(f"bench report {runs}")]


def _command(known: Origins) -> list[str]:
    return ["The command again:", *(line for each in known.commands for line in _shell(each))]


def _listed(title: str, items: Sequence[str], lines: int) -> list[str]:
    found, folded = [title], [_folded(item, "- ") for item in items]
    for place, item in enumerate(folded):
        last = place == len(folded) - 1
        if len(found) + len(item) + (not last) > lines:
            more = len(folded) - place
            return [*found, f"- and {more} more: see the page"] if len(found) < lines else []
        found += item
    return found if items else []


def _cut(lines: list[str], most: int) -> list[str]:
    return lines if len(lines) <= most else [*lines[: max(0, most - 1)], "… (the rest of this: see the page)"][:most]


def _folded(text: str, before: str = "") -> list[str]:
    """Wrap, keeping figures with their units and intervals whole."""
    firm = FIRM.sub(lambda found: found[0].replace(" ", NO_BREAK), before + visible(text))
    lines = textwrap.wrap(firm, COLUMNS, subsequent_indent=" " * len(before), break_on_hyphens=False)
    return [line.replace(NO_BREAK, " ") for line in lines] or [""]


def _shell(line: str) -> list[str]:
    """A comment or a command, folded to COLUMNS with backslashes as a shell reads them."""
    line = visible(line)
    if line.startswith("#"):
        return textwrap.wrap(line, COLUMNS, subsequent_indent="# ", break_on_hyphens=False)
    found = [""]
    for word in re.findall(r"(?:'[^']*'|[^' ])+", line):
        if found[-1] and len(found[-1]) + len(word) > COLUMNS - len(" \\"):
            found[-1] += "\\"
            found.append("")
        while len(word) > COLUMNS - len(" \\") and "'" not in word:  # within quotes a backslash is literal
            found[-1] += word[: COLUMNS - len("\\")] + "\\"
            word = word[COLUMNS - len("\\") :]
            found.append("")
        found[-1] += f"{word} "
    return [each.rstrip() for each in found]

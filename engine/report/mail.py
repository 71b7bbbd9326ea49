"""A comparison as plain text of at most 72 columns, as one pastes it into a mail to pgsql-hackers."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from engine.core.comparison import Comparison
from engine.core.text import visible
from engine.report import origins, percentile_tables, render
from engine.report.origins import Origins
from engine.report.section import Notes, Section

COLUMNS = 72
GAP = "  "
LONGEST_FIGURE = 13
LEFT_OUT = (origins.ENVIRONMENT, origins.OBSERVERS)  # which nobody reads in a mail


def text(comparison: Comparison, known: Origins) -> str:
    """The whole mail."""
    notes = Notes()
    parts = ["\n".join(_folded(answer.text)) for answer in comparison.answer]
    facts = (*render.header(comparison), *known.machines)
    parts.append("\n".join(line for fact in facts for line in _folded(fact)))
    beside = [section for section in further(comparison, known) if section.title not in LEFT_OUT]
    parts += [_table(section) for section in (*render.all_sections(comparison, notes), *beside)]
    parts.append("The command again:\n" + "\n".join(line for each in known.commands for line in _command(each)))
    parts.append("\n".join(line for note in render.footer(comparison, notes) for line in _folded(note, "- ")))
    return "\n\n".join(part for part in parts if part) + "\n"


def further(comparison: Comparison, known: Origins) -> list[Section]:
    """The tables that a report has beside those of a comparison."""
    found = [*percentile_tables.sections(comparison), origins.comparability(comparison), *known.sections]
    return [section for section in found if section.rows]


def _folded(line: str, before: str = "") -> list[str]:
    return textwrap.wrap(
        before + visible(line), COLUMNS, subsequent_indent=" " * len(before), break_on_hyphens=False
    ) or [""]


def _command(line: str) -> list[str]:
    """A comment, or a command that goes on after a backslash as a shell reads it."""
    if line.startswith("#"):
        return textwrap.wrap(line, COLUMNS, subsequent_indent="# ", break_on_hyphens=False)
    found = [""]
    for word in re.findall(r"(?:'[^']*'|[^' ])+", line):
        if found[-1] and len(found[-1]) + len(word) > COLUMNS - len(" \\"):
            found[-1] += "\\"
            found.append("")
        while len(word) > COLUMNS - len(" \\") and "'" not in word:  # within quotes a backslash is one
            found[-1] += word[: COLUMNS - len("\\")] + "\\"
            word = word[COLUMNS - len("\\") :]
            found.append("")
        found[-1] += f"{word} "
    return [each.rstrip() for each in found]


def _table(section: Section) -> str:
    """A table; one that is too wide has its columns below each other in parts, each with the names of its rows."""
    columns = [visible(column.replace("\n", " ")) for column in section.columns]
    rows = [tuple(visible(cell.rstrip()) for cell in cells) for cells, _ in section.rows]
    whole = [row for row in rows if len(row) > 1]
    if not whole:
        return ""
    first = min(COLUMNS // 2, max(len(columns[0]), *(len(row[0]) for row in rows)))
    parts: list[list[int]] = [[]]
    left = COLUMNS - first
    for place in range(1, len(columns)):
        width = len(GAP) + _width(columns, whole, place, first)
        if width > left and parts[-1]:
            parts.append([])
            left = COLUMNS - first
        parts[-1].append(place)
        left -= width
    lines = _folded(section.title)
    for number, part in enumerate(parts):
        lines += [""] if number else []
        lines += _part(columns, rows, part, first, [_width(columns, whole, place, first) for place in part])
    return "\n".join(lines)


def _width(columns: Sequence[str], rows: Sequence[Sequence[str]], place: int, first: int) -> int:
    """How wide a column is: as its longest text, but no wider than what is left beside the names."""
    texts = [row[place].strip() for row in rows]
    wanted = max(len(word) for text in (columns[place], *texts) for word in text.split() or [""])
    if not _words(columns, rows, place):
        wanted = max(wanted, *map(len, texts))
    return min(wanted, COLUMNS - first - len(GAP))


def _words(columns: Sequence[str], rows: Sequence[Sequence[str]], place: int) -> bool:
    """Whether a column is of words, which may be folded."""
    return columns[place] == "verdict" or any(len(row[place]) > LONGEST_FIGURE for row in rows if len(row) > 1)


def _part(
    columns: Sequence[str], rows: Sequence[Sequence[str]], part: Sequence[int], first: int, widths: Sequence[int]
) -> list[str]:
    words = [_words(columns, rows, place) for place in part]
    # What is left of the line is theirs.
    left = COLUMNS - first - sum(len(GAP) + width for width in widths)
    texts = [max((len(row[place].strip()) for row in rows if len(row) > 1), default=0) for place in part]
    widths = [width + (max(0, min(left // sum(words), text - width)) if wordy else 0)
              for width, text, wordy in zip(widths, texts, words, strict=True)]  # fmt: skip

    def line(cells: Sequence[str]) -> list[str]:
        folded = [textwrap.wrap(cells[0], first, subsequent_indent="    ", drop_whitespace=False) or [""]]
        folded += [
            textwrap.wrap(cells[place].strip(), width) or [""] for place, width in zip(part, widths, strict=True)
        ]
        found = []
        for number in range(max(map(len, folded))):
            texts = [each[number] if number < len(each) else "" for each in folded]
            placed = [texts[0].ljust(first)] + [
                each.ljust(width) if left else each.rjust(width)
                for each, width, left in zip(texts[1:], widths, words, strict=True)
            ]
            found.append(GAP.join(placed).rstrip())
        return found

    shown = [columns[0], *columns[1:]]
    lines = line(shown)
    for row in rows:
        lines += [textwrap.shorten(row[0], COLUMNS)] if len(row) == 1 else line(row)
    return lines

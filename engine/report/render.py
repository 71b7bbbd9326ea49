"""A comparison as tables for the terminal, Markdown, CSV, or JSON. Every table is complete in 80 columns.

Arrows are the user's view: down for less throughput (`slower`) and for more CPU per operation (`more`), too. The JSON
(`--json`) is `engine.results.comparison.Comparison`.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from engine.core.record import flattened
from engine.core.text import Visible, csv_text, visible, visible_json, visible_lines
from engine.report import sliced_step as sliced
from engine.report import tables
from engine.results.comparison import GROUPS, Comparison
from engine.results.ratio import DELETE_PLAN, INSTRUCTIONS, LATENCIES, RATE, TIME
from engine.results.section import Notes, Section, TextTable, drawn
from engine.results.sliced_step import SlicedStep

VARY = re.compile(r"(.+?): the cells of (.+) vary by (\d+%) \(CV\)")  # of engine.analysis.answer.findings
MOST_FINDINGS = 10  # of a section, above the tables
MOST_NOTES = 3  # below the verdicts
SIGNS = "▲ better  ▼ worse (of a cost: more)  = same  ~ undecided  ? withheld"
BETTER, WORSE, WITHHELD = "#0072B2", "#D55E00", "#CC79A7"
STYLES = {"better": BETTER, "worse": WORSE, "?": WITHHELD, "=": "dim", "~": "dim", "dim": "dim", "strong": "bold"}
ASCII = {"→": ">", "≠": "!", "▲": "^", "▼": "v", "≥": ">=", "±": "+-"}


def print_comparison(comparison: Comparison, console: Console, *, published: bool = False, rest: str = "") -> None:
    """Print a comparison; `published` adds the reference client's own figures.

    With `rest`, the words that lead to everything else, only the verdicts and the first notes are printed.
    """
    plain = _is_plain(console)
    for text in (text for answer in comparison.answer for text in answer.lines):
        shown = Text(_spelled(visible(text), plain), style="bold")
        console.print(shown, soft_wrap=not console.is_terminal)  # one line, for programs that read it
    for line in header(comparison):
        console.print(Text(visible(line)), soft_wrap=True)
    every = tables.sections(comparison, *["figures"] * published)
    shown_sections = [section for section in every if not rest or section.key in tables.BRIEF]
    _print_sections(shown_sections, console, plain)
    if not rest:
        _print_footer(footer(comparison), console, plain)
        return
    of_data = comparison.remarks
    remarks = [*_few_pairs(comparison), *(cell.text for cell in of_data.left_out), *_gathered(of_data.findings)]
    more = {
        "table": len(every) - len(shown_sections),
        "note": len(remarks) - MOST_NOTES,
    }
    counts = " and ".join(f"{number} more {what}{'s' * (number > 1)}" for what, number in more.items() if number > 0)
    _print_footer([SIGNS, *remarks[:MOST_NOTES]], console, plain)
    if counts:
        console.print(Text(visible(f"{counts}: {rest}")), soft_wrap=True)


def print_slices(step: SlicedStep, console: Console) -> None:
    """Print the blocks of an interleaved step: all of them, but summarised on a terminal."""
    plain, brief = _is_plain(console), console.is_terminal
    for line in sliced.header(step):
        console.print(Text(visible(line)), soft_wrap=True)
    _print_sections(sliced.sections(step, brief=brief), console, plain)
    _print_footer(sliced.footer(step, brief=brief), console, plain)


def _is_plain(console: Console) -> bool:
    return (console.encoding or "").lower().replace("-", "") not in ("utf8", "utf16")


def _print_sections(shown: Iterable[Section], console: Console, plain: bool) -> None:
    for table in drawn(shown, Notes()):
        console.print()
        console.print(Text(visible(table.title), style="bold"))
        console.print(_table(table, plain))
        _print_lines(table.notes, console, plain)


def _print_footer(lines: Iterable[str], console: Console, plain: bool) -> None:
    console.print()
    _print_lines(lines, console, plain)


def _print_lines(lines: Iterable[str], console: Console, plain: bool) -> None:
    for line in lines:
        console.print(Text(_spelled(visible(line), plain)), soft_wrap=False)


def print_plans(plans: Sequence[Section], console: Console) -> None:
    """Print plans side by side."""
    plain = _is_plain(console)
    for finding in (finding for section in plans for finding in section.findings):
        console.print(Text(_spelled(visible(finding), plain), style="bold"), soft_wrap=True)
    _print_sections(plans, console, plain)


def plans_to_json(plans: Sequence[Section]) -> Visible:
    return visible_json(msgspec.to_builtins(plans), indent=1)


def plans_to_markdown(plans: Sequence[Section]) -> Visible:
    return visible_lines("\n\n".join(_markdown_tables(plans)) + "\n")


def to_json(comparison: Comparison) -> Visible:
    """The JSON described by `bench schema compare`."""
    return visible_json(flattened(comparison, GROUPS), indent=1)


def to_csv(comparison: Comparison) -> Visible:
    """One line per step, subject and metric, the base included: its mean, its baseline's mean, their ratio, verdict."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ("step", "subject", "build", "config", "kernel", "control", "metric", "cells", "mean", "base_mean", "ratio",
         "low", "high", "pairs", "verdict", "more_pairs", "noise_floor", "reasons", "flagged", "visible_effect",
         "design")
    )  # fmt: skip
    for step in comparison.steps:
        for subject in comparison.subjects:
            for metric in comparison.metrics:
                values = comparison.values(subject.name, step, metric.name)
                if not values:
                    continue
                ratio = comparison.ratio(subject.name, step, metric.name)
                judged = (
                    (ratio.ratio, ratio.low, ratio.high, ratio.pairs, ratio.verdict, ratio.more_pairs,
                     ratio.noise_floor, "; ".join(ratio.remarks), ratio.flagged, ratio.visible_effect)
                    if ratio else (1.0, None, None, len(values), "base", None, None, "", False, None)
                )  # fmt: skip
                of = (subject.name, subject.build, subject.config, subject.kernel, subject.control)
                against = comparison.baseline_of(subject.name) if ratio else subject.name
                means = (comparison.figure(name, step, metric.name) for name in (subject.name, against))
                row = (step, *of, metric.name, len(values), *means, *judged, comparison.measured.design)
                writer.writerow([csv_text(cell) if isinstance(cell, str) else cell for cell in row])
    return visible_lines(out.getvalue())


def to_markdown(comparison: Comparison, *, published: bool = False) -> Visible:
    """The terminal's tables, for a ticket or a mail."""
    parts = _answers(comparison)
    parts.append("\n".join(f"{markdown_text(line)}  " for line in header(comparison)))
    parts += _markdown_tables(tables.sections(comparison, *["figures"] * published))
    parts.append("\n".join(f"- {markdown_text(line)}" for line in footer(comparison)))
    return visible_lines("\n\n".join(parts) + "\n")


def to_comment(comparison: Comparison, lines: Iterable[str]) -> Visible:
    """The answer, `lines` and the first table for a pull request; the other tables are folded."""
    shown = _markdown_tables(tables.sections(comparison))
    parts = _answers(comparison)
    parts += ["\n".join(f"- {markdown_text(line)}" for line in lines), *shown[:1], "<details><summary>More</summary>"]
    parts += ["\n".join(f"{markdown_text(line)}  " for line in header(comparison)), *shown[1:]]
    parts += ["\n".join(f"- {markdown_text(line)}" for line in footer(comparison)), "</details>"]
    return visible_lines("\n\n".join(parts) + "\n")


def _answers(comparison: Comparison) -> list[str]:
    return ["  \n".join(f"**{markdown_text(line)}**" for line in answer.lines) for answer in comparison.answer]


def slices_to_markdown(step: SlicedStep) -> Visible:
    parts = ["\n".join(f"{markdown_text(line)}  " for line in sliced.header(step))]
    parts += _markdown_tables(sliced.sections(step))
    parts.append("\n".join(f"- {markdown_text(line)}" for line in sliced.footer(step)))
    return visible_lines("\n\n".join(parts) + "\n")


def _markdown_tables(sections: Iterable[Section]) -> list[str]:
    return [*map(_markdown_table, drawn(sections, Notes()))]


def _markdown_table(table: TextTable) -> str:
    columns = [column.replace("\n", " ") for column in table.columns]
    lines = [
        f"### {markdown_text(table.title)}",
        "",
        _markdown_row(columns),
        "| " + " | ".join(["---", *["---:"] * (len(columns) - 1)]) + " |",
    ]
    for row, _ in table.rows:
        cells = [markdown_text(cell.strip()) for cell in row]
        cells = [f"**{cells[0]}**", *[""] * (len(columns) - 1)] if len(row) == 1 else cells
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", *(f"- {markdown_text(note)}" for note in table.notes)] if table.notes else []
    return "\n".join(lines)


def header(comparison: Comparison) -> list[str]:
    measured, most = comparison.measured, comparison.pairs
    workload = measured.workload
    lines = [f"run {run}" for run in comparison.runs]
    lines.append(
        f"{workload.text}, {workload.clients} client{'s' if workload.clients != 1 else ''}; base {comparison.base}"
    )
    sources = dict.fromkeys((build.label, build.version, build.source) for build in measured.builds if build.source)
    lines += [f"{label}: PostgreSQL {version}, {source}" for label, version, source in sources]
    if workload.non_default:
        lines.append(f"workload options: {', '.join(workload.non_default)}")
    if measured.route.startswith("TCP"):
        lines.append(f"clients connect over {measured.route}")
    if measured.design != "cells":
        lines.append(f"servers side by side, interleaved in {measured.design}: not pooled with runs of whole cells")
    for key in dict.fromkeys(section.key for section in comparison.sections):
        parts = comparison.section(key)
        findings = [text for section in parts for text in section.findings]
        shown = findings[:MOST_FINDINGS] if any(section.rows for section in parts) else findings
        lines += shown
        if more := len(findings) - len(shown):
            lines.append(f"{key}: {more} more, in the tables (--all)")
    if most > 1:
        lines.append(f"up to {most} pairs, 95% intervals of paired log ratios, margin {100 * comparison.margin:.3g}%")
    return lines


def footer(comparison: Comparison) -> list[str]:
    lines = [SIGNS, *_few_pairs(comparison)]
    if comparison.pairs >= 3 and all(ratio.verdict == "none" for ratio in comparison.ratios):
        lines.append("ratios with 95% intervals, each on its own; there are no verdicts")
    elif comparison.pairs >= 3:
        lines += [
            f"errors: at most 1 comparison in 20 reports a {_judged(comparison)} as different when it is equal, 1 in "
            "20 as the same when it differs by the margin, and 1 in 20 as no slower when it is slower by it; likewise "
            f"for server CPU{_counted(comparison)}",
            "intervals are 95% each, jointly for faster and slower steps; other arrows: beyond chance, but no verdict",
        ]
    if comparison.ratios:
        lines.append("figures next to ratios: the base's geometric mean over its cells, and that mean times the ratio")
    lines += _gathered(comparison.remarks.findings)
    lines += [cell.text for cell in comparison.remarks.left_out]
    return lines


def _few_pairs(comparison: Comparison) -> list[str]:
    """The reason why there is no verdict yet, if there are not enough pairs."""
    if not comparison.cells:
        return ["no cell has finished yet: nothing to compare"]
    if comparison.pairs == 1:
        return ["one pair: ratios only, no verdict can be given; at least 3 pairs are needed: leave out --repeats"]
    if comparison.pairs == 2:
        return ["two pairs: no verdict can be given yet; 3 are needed"]
    return []


def _gathered(findings: Iterable[str]) -> list[str]:
    """Findings, with cells that vary joined into one line at the end."""
    matched = [(finding, VARY.fullmatch(finding)) for finding in findings]
    varied: dict[str, list[str]] = {}
    for match in (match for _, match in matched if match is not None):
        varied.setdefault(match[1], []).append(f"{match[2]} {match[3]}")
    rest = [finding for finding, match in matched if match is None]
    line = "; ".join(f"{step} {', '.join(names)}" for step, names in varied.items())
    return [*rest, f"cells vary by (CV): {line}"] if varied else rest


def _judged(comparison: Comparison) -> str:
    primary = {comparison.primary_metric(step) for step in comparison.steps}
    return " or ".join(word for metric, word in ((RATE, "rate"), (TIME, "time")) if metric in primary) or "rate"


def _counted(comparison: Comparison) -> str:
    judged = {ratio.metric for ratio in comparison.ratios}
    words = {INSTRUCTIONS: "instructions per operation", DELETE_PLAN: "planning a DELETE"}
    words |= dict.fromkeys(LATENCIES, "response times")
    return "".join(
        dict.fromkeys(f", {text}" for metric, text in words.items() if metric in judged)
    ) + ", groups of steps" * bool(comparison.section("groups"))


def _spelled(text: str, plain: bool) -> str:
    return "".join(ASCII.get(letter, letter) for letter in text).replace("·", ".") if plain else text


def _table(section: TextTable, plain: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for place, (column, words, left) in enumerate(zip(section.columns, section.words, section.left, strict=True)):
        # Words may be folded, and so may names in the first column; figures never.
        side: Literal["left", "right"] = "left" if place == 0 or left else "right"
        table.add_column(Text(visible_lines(column)), justify=side, overflow="fold", no_wrap=place > 0 and not words)
    for row, mark in section.rows:
        cells = (Text(_spelled(visible_lines(cell), plain)) for cell in row)
        table.add_row(*cells, style=STYLES.get(mark, ""))
    return table


def _markdown_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(markdown_text(cell) for cell in cells) + " |"


def markdown_text(text: str) -> str:
    """Escape text so that no tag, link or column begins in it; its own backslashes escape nothing."""
    text = visible(text).replace("\\", "\\\\").replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("|", "\\|").replace("[", "\\[")

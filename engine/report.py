"""A comparison as tables for the terminal, Markdown, CSV, or JSON. Every table is complete in 80 columns.

Arrows and words are the user's view: `slower` (down) for less throughput and for more CPU per operation alike.

The JSON (`--json`), of which keys are only ever added:

    base        name of the base subject
    runs, margin, steps, subjects[{name, build, config, kernel, arm}]
    cells[]     one per cell and step: run, cell, ordinal (its place in time), subject, build, config, kernel,
                arm ("aa": the base's own double), repeat, step, kind (load, index, write, query), seconds,
                rows (inserted or indexed), ops (rows; queries in query steps), rate_per_s (ops),
                dbms_cpu_us_per_op, client_cpu_us_per_op, ctx_switches_per_op, runq_us_per_op, wal_bytes_per_op,
                read_kb_per_op (from the device), written_kb_per_op (made dirty in the page cache by server processes),
                device_written_kb_per_op (by the device, for whomever), heap_bytes, index_bytes, max_s,
                observers [probe], plan_us_per_op, plan_p99_us (upper bound), phases null or {phase: share},
                phases_by null, "exact" or "sampled", probes {role: {figure: value}} (roles: the connections' server
                processes; client:ROLE, client, server, monitor, observer; plan_withheld says why a role has no
                plan_us_per_statement), coverage {probe: share of the step in good frames}, probe_notes [text] (why
                plan_* is null though a probe was there: it covered less than 80 % of the step and was not attached
                by the clock, as windows and budget are; steps of fewer than 5 frames),
                buckets {role: {bucket: percent}}, roles {role: {figure: value}}, saturated [role],
                sla null or {passed, reference_passed, achieved_per_s, target_per_s, required_per_s},
                stall_s, stalls [engine.stalls.Stall, with snapshot: engine.snapshots.StallSnapshot.record,
                and where [text]: the same in words]
    ratios[]    one per step, subject and metric: step, subject, build, config, kernel, arm, metric, ratio, low, high
                (95 %), pairs, verdict, reasons [text], more_pairs, better, noise_floor
                verdict: faster, slower, same, inconclusive, withheld, none (one pair, or nothing to judge)
    left_out[]  cells that did not finish: run, cell, name, repeat, state, reason
    findings[]  sentences: drift, scatter, an A/A that differs
    folders     {run: its folder}
    pairs       the largest number of pairs that any verdict rests on
    kernels[]   releases under which the runs were made
    workload    name, generation, scale, clients, departures [what is not as the generation has it]
    metrics[]   those of ratios: name, title, better ("more" or "less")
    builds[]    one per run and build: run, then engine.model.Build
    spreads[]   how the cells of a subject lie: step, subject, metric, cv, gap, gap_ratio, wide, two_modes
    likeness[]  what was looked at to see whether cells of a subject and of the base are of one kind: subject, what, ok,
                text

Null stands where there is no value; NaN and infinity never occur.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from engine import origins, probetables
from engine.comparison import METRICS, Comparison, middle
from engine.tables import WHERE, Notes, Section, headline, sections

ASCII = {"▲": "^", "▼": "v"}


def print_comparison(comparison: Comparison, console: Console, *, published: bool = False, brief: bool = False) -> None:
    """Prints a comparison; `published` adds the reference client's own figures, `brief` leaves most tables out."""
    plain = (console.encoding or "").lower().replace("-", "") not in ("utf8", "utf16")
    notes = Notes()
    for line in header(comparison):
        console.print(line, soft_wrap=True)
    shown = headline(comparison, notes) if brief else _all_sections(comparison, notes, published=published)
    for section in shown:
        console.print()
        console.print(Text(section.title, style="bold"))
        console.print(_table(section, plain))
    console.print()
    for line in footer(comparison, notes):
        console.print(_spelled(line, plain), soft_wrap=False)


def to_json(comparison: Comparison) -> str:
    """The documented JSON."""
    return json.dumps(comparison.record(), indent=1, allow_nan=False)


def to_csv(comparison: Comparison) -> str:
    """One line per step, subject and metric, the base included: medians, ratios, verdicts."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ("step", "subject", "build", "config", "kernel", "arm", "metric", "cells", "median", "ratio", "low", "high",
         "pairs", "verdict", "more_pairs", "noise_floor", "reasons")
    )  # fmt: skip
    for step in comparison.steps:
        for subject, name in comparison.names.items():
            for metric in METRICS:
                values = comparison.values(subject, step, metric.name)
                if not values:
                    continue
                found = comparison.ratio(subject, step, metric.name)
                judged = (
                    (found.ratio, found.low, found.high, found.pairs, found.verdict, found.more_pairs,
                     found.noise_floor, "; ".join(found.reasons))
                    if found else (1.0, None, None, len(values), "base", None, None, "")
                )  # fmt: skip
                place = (step, name, subject.build, subject.config, subject.kernel, subject.arm, metric.name)
                writer.writerow((*place, len(values), middle(values), *judged))
    return out.getvalue()


def to_markdown(comparison: Comparison, *, published: bool = False) -> str:
    """The same tables as on the terminal, for a ticket or a page."""
    notes = Notes()
    parts = ["\n".join(f"{line}  " for line in header(comparison))]
    for section in _all_sections(comparison, notes, published=published):
        columns = [column.replace("\n", " ") for column in section.columns]
        lines = [
            f"### {section.title}",
            "",
            _markdown_row(columns),
            _markdown_row(["---", *["---:"] * (len(columns) - 1)]),
        ]
        lines += [
            _markdown_row([f"**{row[0]}**", *[""] * (len(columns) - 1)] if len(row) == 1 else row)
            for row in section.rows
        ]
        parts.append("\n".join(lines))
    parts.append("\n".join(f"- {line}" for line in footer(comparison, notes)))
    return "\n\n".join(parts) + "\n"


def header(comparison: Comparison) -> list[str]:
    """What was compared, and how."""
    workload = comparison.runs[0].manifest["workload"]
    clients = workload.get("clients", 1)
    lines = [f"run {run.name}" for run in comparison.runs]
    lines.append(
        f"{workload.get('name')} {workload.get('generation', '')} scale {workload.get('scale', '?')}, "
        f"{clients} client{'s' if clients != 1 else ''}; base {comparison.names[comparison.base]}"
    )
    departures = origins.departures(workload)
    if departures:
        lines.append(f"not as {workload['generation']} has it: {', '.join(departures)}")
    most = comparison.most_pairs()
    if most > 1:
        lines.append(f"up to {most} pairs, 95 % intervals of paired log ratios, margin {comparison.margin:.1%}")
    return lines


def footer(comparison: Comparison, notes: Notes) -> list[str]:
    """Legend, reasons, findings, and what is missing."""
    lines = ["▲ better for you  ▼ worse  = same  ~ inconclusive  ? verdict withheld"]
    lines += notes.lines()
    judged = [ratio for ratio in comparison.ratios if ratio.verdict in ("faster", "slower")]
    if comparison.cells and comparison.most_pairs() <= 1 and len(comparison.names) > 1:
        lines.append("one pair: ratios only, no verdict can be given; run again with --repeats 3 or more, better 5")
    elif comparison.cells and comparison.most_pairs() == 2:
        lines.append("two pairs: no verdict can be given yet; 3 are needed, better 5")
    elif judged:
        tested = sum(ratio.low is not None for ratio in comparison.ratios)
        lines.append(f"{tested} ratios at 95 %: about {tested / 20:.0f} of the intervals miss the truth by chance")
    lines += comparison.findings
    lines += [
        f"left out: {cell.name} repeat {cell.repeat} ({cell.run} {cell.cell}) {cell.state}"
        + (f": {cell.reason}" if cell.reason else "")
        for cell in comparison.left_out
    ]
    if not comparison.cells:
        lines.append("no cell has finished yet: nothing to compare")
    return lines


def _all_sections(comparison: Comparison, notes: Notes, *, published: bool) -> list[Section]:
    probed = [section for section in probetables.sections(comparison, notes) if section.rows]
    return sections(comparison, notes, published=published) + probed


def _spelled(text: str, plain: bool) -> str:
    return "".join(ASCII.get(letter, letter) for letter in text).replace("·", ".") if plain else text


def _table(section: Section, plain: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for place, column in enumerate(section.columns):
        words = column in ("verdict", "its cause", WHERE)  # these may be folded, and so may names; figures never
        left = place == 0 or words or column in ("unit", "ops/s")
        table.add_column(column, justify="left" if left else "right", overflow="fold", no_wrap=place > 0 and not words)
    for row, style in zip(section.rows, section.styles, strict=True):
        table.add_row(*(Text(_spelled(cell, plain)) for cell in row), style=style)
    return table


def _markdown_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.strip().replace("|", "\\|") for cell in cells) + " |"

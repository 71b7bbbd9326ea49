"""Published figures of the preset of a run, next to ours: ratios only, as they are of another machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, Literal

from engine.core.model import Manifest
from engine.core.record import converted
from engine.journal.manifest import read_manifest
from engine.results.averages import middle
from engine.results.comparison import Comparison
from engine.results.section import Column as SectionColumn
from engine.results.section import Figure, Section, Value, row
from workloads.api.names import UnknownName
from workloads.presets import Preset, PresetLine, PresetTable, preset

GIB = 1 << 30
Against = Literal["subject", "line"]
Column = tuple[str, str]  # a subject of ours, and a published one; either may be empty
ACROSS = 2  # subjects of a table with intervals in 80 columns
ACROSS_PLAIN = 6
OUTSIDE = "*"
MOST_UNMATCHED = 4  # published subjects, beside the base, that are shown although we have none of them


def named(manifest: Manifest) -> Preset | None:
    """The preset of a run, from the program's own files, not the record's."""
    options = converted(manifest.workload.get("options") or {}, dict[str, Any], "manifest.json: workload: options")
    try:
        chosen = preset(str(options["preset"])) if options.get("preset") else None
    except (UnknownName, ValueError):  # of another version
        return None
    return chosen if chosen is not None and chosen.workload == manifest.workload.get("name") else None


def sections(comparison: Comparison) -> Iterator[Section]:
    """The tables of the publication next to ours; none if the first run has no preset.

    Ratios by "subject" are to that of a base, by "line" to the first line of the same subject.
    """
    manifest = read_manifest(Path(next(iter(comparison.measured.folders.values()))))
    publication = named(manifest)
    if publication is None:
        return
    for table in publication.published:
        differs = tuple(_differences(comparison, manifest, publication, table))
        for against in table.against:
            yield from _sections(comparison, publication, table, against, differs)


def _sections(
    comparison: Comparison, publication: Preset, table: PresetTable, against: Against, differs: tuple[str, ...]
) -> Iterator[Section]:
    """The table in as many parts as its columns need; none if no published subject matches ours."""
    matched = dict(_matched(comparison, publication, table))
    if against == "subject":
        base = next((subject for subject in table.subjects if subject in matched), table.subjects[0])
        our_base = matched.get(base, comparison.base)
        shown = [subject for subject in table.subjects if subject != base]
        if len(shown) > MOST_UNMATCHED:  # then those that stand beside ours say enough
            shown = [subject for subject in shown if subject in matched] or shown
    else:
        base = our_base = ""
        shown = list(table.subjects)
    others = [
        subject.name for subject in comparison.subjects if not subject.control and subject.name not in matched.values()
    ]
    if table.among == "build" and (base not in matched or any(subject in matched for subject in shown)):
        others = []  # nothing was published of other builds: ours stand there if no name matches
    elif len({getattr(subject, table.among) for subject in comparison.subjects}) == 1 and against == "subject":
        return
    every = [(name, "") for name in others if name != our_base] + [(matched.get(name, ""), name) for name in shown]
    lines = [line for line in table.lines if line.step in comparison.steps]
    several = len({line.figure or table.figure for line in lines}) > 1
    names = [_name(table, line) if several else line.step for line in lines]
    cells = [
        [_ratio(comparison, table, against, (base, our_base), lines[0], column, line) for column in every]
        for line in lines
    ]
    if not any(ours.value is not None for of_line in cells for ours, _ in of_line):
        return
    if against == "line":
        to = names[0]
    else:
        to = base if base == our_base.replace("-prebuilt", "") else f"{our_base} (published: {base})"
    reasons = (f"published: {publication.source}", *differs)
    reasons += tuple(f"also: {remark}" for remark in (table.remark, *publication.remarks) if remark)
    across = ACROSS if any(ours.bounds for of_line in cells for ours, _ in of_line) else ACROSS_PLAIN
    for start in range(0, len(every), across):
        part = slice(start, start + across)
        outside = any(published.sign for of_line in cells for _, published in of_line[part])
        yield Section(
            "published",
            f"{table.title}, ratio to {to}, next to published ratios",
            (SectionColumn("step"), *_headings(every[part])),
            tuple(row(name, *_values(every[part], of_line[part])) for name, of_line in zip(names, cells, strict=True)),
            remarks=reasons + (f"{OUTSIDE} outside our 95% interval",) * outside,
        )


def _name(table: PresetTable, line: PresetLine) -> str:
    """`qr100 delete cpu_s`: the step, and the figure without the prefix that all share."""
    figure = line.figure or table.figure
    return f"{line.step} {figure.removeprefix('roles.').removeprefix('transactions.').replace('.', ' ')}"


def _headings(shown: Sequence[Column]) -> Iterator[SectionColumn]:
    for ours, published in shown:
        if ours:
            yield SectionColumn(f"{ours}\nours", "beside")
        if published:
            yield SectionColumn(f"{published}\npublished", "beside")


def _values(shown: Sequence[Column], ratios: Sequence[tuple[Figure, Figure]]) -> Iterator[Value]:
    for names, figures in zip(shown, ratios, strict=True):
        yield from (figure for name, figure in zip(names, figures, strict=True) if name)


def _matched(comparison: Comparison, publication: Preset, table: PresetTable) -> Iterable[tuple[str, str]]:
    """The published subjects that we have, each with our name: the first of its build, config or kernel."""
    ours: dict[str, str] = {}
    for compared in comparison.subjects:
        if not compared.control:
            label = getattr(compared, table.among)
            ours.setdefault(label.replace("-prebuilt", "") if table.among == "build" else label, compared.name)
    for subject in table.subjects:
        candidates = (subject, *(publication.instead.get(subject, ()) if table.among == "build" else ()))
        name = next((ours[candidate] for candidate in candidates if candidate in ours), None)
        if name is not None:
            yield subject, name


def _ratio(
    comparison: Comparison,
    table: PresetTable,
    against: Against,
    bases: tuple[str, str],
    first: PresetLine,
    column: Column,
    line: PresetLine,
) -> tuple[Figure, Figure]:
    """Our ratio in a column of a line, and the published one, which is marked if it lies outside our interval."""
    (base, our_base), (our_name, their_name), figure = bases, column, line.figure or table.figure
    theirs, anchors = (dict(zip(table.subjects, published.values, strict=True)) for published in (line, first))
    published = None
    if their_name:
        published = theirs[their_name] / (theirs[base] if against == "subject" else anchors[their_name])
    ours = _value(comparison, our_name, line.step, figure)
    of = _value(comparison, our_base, line.step, figure)
    if against == "line":
        of = _value(comparison, our_name, first.step, first.figure or table.figure)
    ratio = comparison.ratio(our_name, line.step, figure)
    if against == "line" or our_base != comparison.base or ratio is None or ratio.ratio is None:
        return Figure(ours / of if ours is not None and of else None), Figure(published)
    known = published is not None and ratio.low is not None and ratio.high is not None
    outside = known and not (ratio.low or 0.0) <= (published or 0.0) <= (ratio.high or 0.0)
    return Figure(ratio.ratio, ratio.low, ratio.high), Figure(published, sign=OUTSIDE * outside)


def _value(comparison: Comparison, subject: str, step: str, figure: str) -> float | None:
    return middle(_figure(cell, figure.split(".")) for cell in comparison.of(subject, step))


def _figure(record: Any, names: Sequence[str]) -> float | None:
    for name in names:
        record = record.get(name) if isinstance(record, Mapping) else getattr(record, name, None)
        if not isinstance(record, (Mapping, int, float)) and not is_dataclass(record):
            return None
    return float(record) if isinstance(record, (int, float)) else None


def _differences(comparison: Comparison, manifest: Manifest, publication: Preset, table: PresetTable) -> Iterable[str]:
    environment = manifest.environment
    cpu, memory = environment.get("cpu") or {}, environment.get("memory") or {}
    here = f"{cpu.get('model') or 'another CPU'}, {cpu.get('threads') or '?'} CPUs"
    if memory.get("total_bytes"):
        here += f", {memory['total_bytes'] / GIB:.0f} GiB"
    yield f"machine: {here} here" + (f", {publication.machine} there" if publication.machine else "")
    if table.size:
        workload = comparison.measured.workload
        yield f"size: {workload.scale or workload.title} here; {table.size} there"
    used = [subject.build for subject in comparison.subjects]
    builds = comparison.measured.builds
    prebuilt = tuple(dict.fromkeys(build.label for build in builds if build.provenance == "prebuilt"))
    if prebuilt:
        yield f"prebuilt instead of compiled from source: {', '.join(prebuilt)}"
    if (design := comparison.measured.design) != "cells":
        yield f"measured in {design}, side by side here; each server had the machine to itself there"
    if table.among != "config":
        yield f"config: {', '.join(dict.fromkeys(subject.config for subject in comparison.subjects))} here"
    if table.among == "build":
        yield from _builds(publication, used)


def _builds(publication: Preset, used: Sequence[str]) -> Iterable[str]:
    plain = {label.replace("-prebuilt", "") for label in used}
    for build in publication.builds:
        if build not in plain:
            other = next(
                (alternative for alternative in publication.instead.get(build, ()) if alternative in plain), None
            )
            yield f"{other} in place of {build}" if other else f"{build} is missing here"

"""What was published for the preset that a run is of, next to what was measured: see `engine.results.published`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from statistics import median
from typing import Any, Literal

from engine.core.model import Manifest
from engine.core.record import converted
from engine.results.comparison import Comparison
from engine.results.published import PublishedColumn, PublishedLine, PublishedRatio, PublishedTable
from workloads.api.names import UnknownName
from workloads.presets import Line, Preset, Table, preset

GIB = 1 << 30
Against = Literal["subject", "line"]
MOST_UNMATCHED = 4  # published subjects, beside the base, that are shown although we have none of them


def named(manifest: Manifest) -> Preset | None:
    """The preset of a run, from the program's own files, not the record's."""
    options = _options(manifest)
    try:
        found = preset(str(options["preset"])) if options.get("preset") else None
    except (UnknownName, ValueError):  # of another version
        return None
    return found if found is not None and found.workload == manifest.workload.get("name") else None


def tables(comparison: Comparison, manifest: Manifest) -> tuple[PublishedTable, ...]:
    """The tables of the publication next to ours; none without a preset. `manifest` is the first run's."""
    found = named(manifest)
    if found is None:
        return ()
    made = (
        _table(comparison, found, table, against, tuple(_differences(comparison, manifest, found, table)))
        for table in found.published
        for against in table.against
    )
    return tuple(table for table in made if table is not None)


def _options(manifest: Manifest) -> dict[str, Any]:
    record = manifest.workload.get("options") or {}
    return converted(record, dict[str, Any], "manifest.json: workload: options")


def _table(
    comparison: Comparison, found: Preset, table: Table, against: Against, differs: tuple[str, ...]
) -> PublishedTable | None:
    """None if no published subject matches ours."""
    matched = dict(_matched(comparison, found, table))
    if against == "subject":
        base = next((subject for subject in table.subjects if subject in matched), table.subjects[0])
        our_base = matched.get(base, comparison.base)
        shown = [subject for subject in table.subjects if subject != base]
        if len(shown) > MOST_UNMATCHED:  # then those that stand beside ours say enough
            shown = [subject for subject in shown if subject in matched] or shown
    else:
        base = our_base = ""
        shown = list(table.subjects)
    others = [each.name for each in comparison.subjects if not each.control and each.name not in matched.values()]
    if table.among == "build" and (base not in matched or any(subject in matched for subject in shown)):
        others = []  # nothing was published of other builds: ours stand there if no name matches
    elif len({getattr(each, table.among) for each in comparison.subjects}) == 1 and against == "subject":
        return None
    columns = [PublishedColumn(matched.get(subject, ""), subject) for subject in shown]
    columns = [PublishedColumn(name, "") for name in others if name != our_base] + columns
    there = [line for line in table.lines if line.step in comparison.steps]
    lines = [_line(comparison, table, against, (base, our_base), there[0], columns, line) for line in there]
    if not any(ratio.ours is not None for line in lines for ratio in line.ratios):
        return None
    return PublishedTable(
        found.name, table.title, found.source, against, base, our_base, tuple(columns), tuple(lines), differs,
        tuple(filter(None, (table.remark, *found.remarks))),
    )  # fmt: skip


def _matched(comparison: Comparison, found: Preset, table: Table) -> Iterable[tuple[str, str]]:
    """The published subjects that we have, each with our name: the first of its build, config or kernel."""
    ours: dict[str, str] = {}
    for each in comparison.subjects:
        if not each.control:
            label = getattr(each, table.among)
            ours.setdefault(label.replace("-prebuilt", "") if table.among == "build" else label, each.name)
    for subject in table.subjects:
        candidates = (subject, *(found.instead.get(subject, ()) if table.among == "build" else ()))
        name = next((ours[each] for each in candidates if each in ours), None)
        if name is not None:
            yield subject, name


def _line(
    comparison: Comparison,
    table: Table,
    against: Against,
    bases: tuple[str, str],
    first: Line,
    columns: Sequence[PublishedColumn],
    line: Line,
) -> PublishedLine:
    (base, our_base), figure = bases, line.figure or table.figure
    theirs = dict(zip(table.subjects, line.values, strict=True))
    anchors = dict(zip(table.subjects, first.values, strict=True))

    def ratio(column: PublishedColumn) -> PublishedRatio:
        published = None
        if column.published:
            published = theirs[column.published] / (theirs[base] if against == "subject" else anchors[column.published])
        ours = _value(comparison, column.ours, line.step, figure)
        of = _value(comparison, our_base, line.step, figure)
        if against == "line":
            of = _value(comparison, column.ours, first.step, first.figure or table.figure)
        quotient = ours / of if ours is not None and of else None
        found = comparison.ratio(column.ours, line.step, figure)
        if against == "line" or our_base != comparison.base or found is None or found.ratio is None:
            return PublishedRatio(quotient, published=published)
        return PublishedRatio(found.ratio, found.low, found.high, published)

    return PublishedLine(line.step, figure, tuple(map(ratio, columns)))


def _value(comparison: Comparison, subject: str, step: str, figure: str) -> float | None:
    values = [value for cell in comparison.of(subject, step) if (value := _figure(cell, figure.split("."))) is not None]
    return median(values) if values else None


def _figure(record: Any, names: Sequence[str]) -> float | None:
    for name in names:
        record = record.get(name) if isinstance(record, Mapping) else getattr(record, name, None)
        if not isinstance(record, (Mapping, int, float)) and not is_dataclass(record):
            return None
    return float(record) if isinstance(record, (int, float)) else None


def _differences(comparison: Comparison, manifest: Manifest, found: Preset, table: Table) -> Iterable[str]:
    environment = manifest.environment
    cpu, memory = environment.get("cpu") or {}, environment.get("memory") or {}
    here = f"{cpu.get('model') or 'another CPU'}, {cpu.get('threads') or '?'} CPUs"
    if memory.get("total_bytes"):
        here += f", {memory['total_bytes'] / GIB:.0f} GiB"
    yield f"machine: {here} here" + (f", {found.machine} there" if found.machine else "")
    if table.size:
        yield f"size: {comparison.workload.scale or comparison.workload.title} here; {table.size} there"
    used = [subject.build for subject in comparison.subjects]
    prebuilt = tuple(dict.fromkeys(build.label for build in comparison.builds if build.provenance == "prebuilt"))
    if prebuilt:
        yield f"prebuilt instead of compiled from source: {', '.join(prebuilt)}"
    if comparison.design != "cells":
        yield f"measured in {comparison.design}, side by side here; each server had the machine to itself there"
    if table.among != "config":
        yield f"config: {', '.join(dict.fromkeys(subject.config for subject in comparison.subjects))} here"
    if table.among == "build":
        yield from _builds(found, used)


def _builds(found: Preset, used: Sequence[str]) -> Iterable[str]:
    plain = {label.replace("-prebuilt", "") for label in used}
    for build in found.builds:
        if build not in plain:
            other = next((each for each in found.instead.get(build, ()) if each in plain), None)
            yield f"{other} in place of {build}" if other else f"{build} is missing here"

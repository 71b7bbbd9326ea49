"""The data of a report's charts, as JSON: ratios, cells, causes, and seconds reduced to columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from engine.analysis.answer.compare import compared_cells
from engine.analysis.answer.step_slices import slices_of
from engine.analysis.cells.compared_cells import ComparedCells
from engine.core.errors import UserError
from engine.core.wait_kinds import KINDS, by_kind
from engine.journal.rows import StepRow
from engine.journal.totals import role_place
from engine.report.html.series import BANDS, heat_of, marks, read_rates
from engine.report.journals import Recorded
from engine.report.tables.performance import PER_OP
from engine.results.averages import mean_shares, middle
from engine.results.cell_step import CellStep
from engine.results.comparison import Comparison
from engine.results.ratio import INSTRUCTIONS, Ratio
from engine.view.probe_series import add_pairs
from engine.view.step_details import band_us
from probes.table import BY_ID, PHASES
from workloads.api.base import role_kind

MOST_BLOCKS = 400  # drawn of a pair of interleaved servers
OTHER_PROCESSES = "other server processes"

Json = dict[str, Any]


def charts(comparison: Comparison, recorded: Recorded) -> Json:
    """The figures of all steps by name, in the comparison's order, and their common parts."""
    blocks = _blocks(comparison)
    return {
        "subjects": list(comparison.names),
        "base": comparison.base,
        "margin": comparison.margin,
        "bands_us": [band_us(key) for key in range(BANDS + 1)],
        "overview": [
            {"step": step, **_interval(ratio)}
            for step in comparison.steps
            for name in comparison.names
            if (ratio := comparison.ratio(name, step, comparison.primary_metric(step))) is not None
        ],
        "steps": {
            step: _of_step(comparison, recorded, step) | {"blocks": blocks.get(step, [])} for step in comparison.steps
        },
    }


def _of_step(comparison: Comparison, recorded: Recorded, step: str) -> Json:
    metric = comparison.primary_metric(step)
    cells = [cell for name in comparison.names for cell in comparison.of(name, step)]
    rows = [(cell, row) for cell in cells if (row := recorded.step(cell)) is not None]
    read = [(cell, row, *read_rates(recorded.reader(cell), row)) for cell, row in rows]
    heat = heat_of([ticks for _, _, ticks, _ in read])
    for cell, row, ticks, _ in read:
        heat.add(recorded.reader(cell), row, ticks, cell.subject)
    return {
        "unit": comparison.units.get(step, "ops/s"),
        "metric": metric,
        "ratios": [_interval(ratio) for name in comparison.names if (ratio := comparison.ratio(name, step, metric))],
        "pairs": list(_pairs(comparison, step, metric)),
        "cells": [
            {"subject": cell.subject, "run": cell.run, "repeat": cell.repeat, "value": value}
            for cell in cells
            if (value := cell.figure(metric)) is not None
        ],
        "causes": list(_causes(comparison, step)),
        "roles": list(_roles(comparison, step)),
        "waits": list(_waits(comparison, step)),
        "phases": list(_phases(comparison, step)),
        "probed": list(_histograms(rows)),
        "series": [
            {"subject": cell.subject, "run": cell.run, "cell": cell.cell, "repeat": cell.repeat}
            | (rates.record() if rates is not None else {})
            | {"marks": marks(recorded.reader(cell).events(row.id), ticks)}
            for cell, row, ticks, rates in read
        ],
        "end_s": heat.end_s,
        "statements": _statements(cells),
        "heat_columns": heat.columns,
        "heat": heat.record(),
    }


def _interval(ratio: Ratio) -> Json:
    return {
        "subject": ratio.subject,
        "metric": ratio.metric,
        "ratio": ratio.ratio,
        "low": ratio.bounds and ratio.bounds[0],
        "high": ratio.bounds and ratio.bounds[1],
        "sign": ratio.sign,
        "verdict": ratio.verdict_text,
        "pairs": ratio.pairs,
    }


def _pairs(comparison: Comparison, step: str, metric: str) -> Iterable[Json]:
    for name in comparison.names:
        for base, other in comparison.in_pairs(name, step) if name != comparison.base else ():
            one, two = base.figure(metric), other.figure(metric)
            if one and two:
                yield {"subject": name, "run": other.run, "repeat": other.repeat, "ratio": two / one}


def _blocks(comparison: Comparison) -> dict[str, list[Json]]:
    """The ratio of each block of two interleaved servers, by step."""
    steps = [step for step in comparison.steps if any(comparison.sliced(name, step) for name in comparison.names)]
    if not steps:
        return {}
    cells = compared_cells([Path(folder) for folder in comparison.measured.folders.values()], comparison.base)
    return {step: list(_blocks_of(cells, step)) for step in steps}


def _blocks_of(cells: ComparedCells, step: str) -> Iterable[Json]:
    """Evenly spaced ones if there are too many."""
    try:
        sliced = slices_of(cells, step)
    except UserError:  # no pair of it has finished
        return
    for pair in sliced.pairs:
        known = [block.ratio for block in pair.blocks if block.ratio is not None]
        if not known:  # its statements last longer than blocks
            continue
        yield {
            "subject": pair.subject,
            "run": pair.run,
            "repeat": pair.repeat,
            "ratio": pair.ratio,
            "blocks": [float(f"{ratio:.4g}") for ratio in known[:: max(1, -(-len(known) // MOST_BLOCKS))]],
        }


def _causes(comparison: Comparison, step: str) -> Iterable[Json]:
    for metric, title in (*PER_OP, (INSTRUCTIONS, "instructions")):
        for name in comparison.names:
            ratio = comparison.ratio(name, step, metric)
            if ratio is not None and ratio.ratio is not None:
                values = {"value": comparison.figure(name, step, metric),
                          "base_value": comparison.figure(comparison.baseline_of(name), step, metric)}  # fmt: skip
                yield {**_interval(ratio), "title": title.replace("\n", " ").replace("- ", "-"), **values}


def _roles(comparison: Comparison, step: str) -> Iterable[Json]:
    """Server CPU per operation by role, and the rest: writers, checkpointer, workers."""
    for name in comparison.names:
        cells = comparison.of(name, step)
        roles = dict.fromkeys(role for cell in cells for role in cell.roles)
        parts = {
            role: middle(cell.roles[role]["cpu_us_per_op"] for cell in cells if role in cell.roles)
            for role in sorted(roles, key=role_place)
        }
        total = middle(comparison.values(name, step, "server_cpu_us_per_op"))
        known = {role: value for role, value in parts.items() if value is not None}
        if total is None or not known:
            continue
        yield from ({"subject": name, "role": role, "value": value} for role, value in known.items())
        yield {"subject": name, "role": OTHER_PROCESSES, "value": max(0.0, total - sum(known.values()))}


def _waits(comparison: Comparison, step: str) -> Iterable[Json]:
    roles = {role for name in comparison.names for cell in comparison.of(name, step) for role in cell.waits}
    for role in sorted(roles, key=role_place):
        for name in comparison.names:
            kinds = by_kind(mean_shares(comparison.of(name, step), role))
            for kind, word in KINDS.items():
                if kinds.get(kind):
                    yield {"subject": name, "role": role, "part": word, "share": kinds[kind]}


def _phases(comparison: Comparison, step: str) -> Iterable[Json]:
    roles = {role for name in comparison.names for cell in comparison.of(name, step) for role in cell.probes}
    for role in sorted(roles, key=role_place):
        for name in comparison.names:
            known = [cell.probes[role]["phases"] for cell in comparison.of(name, step)
                     if cell.probes.get(role, {}).get("phases")]  # fmt: skip
            for phase in (*PHASES, "other") if known else ():
                share = middle(shares.get(phase, 0.0) for shares in known)
                yield {"subject": name, "role": role, "part": phase, "share": share}


def _statements(cells: Iterable[CellStep]) -> dict[str, float]:
    sums = Counter[str]()
    for cell in cells:
        for name, figures in cell.roles.items():
            sums[role_kind(name)] += int(figures["statements"] or 0)
    return dict(sums)


def _histograms(rows: Iterable[tuple[CellStep, StepRow]]) -> Iterable[Json]:
    """The histograms of probes, all cells of a subject added up: counts by power of two of us."""
    sums: dict[tuple[str, str, str, str], dict[int, int]] = {}
    for cell, row in rows:
        for role, record in row.totals.probes.items() if row.totals is not None else ():
            for probe, fields in record.items():
                for field in BY_ID[probe].fields if probe in BY_ID else ():
                    if field.kind == "histogram" and fields.get(field.name):
                        known = sums.setdefault((probe, field.name, role, cell.subject), {})
                        add_pairs(known, fields[field.name])
    for (probe, field_name, role, subject), counts in sums.items():
        place = {"probe": probe, "field": field_name, "role": role, "subject": subject}
        total = sum(counts.values())
        for bucket, count in sorted(counts.items()):
            yield {**place, "below_us": 1 << bucket, "count": count, "share": count / total if total else 0.0}

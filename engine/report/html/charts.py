"""What the charts of a report show, as JSON: ratios, cells, causes, and seconds reduced to columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from engine.analysis.sliced_step import sliced_step
from engine.core.comparison import CellStep, Comparison, Ratio, middle
from engine.core.errors import UserError
from engine.core.model import role_place
from engine.journal import outcome
from engine.journal.reader import JournalReader, StepRow
from engine.report.html.series import BANDS, Rates, Ticks, heat_of, marks, read_rates
from engine.report.tables import PER_OP
from engine.view.step_details import band_us

MOST_BLOCKS = 400  # of a pair of servers in slices that are drawn
OTHER_PROCESSES = "other server processes"

Json = dict[str, Any]


def charts(comparison: Comparison, folders: Mapping[str, Path]) -> Json:
    """The figures of all steps by their names, in the order of the comparison; and what they share."""
    with ExitStack() as stack:
        readers = {run: stack.enter_context(JournalReader(folder)) for run, folder in folders.items()}
        places = {run: steps_of(reader) for run, reader in readers.items()}
        steps = {step: _of_step(comparison, folders, readers, places, step) for step in comparison.steps}
    return {
        "subjects": list(comparison.names),
        "base": comparison.base,
        "margin": comparison.margin,
        "bands_us": [band_us(key) for key in range(BANDS + 1)],
        "steps": steps,
    }


def steps_of(reader: JournalReader) -> dict[tuple[str, str], StepRow]:
    """The finished steps of a run's cells, of the attempts that count, by cell and name."""
    chosen = outcome.chosen(reader.manifest, reader.attempts(origins=False))
    return {(cell, step.name): step for cell, attempt in chosen.items() for step in reader.steps(attempt.id)}


def _of_step(
    comparison: Comparison,
    folders: Mapping[str, Path],
    readers: Mapping[str, JournalReader],
    places: Mapping[str, Mapping[tuple[str, str], StepRow]],
    step: str,
) -> Json:
    metric = comparison.judged_by(step)
    cells = [cell for name in comparison.names for cell in comparison.of(name, step)]
    read: dict[tuple[str, str], tuple[Ticks, Rates | None]] = {}
    for cell in cells:
        row = places[cell.run].get((cell.cell, step))
        if row is not None:
            read[cell.run, cell.cell] = read_rates(readers[cell.run], row)
    heat = heat_of([ticks for ticks, _ in read.values()])
    for cell in cells:
        if (cell.run, cell.cell) in read:
            ticks = read[cell.run, cell.cell][0]
            heat.add(readers[cell.run], places[cell.run][cell.cell, step], ticks, cell.subject)
    return {
        "unit": comparison.units.get(step, "ops/s"),
        "metric": metric,
        "ratios": [_interval(found) for name in comparison.names if (found := comparison.ratio(name, step, metric))],
        "pairs": list(_pairs(comparison, step, metric)),
        "blocks": list(_blocks(comparison, folders, step)),
        "cells": [
            {"subject": cell.subject, "run": cell.run, "repeat": cell.repeat, "value": value}
            for cell in cells
            if (value := cell.figure(metric)) is not None
        ],
        "causes": list(_causes(comparison, step)),
        "roles": list(_roles(comparison, step)),
        "series": [
            {"subject": cell.subject, "run": cell.run, "cell": cell.cell, "repeat": cell.repeat}
            | (rates.record() if rates is not None else {})
            | {"marks": marks(readers[cell.run].events(places[cell.run][cell.cell, step].id), ticks)}
            for cell in cells
            if (cell.run, cell.cell) in read
            for ticks, rates in [read[cell.run, cell.cell]]
        ],
        "end_s": heat.end_s,
        "heat_columns": heat.columns,
        "heat": heat.record(),
    }


def _interval(ratio: Ratio) -> Json:
    return {
        "subject": ratio.subject,
        "metric": ratio.metric,
        "ratio": ratio.ratio,
        "low": ratio.low,
        "high": ratio.high,
        "sign": ratio.sign,
        "verdict": ratio.verdict_text,
        "pairs": ratio.pairs,
    }


def _pairs(comparison: Comparison, step: str, metric: str) -> Iterable[Json]:
    """The ratio of each pair of cells."""
    for name in comparison.names:
        for base, other in comparison.in_pairs(name, step) if name != comparison.base else ():
            one, two = base.figure(metric), other.figure(metric)
            if one and two:
                yield {"subject": name, "run": other.run, "repeat": other.repeat, "ratio": two / one}


def _blocks(comparison: Comparison, folders: Mapping[str, Path], step: str) -> Iterable[Json]:
    """The ratio of each block of two servers in slices; of many, evenly spaced ones."""
    if not any(comparison.sliced(name, step) for name in comparison.names):
        return
    try:
        found = sliced_step(tuple(folders.values()), step, comparison.base)
    except UserError:  # no pair of it has finished
        return
    for pair in found.pairs:
        known = [block.ratio for block in pair.blocks if block.ratio is not None]
        yield {
            "subject": pair.subject,
            "run": pair.run,
            "repeat": pair.repeat,
            "ratio": pair.ratio,
            "blocks": [float(f"{ratio:.4g}") for ratio in known[:: max(1, -(-len(known) // MOST_BLOCKS))]],
        }


def _causes(comparison: Comparison, step: str) -> Iterable[Json]:
    """Figures per operation against the base's, of those that there are."""
    for metric, title in PER_OP:
        for name in comparison.names:
            found = comparison.ratio(name, step, metric)
            if found is not None and found.ratio is not None:
                values = {"value": comparison.median(name, step, metric),
                          "base_value": comparison.median(comparison.baseline_of(name), step, metric)}  # fmt: skip
                yield {**_interval(found), "title": title.replace("\n", " ").replace("- ", "-"), **values}


def _roles(comparison: Comparison, step: str) -> Iterable[Json]:
    """Server CPU per operation by role, and what is left of it: writers, checkpointer, workers."""
    for name in comparison.names:
        cells = comparison.of(name, step)
        roles = dict.fromkeys(role for cell in cells for role in cell.roles if role not in cell.beside)
        parts = {role: _role_cpu(cells, role) for role in sorted(roles, key=role_place)}
        whole = comparison.median(name, step, "server_cpu_us_per_op")
        known = {role: value for role, value in parts.items() if value is not None}
        if whole is None or not known:
            continue
        yield from ({"subject": name, "role": role, "value": value} for role, value in known.items())
        yield {"subject": name, "role": OTHER_PROCESSES, "value": max(0.0, whole - sum(known.values()))}


def _role_cpu(cells: Sequence[CellStep], role: str) -> float | None:
    found = (cell.roles[role]["cpu_us_per_op"] for cell in cells if role in cell.roles)
    return middle([value for value in found if value is not None])

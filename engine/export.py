"""A run as a folder of plain files that need nothing of this program to be read.

manifest.json     the plan, its origins and environment
cells.csv         every planned cell and what became of it
steps.csv         one line per cell and step: the figures of `bench compare --json`
roles.csv         one line per cell, step and role: CPU, waits, quantiles of service and response time
seconds.csv       one line per connection and second: counts, rates, in-flight age, quantiles
samples.csv       one line per source and second, data as JSON: server processes, host, device
probes.csv        one line per frame of a probe (about a second) and role, data as JSON: figures, histograms as pairs
events.csv        checkpoints, vacuums, stalls, errors, marks; times in seconds since the cell began
differences.csv   pg_stat views over each step, one line per counter
sizes.csv         relation and index sizes after each step
settings.csv      settings that differ from the server's defaults
published.tsv     the reference client's summary line per cell and step, its columns and units
ibench/CELL/STEP.CLIENT.tsv
                  the reference client's 17-column line per second, for tools that read its output
"""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from engine import metrics
from engine.errors import UserError
from engine.journal import JournalReader, RoleRow, RoleSecond, Session
from engine.model import progress
from engine.results import CellResult, RunResult, StepResult, load, published_by_cell, steps_of
from workloads import histogram

INTERVAL_COLUMNS = (
    "i_sec", "t_sec", "i_ips", "t_ips", "i_dps", "t_dps", "i_qps", "t_qps", "max_i", "max_d", "max_q",
    "t_ins", "t_del", "t_query", "retry_i", "retry_d", "retry_q",
)  # fmt: skip
QUANTILE_COLUMNS = tuple(f"{metrics.quantile_name(q)}_us" for q in metrics.QUANTILES)
Rows = Iterable[Sequence[Any]]
Intervals = dict[str, list[RoleSecond]]  # of one moment, by kind of role


def export(run: Path, out: Path) -> list[Path]:
    """Writes the files into `out`, a new or empty folder; returns them.

    Raises UserError when `out` has something in it or cannot be written, or when `run` is no run.
    """
    result = load(run)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out}: already there and not empty; name a new folder for the export")
    try:
        out.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(run / "manifest.json", out / "manifest.json")
        with JournalReader(run) as reader:
            tables = {name: _write(out / f"{name}.csv", *table(reader, result)) for name, table in TABLES.items()}
            published = _write_published(out / "published.tsv", result)
            intervals = _write_intervals(out / "ibench", reader, result)
    except OSError as error:
        raise UserError(f"{out}: cannot write the export: {error.strerror}") from error
    return [out / "manifest.json", *tables.values(), published, *intervals]


def interval_lines(
    roles: Sequence[RoleRow], seconds: dict[int, list[RoleSecond]], started_ns: int
) -> list[tuple[Any, ...]]:
    """One client's seconds as the reference prints them; see `INTERVAL_COLUMNS`.

    A sliver that the step's end left over belongs to the second before it. Workers of one kind are added up.
    Longest times are upper bounds of their bucket.
    """
    names = ("insert", "delete", "query")
    by_time: dict[int, dict[str, list[RoleSecond]]] = {}
    for role in roles:
        for second in seconds[role.id]:
            by_time.setdefault(second.t_ns, {}).setdefault(role.kind, []).append(second)
    totals = dict.fromkeys(names, 0)
    lines: list[tuple[Any, ...]] = []
    for t_ns, length_ns, now in _merged_slivers(by_time):
        interval_s, elapsed_s = length_ns / 1e9, (t_ns - started_ns) / 1e9
        counts = {name: sum(progress(name, second) for second in now.get(name, ())) for name in names}
        longest = [max((second.max_us for second in now.get(name, ())), default=0) for name in names]
        for name in names:
            totals[name] += counts[name]
        rates = [
            value for name in names for value in (round(counts[name] / interval_s), round(totals[name] / elapsed_s))
        ]
        lines.append(
            (f"{interval_s:.1f}", f"{elapsed_s:.1f}", *rates, *longest, *(totals[name] for name in names), 0, 0, 0)
        )
    return lines


def _merged_slivers(by_time: dict[int, Intervals]) -> list[tuple[int, int, Intervals]]:
    """Intervals in order as (end, length, the roles' counts), those too short for a rate added to the one before."""
    merged: list[tuple[int, int, Intervals]] = []
    for t_ns in sorted(by_time):
        now = by_time[t_ns]
        length_ns = max(second.dt_ns for part in now.values() for second in part)
        if length_ns < metrics.SLIVER_NS and merged:
            _, before_ns, before = merged.pop()
            now = {kind: [*before.get(kind, ()), *now.get(kind, ())] for kind in {**before, **now}}
            length_ns += before_ns
        merged.append((t_ns, length_ns, now))
    return merged


def _place(cell: CellResult, step: StepResult) -> tuple[str, ...]:
    return cell.cell.id, step.name


def _cells(reader: JournalReader, result: RunResult) -> tuple[Sequence[str], Rows]:
    columns = ("cell", "ordinal", "build", "config", "kernel", "arm", "repeat", "state", "reason")
    rows = []
    for found in result.cells:
        cell, subject = found.cell, found.cell.subject
        place = (cell.id, cell.ordinal, subject.build, subject.config, subject.kernel, subject.arm, cell.repeat)
        rows.append((*place, found.state, found.reason))
    return columns, rows


def _step_rows(reader: JournalReader, result: RunResult) -> tuple[Sequence[str], Rows]:
    figures = [(cell, step, metrics.summary(step.kind, step.totals)) for cell, step in steps_of(result)]
    plain = [key for key, value in (figures[0][2].items() if figures else ()) if not isinstance(value, (dict, list))]
    plain = [key for key in plain if key not in ("sla", "phases")]
    rows = (
        (*_place(cell, step), step.kind, *(summary[key] for key in plain), *_sla(summary), step.stall_s)
        for cell, step, summary in figures
    )
    return ("cell", "step", "kind", *plain, "sla_passed", "sla_achieved_per_s", "sla_target_per_s", "stall_s"), rows


def _sla(summary: dict[str, Any]) -> tuple[Any, ...]:
    sla = summary["sla"] or {}
    return sla.get("passed"), sla.get("achieved_per_s"), sla.get("target_per_s")


def _role_rows(reader: JournalReader, result: RunResult) -> tuple[Sequence[str], Rows]:
    found = [
        (_place(cell, step), role, metrics.role_figures(step.kind, step.totals, role))
        for cell, step in steps_of(result)
        for role in step.totals.roles
    ]
    keys = tuple(dict.fromkeys(key for _, _, figures in found for key in figures))
    return ("cell", "step", "role", *keys), ((*place, role, *map(figures.get, keys)) for place, role, figures in found)


def _seconds(reader: JournalReader, result: RunResult) -> tuple[Sequence[str], Rows]:
    plain = [name for name in RoleSecond.__slots__ if name not in ("role_id", "t_ns", "dt_ns", "service", "response")]

    def rows() -> Rows:
        for cell, step in steps_of(result):
            for role in reader.roles(step.id):
                seen_ns = 0
                for second in reader.role_seconds(role.id):
                    seen_ns += second.dt_ns
                    counts = histogram.unpack(second.service)
                    quantiles = (histogram.quantile_us(counts, q) for q in metrics.QUANTILES)
                    values = (getattr(second, name) for name in plain)
                    times = (round(seen_ns / 1e9, 3), round(second.dt_ns / 1e9, 3))
                    yield (*_place(cell, step), role.name, role.client, *times, *values, *quantiles)

    return ("cell", "step", "role", "client", "t_s", "dt_s", *plain, *QUANTILE_COLUMNS), rows()


def _samples(reader: JournalReader, result: RunResult) -> tuple[Sequence[str], Rows]:
    rows = (
        (*_place(cell, step), t_ns, round(dt_ns / 1e9, 3), source, json.dumps(data))
        for cell, step in steps_of(result)
        for t_ns, dt_ns, source, data in reader.samples(step.id)
    )
    return ("cell", "step", "monotonic_ns", "dt_s", "source", "data"), rows


def _probes(reader: JournalReader, result: RunResult) -> tuple[Sequence[str], Rows]:
    rows = (
        (*_place(cell, step), frame.t_ns, round(frame.dt_ns / 1e9, 3), frame.probe, frame.role,
         json.dumps(frame.data), json.dumps(frame.quality))
        for cell, step in steps_of(result)
        for frame in reader.probe_frames(step.id)
    )  # fmt: skip
    return ("cell", "step", "monotonic_ns", "dt_s", "probe", "role", "data", "quality"), rows


def _events(reader: JournalReader, result: RunResult) -> tuple[Sequence[str], Rows]:
    attempts = {attempt.id: attempt for attempt in reader.attempts()}
    sessions: dict[int, Session] = {session.id: session for session in reader.sessions()}
    names = {step.id: step.name for attempt in attempts for step in reader.steps(attempt)}

    def rows() -> Rows:
        for event in reader.events():
            attempt = attempts.get(event.attempt_id or 0)
            wall_ns = sessions[attempt.session_id].wall(event.started_ns) if attempt else None
            began_s = (event.started_ns - attempt.started_ns) / 1e9 if attempt else None
            lasted_s = None if event.ended_ns is None else (event.ended_ns - event.started_ns) / 1e9
            place = (attempt.cell if attempt else "", names.get(event.step_id or 0, ""))
            yield (*place, event.kind, wall_ns, began_s, lasted_s, event.role, json.dumps(event.data))

    return ("cell", "step", "kind", "wall_ns", "t_s", "lasted_s", "role", "data"), rows()


def _differences(reader: JournalReader, result: RunResult) -> tuple[Sequence[str], Rows]:
    rows = (
        (*_place(cell, step), view, name, counter, value)
        for cell, step in steps_of(result)
        for view, objects in reader.differences(step.id).items()
        for name, counters in objects.items()
        for counter, value in counters.items()
    )
    return ("cell", "step", "view", "object", "counter", "value"), rows


def _sizes(reader: JournalReader, result: RunResult) -> tuple[Sequence[str], Rows]:
    rows = ((*_place(cell, step), *size) for cell, step in steps_of(result) for size in reader.sizes(step.id))
    return ("cell", "step", "relation", "kind", "bytes"), rows


def _settings(reader: JournalReader, result: RunResult) -> tuple[Sequence[str], Rows]:
    rows = (
        (attempt.cell, *setting)
        for attempt in reader.attempts()
        if attempt.state == "finished"
        for setting in reader.settings(attempt.id)
    )
    return ("cell", "name", "value", "source"), rows


TABLES: dict[str, Callable[[JournalReader, RunResult], tuple[Sequence[str], Rows]]] = {
    "cells": _cells,
    "steps": _step_rows,
    "roles": _role_rows,
    "seconds": _seconds,
    "samples": _samples,
    "probes": _probes,
    "events": _events,
    "differences": _differences,
    "sizes": _sizes,
    "settings": _settings,
}


def _write(path: Path, columns: Sequence[str], rows: Rows, delimiter: str = ",") -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
    return path


def _write_published(path: Path, result: RunResult) -> Path:
    def rows() -> Rows:
        for cell, step, figures in published_by_cell([result]):
            values = (
                "NA" if figures[name] is None else f"{figures[name]:.{max(digits, 3 if digits else 0)}f}"
                for name, (_, digits) in metrics.PUBLISHED.items()
            )
            subject = cell.cell.subject
            tag = ".".join(part for part in (f"pg{subject.build}", subject.config, subject.arm) if part)
            yield step, *values, tag, cell.cell.repeat

    return _write(path, ("step", *metrics.PUBLISHED, "tag", "repeat"), rows(), "\t")


def _write_intervals(folder: Path, reader: JournalReader, result: RunResult) -> list[Path]:
    written = []
    started = {step.id: step.started_ns for attempt in reader.attempts() for step in reader.steps(attempt.id)}
    for cell, step in steps_of(result):
        roles = reader.roles(step.id)
        for client in sorted({role.client for role in roles}):
            own = [role for role in roles if role.client == client]
            seconds = {role.id: reader.role_seconds(role.id) for role in own}
            path = folder / cell.cell.id / f"{step.name}.{client}.tsv"
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = interval_lines(own, seconds, started[step.id])
            written.append(_write(path, INTERVAL_COLUMNS, lines, "\t"))
    return written

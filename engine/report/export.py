"""A run as a folder of plain files that need nothing of this program to be read.

manifest.json     the plan, its origins and environment
cells.csv         every planned cell and what became of it
steps.csv         one line per cell and step: the figures of `bench compare --json`
roles.csv         one line per cell, step and role: CPU, waits, quantiles of service and response time
seconds.csv       one line per connection and second: counts, rates, in-flight age, quantiles
samples.csv       one line per source and second, data as JSON: server processes, WAL, host, device
waits.csv         one line per role, second and wait event: in how many samples, and how many of its server processes
                  were seen waiting for it; no event: for nothing
probes.csv        one line per frame of a probe (about a second) and role, data as JSON: figures, histograms as pairs
counters.csv      one line per role and event that was counted in a step
events.csv        checkpoints, vacuums, stalls, errors, marks; times in seconds since the cell began
differences.csv   pg_stat views over each step, one line per counter
sizes.csv         relation and index sizes after each step
settings.csv      settings that differ from the server's defaults
transactions.csv  one line per transaction, of steps whose transactions are few and timed one by one
slices.csv        one line per slice, of interleaved runs: see table `slice` of the journal's schema; the
                  slices of a repeat's cells share blocks, places and clock
published.tsv     the reference client's summary line per cell and step, its columns and units
ibench/CELL/STEP.CLIENT.tsv
                  the reference client's 17-column line per second, for tools that read its output

The last two are of runs of whole cells only: published figures are those of a server that has the machine to itself.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any

from engine.analysis import metrics, published_line
from engine.analysis.run_results import RunResult, StepResult, load, published_by_cell, steps_of
from engine.core.errors import UserError
from engine.core.kernel import HOST
from engine.core.perf_events import BY_NAME
from engine.core.text import csv_text
from engine.host.files import is_name, read_plain
from engine.journal.manifest import MAX_BYTES
from engine.journal.reader import JournalReader, service_counts
from engine.journal.rows import RoleRow, RoleSecond, SliceRow
from engine.journal.runs import planned
from engine.journal.totals import progress
from workloads import histogram

INTERVAL_COLUMNS = (
    "i_sec", "t_sec", "i_ips", "t_ips", "i_dps", "t_dps", "i_qps", "t_qps", "max_i", "max_d", "max_q",
    "t_ins", "t_del", "t_query", "retry_i", "retry_d", "retry_q",
)  # fmt: skip
Rows = Iterator[Sequence[Any]]
Interval = list[tuple[str, RoleSecond]]  # what ended at one moment, by kind of role


def export(run: Path, out: Path) -> list[Path]:
    """Write the files into `out`, a new or empty folder; return them.

    Raises UserError if `out` is not empty or cannot be written, if `run` is not a run, or if a name cannot be a file's.
    """
    planned(run)
    result = load(run)
    for cell, step in steps_of(result):
        if not is_name(step.name):
            raise UserError(f"{run}: a step of {cell.cell.id} is called '{step.name}', which no file can be")
    try:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise UserError(f"{out}: exists and is not empty; choose another folder with --to")
        out.mkdir(parents=True, exist_ok=True)
        (out / "manifest.json").write_bytes(read_plain(run / "manifest.json", MAX_BYTES))
        with JournalReader(run) as reader:
            sliced = result.manifest.sliced
            timed = any(step.figures["transactions"] for _, step in steps_of(result))
            tables = TABLES | ({"slices": _slices} if sliced else {}) | ({"transactions": _timed} if timed else {})
            written = [_write(out / f"{name}.csv", table(reader, result)) for name, table in tables.items()]
            if not sliced:
                written.append(_write(out / "published.tsv", _published(result), "\t"))
                written += _write_intervals(out / "ibench", reader, result)
    except OSError as error:
        raise UserError(f"{out}: cannot write the export: {error.strerror}") from error
    return [out / "manifest.json", *written]


def interval_lines(
    roles: Sequence[RoleRow], seconds: dict[int, list[RoleSecond]], started_ns: int
) -> list[tuple[Any, ...]]:
    """One client's seconds as the reference prints them: see `INTERVAL_COLUMNS`.

    A sliver left over at the step's end belongs to the second before it. Workers of one kind are added up. Longest
    times are upper bounds of their bucket.
    """
    names = ("insert", "delete", "query")
    by_time: dict[int, Interval] = {}
    for role in roles:
        for second in seconds[role.id]:
            by_time.setdefault(second.t_ns, []).append((role.kind, second))
    totals = dict.fromkeys(names, 0)
    lines: list[tuple[Any, ...]] = []
    for t_ns, length_ns, now in _merged_slivers(by_time):
        interval_s, elapsed_s = length_ns / 1e9, (t_ns - started_ns) / 1e9
        rates, longest = [], []
        for name in names:
            own = [second for kind, second in now if kind == name]
            count = sum(progress(name, second) for second in own)
            totals[name] += count
            rates += [round(count / interval_s), round(totals[name] / elapsed_s)]
            longest.append(max((second.max_us for second in own), default=0))
        lines.append((f"{interval_s:.1f}", f"{elapsed_s:.1f}", *rates, *longest, *totals.values(), 0, 0, 0))
    return lines


def _merged_slivers(by_time: dict[int, Interval]) -> list[tuple[int, int, Interval]]:
    """Intervals in order as (end, length, counts by role); those too short for a rate are added to the one before."""
    merged: list[tuple[int, int, Interval]] = []
    for t_ns, now in sorted(by_time.items()):
        length_ns = max(second.dt_ns for _, second in now)
        if length_ns < metrics.SLIVER_NS and merged:
            _, before_ns, before = merged.pop()
            now, length_ns = [*before, *now], length_ns + before_ns
        merged.append((t_ns, length_ns, now))
    return merged


def _steps(result: RunResult) -> Iterator[tuple[tuple[str, str], StepResult]]:
    """The finished steps, each with the first two columns of its rows: cell and step."""
    return (((cell.cell.id, step.name), step) for cell, step in steps_of(result))


def _cells(reader: JournalReader, result: RunResult) -> Rows:
    yield "cell", "ordinal", "build", "config", "kernel", "control", "repeat", "state", "reason", "workload"
    for found in result.cells:
        cell = found.cell
        *subject, workload = astuple(cell.subject)
        yield cell.id, cell.ordinal, *subject, cell.repeat, found.state, found.reason, workload


def _step_rows(reader: JournalReader, result: RunResult) -> Rows:
    found = list(_steps(result))
    figures = found[0][1].figures if found else {}
    plain = [key for key, value in figures.items() if not isinstance(value, dict | list | tuple)]
    plain = [key for key in plain if key not in ("sla", "phases", "transactions")]
    judged = ("passed", "achieved_per_s", "target_per_s")
    yield "cell", "step", "kind", *plain, *(f"sla_{name}" for name in judged), "stall_s"
    for place, step in found:
        sla = (getattr(step.figures["sla"], name, None) for name in judged)
        yield *place, step.kind, *(step.figures[key] for key in plain), *sla, step.stall_s


def _role_rows(reader: JournalReader, result: RunResult) -> Rows:
    found = [
        (place, role, metrics.role_figures(step.kind, step.totals, role))
        for place, step in _steps(result)
        for role in step.totals.roles
    ]
    keys = dict.fromkeys(key for _, _, figures in found for key in figures)
    yield "cell", "step", "role", *keys
    for place, role, figures in found:
        yield *place, role, *map(figures.get, keys)


def _seconds(reader: JournalReader, result: RunResult) -> Rows:
    plain = [name for name in RoleSecond._fields if name not in ("role_id", "t_ns", "dt_ns", "service", "response")]
    quantiles = (f"{metrics.quantile_name(q)}_us" for q in metrics.QUANTILES)
    yield "cell", "step", "role", "client", "t_s", "dt_s", *plain, *quantiles
    for place, step in _steps(result):
        for role in reader.roles(step.id):
            seen_ns = 0
            for second in reader.role_seconds(role.id):
                seen_ns += second.dt_ns
                counts = service_counts(second, str(reader.run / "journal.db"))
                times = (round(seen_ns / 1e9, 3), round(second.dt_ns / 1e9, 3))
                values = (getattr(second, name) for name in plain)
                yield (*place, role.name, role.client, *times, *values,
                       *(histogram.quantile_us(counts, q) for q in metrics.QUANTILES))  # fmt: skip


def _samples(reader: JournalReader, result: RunResult) -> Rows:
    yield "cell", "step", "monotonic_ns", "dt_s", "source", "data"
    for place, step in _steps(result):
        for t_ns, dt_ns, source, data in reader.samples(step.id):
            yield *place, t_ns, round(dt_ns / 1e9, 3), source, json.dumps(data)


def _waits(reader: JournalReader, result: RunResult) -> Rows:
    yield "cell", "step", "role", "t_s", "dt_s", "samples", "wait_event", "seen"
    for place, step in _steps(result):
        seen_ns: Counter[str] = Counter()
        for second in reader.wait_seconds(step.id):
            seen_ns[second.role] += second.dt_ns
            times = (round(seen_ns[second.role] / 1e9, 3), round(second.dt_ns / 1e9, 3))
            yield from ((*place, second.role, *times, second.samples, *each) for each in sorted(second.data.items()))


def _counters(reader: JournalReader, result: RunResult) -> Rows:
    yield "cell", "step", "role", "event", "count", "enabled_ns", "running_ns", "per_op"
    for place, step in _steps(result):
        for role, counts in step.totals.counters.items():
            figures = step.figures["counters"].get(role, {})
            for name, found in counts.items():
                known = figures.get(BY_NAME[name].key) if name in BY_NAME else None
                yield *place, role, name, found.count, found.enabled_ns, found.running_ns, known


def _probes(reader: JournalReader, result: RunResult) -> Rows:
    yield "cell", "step", "monotonic_ns", "dt_s", "probe", "role", "data", "quality"
    for place, step in _steps(result):
        for frame in reader.probe_frames(step.id):
            records = (json.dumps(frame.data), json.dumps(frame.quality))
            yield *place, frame.t_ns, round(frame.dt_ns / 1e9, 3), frame.probe, frame.role, *records


def _events(reader: JournalReader, result: RunResult) -> Rows:
    attempts = {attempt.id: attempt for attempt in reader.attempts()}
    sessions = {session.id: session for session in reader.sessions()}
    names = {step.id: step.name for attempt in attempts for step in reader.steps(attempt)}
    yield "cell", "step", "kind", "wall_ns", "t_s", "lasted_s", "role", "data"
    for event in reader.events():
        attempt = attempts.get(event.attempt_id or 0)
        wall_ns = sessions[attempt.session_id].wall(event.started_ns) if attempt else None
        began_s = (event.started_ns - attempt.started_ns) / 1e9 if attempt else None
        lasted_s = None if event.ended_ns is None else (event.ended_ns - event.started_ns) / 1e9
        place = (attempt.cell if attempt else "", names.get(event.step_id or 0, ""))
        yield *place, event.kind, wall_ns, began_s, lasted_s, event.role, json.dumps(event.data)


def _differences(reader: JournalReader, result: RunResult) -> Rows:
    yield "cell", "step", "view", "object", "counter", "value"
    for place, step in _steps(result):
        for view, objects in reader.differences(step.id).items():
            for name, counters in objects.items():
                for counter, value in counters.items():
                    yield *place, view, name, counter, value


def _sizes(reader: JournalReader, result: RunResult) -> Rows:
    yield "cell", "step", "relation", "kind", "bytes"
    for place, step in _steps(result):
        for size in reader.sizes(step.id):
            yield *place, *size


def _settings(reader: JournalReader, result: RunResult) -> Rows:
    yield "cell", "name", "value", "source"
    for attempt in reader.attempts():
        if attempt.state == "finished":
            for setting in reader.settings(attempt.id):
                yield attempt.cell, *setting


def _timed(reader: JournalReader, result: RunResult) -> Rows:
    yield "cell", "step", "ms"
    for place, step in _steps(result):
        found = step.figures["transactions"]
        yield from ((*place, time_ms) for time_ms in (found.each_ms if found else ()))


def _slices(reader: JournalReader, result: RunResult) -> Rows:
    columns = [field.name for field in fields(SliceRow) if field.name != "step_id"]
    yield "cell", "step", *("stopped_processes" if column == "stopped" else column for column in columns)
    for place, step in _steps(result):
        for row in step.slices:
            yield *place, *(getattr(row, column) for column in columns)


# The rows of each file, column names first.
TABLES: dict[str, Callable[[JournalReader, RunResult], Rows]] = {
    "cells": _cells,
    "steps": _step_rows,
    "roles": _role_rows,
    "seconds": _seconds,
    "samples": _samples,
    "waits": _waits,
    "counters": _counters,
    "probes": _probes,
    "events": _events,
    "differences": _differences,
    "sizes": _sizes,
    "settings": _settings,
}


def _write(path: Path, rows: Iterable[Sequence[Any]], delimiter: str = ",") -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerows([csv_text(value) if isinstance(value, str) else value for value in row] for row in rows)
    return path


def _published(result: RunResult) -> Rows:
    yield "step", *published_line.PUBLISHED, "tag", "repeat"
    for cell, step, figures in published_by_cell([result]):
        values = (
            "NA" if figures[name] is None else f"{figures[name]:.{max(digits, 3 if digits else 0)}f}"
            for name, (_, digits) in published_line.PUBLISHED.items()
        )
        subject = cell.cell.subject
        kernel = "" if subject.kernel == HOST else f"linux{subject.kernel}"
        parts = (f"pg{subject.build}", subject.config, kernel, subject.control, subject.workload)
        tag = ".".join(filter(None, parts))
        yield step, *values, tag, cell.cell.repeat


def _write_intervals(folder: Path, reader: JournalReader, result: RunResult) -> Iterator[Path]:
    started = {step.id: step.started_ns for attempt in reader.attempts() for step in reader.steps(attempt.id)}
    for (cell, name), step in _steps(result):
        roles = [role for role in reader.roles(step.id) if role.name not in step.totals.background]
        for client in sorted({role.client for role in roles}):
            own = [role for role in roles if role.client == client]
            seconds = {role.id: reader.role_seconds(role.id) for role in own}
            path = folder / cell / f"{name}.{int(client)}.tsv"
            path.parent.mkdir(parents=True, exist_ok=True)
            yield _write(path, [INTERVAL_COLUMNS, *interval_lines(own, seconds, started[step.id])], "\t")

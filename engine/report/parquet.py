"""Runs as Parquet: a folder for each table, in it a file for each run, so that hundreds of runs are one table to SQL.

cells       every planned cell and what became of it: build, config, kernel, control, repeat, workload, state
steps       one row per cell and step: the figures of `bench compare --json`, as numbers
roles       one row per cell, step and role: CPU, waits, quantiles of service and response time
seconds     one row per connection and second: counts, in-flight age, CPU, waits, quantiles
stalls      one row per stall: who, when, how long, how deep, its likeliest cause
counters    one row per role and event that was counted in a step: its count, in all and per operation
frames      one row per figure of a probe's frame (about a second) and role; a histogram is a row per bucket, named by
            the highest value that it holds

Every table begins with `run` and `cell`, by which they are joined. Only what finished is there, as in `bench compare`.
Times named *_s are seconds, t_s since the step began; *_ns and *_us as they say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from engine.analysis.run_results import RunResult, load, steps_of
from engine.core.errors import UserError
from engine.core.text import visible
from engine.host.files import is_name
from engine.journal.reader import JournalReader
from engine.journal.runs import planned
from engine.report.export import TABLES as CSV_TABLES
from engine.report.export import Rows
from probes import buckets

ROWS_AT_ONCE = 50_000  # held in memory, and a row group of the file


@dataclass(frozen=True, slots=True)
class Table:
    """Rows, column names first; `plain` is the type of columns that are not named."""

    rows: Callable[[JournalReader, RunResult], Rows]
    plain: type
    others: Mapping[str, type] = field(default_factory=dict)


def export(runs: Sequence[Path], out: Path) -> list[Path]:
    """Write the tables of `runs` below `out`, which may hold other runs already; return the files.

    A run that is there already is rewritten. Raises UserError if `out` cannot be written, or if one of `runs` is not a
    run or its name cannot be a file name; the runs before it have then been written.
    """
    return [path for run in runs for path in _export(run, out)]


def _export(run: Path, out: Path) -> Iterator[Path]:
    planned(run)
    result = load(run)
    if not is_name(result.name):
        raise UserError(f"{run}: the run is called '{result.name}', which no file can be")
    try:
        with JournalReader(run) as reader:
            for name, table in TABLES.items():
                path = out / name / f"{result.name}.parquet"
                path.parent.mkdir(parents=True, exist_ok=True)
                _write(path, result.name, table, table.rows(reader, result))
                yield path
    except OSError as error:
        raise UserError(f"{out}: cannot write the export: {error.strerror or error}") from error
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(f"{run}: the journal has what is no figure in table {name}: {error}") from error


def _write(path: Path, run: str, table: Table, rows: Rows) -> None:
    import pyarrow
    import pyarrow.parquet

    kinds = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64(), bool: pyarrow.bool_()}
    columns = [str(column) for column in next(rows)]
    types = [table.others.get(column, table.plain) for column in columns]
    schema = pyarrow.schema(
        [("run", kinds[str]), *((name, kinds[of]) for name, of in zip(columns, types, strict=True))]
    )
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        with pyarrow.parquet.ParquetWriter(unfinished, schema, compression="zstd") as writer:
            while chunk := list(islice(rows, ROWS_AT_ONCE)):
                values = [
                    pyarrow.array([_value(row[place], of) for row in chunk], kinds[of])
                    for place, of in enumerate(types)
                ]
                writer.write_table(pyarrow.table([pyarrow.array([run] * len(chunk)), *values], schema))
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _value(value: Any, of: type) -> Any:
    if value is None:
        return None
    return visible(str(value)) if of is str else of(value)


def _stalls(reader: JournalReader, result: RunResult) -> Rows:
    began = _began(reader)
    yield ("cell", "step", "role", "client", "t_s", "duration_s", "trigger", "depth", "max_in_flight_ns", "missed_rows",
           "median_per_s", "cause", "cause_text", "cause_score")  # fmt: skip
    for cell, step in steps_of(result):
        for stall in step.stalls:
            t_s = (stall.started_ns - began[step.id]) / 1e9
            cause = stall.causes[0] if stall.causes else None
            yield (cell.cell.id, step.name, stall.role, stall.client, t_s, stall.duration_s, stall.trigger, stall.depth,
                   stall.max_in_flight_ns, stall.missed_rows, stall.median_per_s,
                   *((cause.name, cause.text, cause.score) if cause else (None, None, None)))  # fmt: skip


def _frames(reader: JournalReader, result: RunResult) -> Rows:
    began = _began(reader)
    yield "cell", "step", "t_s", "dt_s", "probe", "role", "figure", "part", "bucket_us", "value"
    for cell, step in steps_of(result):
        for frame in reader.probe_frames(step.id):
            place = (cell.cell.id, step.name, (frame.t_ns - began[step.id]) / 1e9, frame.dt_ns / 1e9, frame.probe)
            for name, found in frame.data.items():
                for part, bucket_us, value in _figures(found):
                    yield *place, frame.role, name, part, bucket_us, value


def _figures(found: Any) -> Iterator[tuple[str | None, int | None, float]]:
    """One field of a frame: a number, a histogram as (bucket, count) pairs, or numbers by the name of a part."""
    if isinstance(found, int | float):
        yield None, None, found
    elif isinstance(found, list):
        yield from ((None, _highest_us(bucket), count) for bucket, count in found)
    elif isinstance(found, dict):
        yield from ((part, None, value) for part, value in found.items() if isinstance(value, int | float))


def _highest_us(bucket: int) -> int:
    if not 0 <= bucket <= 63:
        raise ValueError(f"there is no bucket {bucket}")
    return buckets.bounds(bucket)[1]


def _began(reader: JournalReader) -> dict[int, int]:
    return {step.id: step.started_ns for attempt in reader.attempts() for step in reader.steps(attempt.id)}


PLACE = dict.fromkeys(("cell", "step", "kind", "role"), str)
TABLES = {
    "cells": Table(CSV_TABLES["cells"], str, {"ordinal": int, "repeat": int}),
    "steps": Table(CSV_TABLES["steps"], float, PLACE | {"sla_passed": bool, "phases_by": str}),
    "roles": Table(CSV_TABLES["roles"], float, PLACE),
    "seconds": Table(CSV_TABLES["seconds"], int, PLACE | {"t_s": float, "dt_s": float, "wait_event": str}),
    "stalls": Table(_stalls, float, PLACE | {"client": int, "max_in_flight_ns": int, "missed_rows": int}
                    | dict.fromkeys(("trigger", "cause", "cause_text"), str)),
    "counters": Table(CSV_TABLES["counters"], float, PLACE | {"event": str, "enabled_ns": int, "running_ns": int}),
    "frames": Table(_frames, float, PLACE | {"probe": str, "figure": str, "part": str, "bucket_us": int}),
}  # fmt: skip

"""Reasons for slowness: the parts of the difference, stalls, waits, scheduling, and programs that were timed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from engine.core.wait_kinds import KINDS, by_kind, is_known
from engine.features.feature import Tables
from engine.report.tables.section import UNITS, Line, RoleTable, Table, per_operation
from engine.results.averages import mean_shares, middle
from engine.results.cell_step import CellStep, Incident
from engine.results.comparison import Comparison
from engine.results.ratio import RATE
from engine.results.section import WORDS, Column, Section, Value, row, text

NAMED = 2  # most frequent wait events
UNKNOWN = "unknown"  # kind of wait events
LEAST = 0.02  # share of the time from which a wait event is listed
PROBED = ("wakeups_per_op", "migrations_per_op")
SCHEDULED = (
    (RATE, UNITS),
    ("runq_us_per_op", "run-q\nus"),
    ("ctx_switches_per_op", "switches"),
    ("wakeups_per_op", "wake-\nups"),
    ("migrations_per_op", "migra-\ntions"),
)
PROGRAM_FIGURES = (
    ("user_s", Column("user", "s")),
    ("system_s", Column("system", "s")),
    ("memory_bytes", Column("peak\nmemory", "bytes")),
    ("floor_s", Column("floor", "s")),
)


def _stalls(comparison: Comparison, step: str, subject: str) -> Iterable[Line]:
    cells = comparison.of(subject, step)
    longest = _longest_incident(cells)
    if longest is not None:
        seconds = f"! {sum(cell.stall_s for cell in cells):.1f}"
        stalled = f"{sum(bool(cell.stalls) for cell in cells)} of {len(cells)}"
        yield (seconds, stalled, f"{longest.seconds:.1f} {longest.roles}", longest.main.cause), "worse"


def stalls(comparison: Comparison) -> Iterable[Section]:
    """Seconds of stalls and the longest one; says so if no cell stalled."""
    for section in STALLED(comparison):
        none = () if section.rows or not comparison.cells else (row("none in any cell"),)
        yield replace(section, rows=section.rows + none)


def _hangs(comparison: Comparison, step: str, subject: str) -> Iterable[Line]:
    longest = _longest_incident(comparison.of(subject, step))
    return (((text,), "") for text in (longest.where if longest else ()))


def _longest_incident(cells: Sequence[CellStep]) -> Incident | None:
    incidents = (incident for cell in cells for incident in cell.incidents)
    return max(incidents, key=lambda incident: incident.seconds, default=None)


def waits(comparison: Comparison) -> Iterable[Section]:
    """Wait events of each role's server processes, as shares of the samples."""
    seen = (event for cell in comparison.cells for events in cell.waits.values() for event in events if event)
    kinds = {kind: word for kind, word in KINDS.items() if kind != UNKNOWN or not all(map(is_known, seen))}
    headings = (Column(word.replace(" ", "\n"), "some") for word in kinds.values())
    title = "Waits of server processes (share of the samples, several a second; mean of cells)"
    values = partial(_shares, shown=tuple(kinds))
    return RoleTable("waits", title, (*headings, Column("where", WORDS)), lambda cell: cell.waits, values)(comparison)


def _shares(cells: list[CellStep], role: str, *, shown: Iterable[str]) -> tuple[Value, ...] | None:
    events = mean_shares(cells, role)
    if not events:
        return None
    kinds = by_kind(events)
    most = sorted((event for event in events if event and events[event] >= LEAST), key=lambda event: -events[event])
    # An event that pgbed does not know is named with its type, however rare it is.
    unknown = [event for event in events if event and not is_known(event)]
    listed = dict.fromkeys((*most[:NAMED], *unknown))
    names = {event: event if event in unknown else event.partition(":")[2] for event in listed}
    where = ", ".join(f"{name} {text(events[event], 'some')}" for event, name in names.items())
    return (*(kinds.get(kind, 0.0) for kind in shown), where)


def _scheduling(comparison: Comparison, step: str, subject: str) -> Iterable[Line]:
    if any(comparison.figure(subject, step, name) is not None for name in PROBED):
        yield from per_operation([name for name, _ in SCHEDULED], comparison, step, subject)


def _programs(comparison: Comparison, step: str, subject: str) -> Iterable[Line]:
    figures = [middle(comparison.values(subject, step, name)) for name, _ in PROGRAM_FIGURES]
    if any(value is not None for value in figures):
        times = [time_s for cell in comparison.of(subject, step) for time_s in cell.times_s]
        extremes = (min(times), max(times)) if len(times) > 1 else (None, None)
        yield (*figures, len(times) or None, *extremes), ""


STALLED = Table("stalls", "Stalls", ("seconds", "cells", "longest", Column("its cause", WORDS)), _stalls)
HANGS = Table(
    "hangs", "Where the longest stalls were blocked when they began", (Column("where", WORDS),), _hangs, below=""
)
SCHEDULING = Table(
    "scheduling",
    "Scheduling per operation (wake-ups and migrations: server and client; below it the ratio to base)",
    tuple(title for _, title in SCHEDULED),
    _scheduling,
)
PROGRAMS = Table(
    "programs",
    "Times of programs (median of cells; floor: the time to do nothing)",
    (
        *(column for _, column in PROGRAM_FIGURES),
        Column("runs", "count"),
        Column("fastest", "s"),
        Column("slowest", "s"),
    ),
    _programs,
)

TABLES: Tables = {
    "stalls": stalls,
    "hangs": HANGS,
    "waits": waits,
    "scheduling": SCHEDULING,
    "programs": PROGRAMS,
}

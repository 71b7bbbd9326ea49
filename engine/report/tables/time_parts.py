"""Why it is slower: what makes the difference, stalls, waits, scheduling, and programs that were timed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.core.format import duration, size
from engine.core.wait_kinds import KINDS, by_kind, is_known
from engine.journal.totals import role_place
from engine.report.tables.section import UNITS, WHERE, WORSE, Notes, Row, Rows, Section, Table, number, ratio_text
from engine.results.averages import middle
from engine.results.cell_step import CellStep, Incident
from engine.results.comparison import Comparison
from engine.results.ratio import RATE
from engine.results.time_parts import Attribution, Part

NAMED = 2  # most frequent wait events
UNKNOWN = "unknown"  # kind of wait events
LEAST = 0.02  # share of the time from which a wait event is named
PROBED = ("wakeups_per_op", "migrations_per_op")
SCHEDULED = (
    (RATE, UNITS),
    ("runq_us_per_op", "run-q\nus"),
    ("ctx_switches_per_op", "switches"),
    ("wakeups_per_op", "wake-\nups"),
    ("migrations_per_op", "migra-\ntions"),
)
PROGRAM_FIGURES = (("user_s", "user"), ("system_s", "system"), ("memory_bytes", "peak\nmemory"), ("floor_s", "floor"))


def attribution(comparison: Comparison, _: Notes) -> Iterable[Section]:
    """Shares of the difference in time per operation, where a rate or time differs in several pairs."""
    title = "Causes of the difference in time per operation (of one connection)"
    section = Section(title, ("step, build and cause", "us", "share", "95%"))
    for step in comparison.steps:
        found = (comparison.attribution(name, step) for name in comparison.names)
        section.add_step(step, [row for each in found if each is not None and each.pairs > 1 for row in _parts(each)])
    yield section


def _parts(found: Attribution) -> list[Row]:
    rows: list[Row] = [((f"  {found.subject}", f"{number(found.base_us)} to {number(found.us)}", "", ""), "")]
    if found.reason:
        return [*rows, ((f"    {found.reason}", "", "undecided", ""), "dim")]
    causes: list[Row] = [
        ((f"    {part.title}", _more(part), part.share_text, part.bounds_text), "") for part in found.named
    ]
    if found.further:
        causes.append(((f"    {found.further_text}", "", f"{found.further_share:.0%}", ""), ""))
    unclear: list[Row] = [
        ((f"      {part.title}", _more(part), "undecided", part.bounds_text), "dim")
        for part in found.of(found.undecided)
    ]
    return [*rows, *causes, (("    unexplained", "", found.unexplained_text, ""), "dim"), *unclear]


def _more(part: Part) -> str:
    return f"{part.us - part.base_us:+,.1f}"


def _stalls(comparison: Comparison, _: Notes, step: str, subject: str) -> Rows:
    cells = comparison.of(subject, step)
    longest = _longest_incident(cells)
    if longest is not None:
        seconds = f"! {sum(cell.stall_s for cell in cells):.1f}"
        stalled = f"{sum(bool(cell.stalls) for cell in cells)} of {len(cells)}"
        yield (seconds, stalled, f"{longest.seconds:.1f} {longest.roles}", longest.main.cause), WORSE


def stalls(comparison: Comparison, notes: Notes) -> Iterable[Section]:
    """Seconds of stalls and the longest one; says so if no cell stalled."""
    for section in STALLED(comparison, notes):
        if not section.rows and comparison.cells:
            section.add("none in any cell", "", "", "", "")
        yield section


def hangs(comparison: Comparison, _: Notes) -> Iterable[Section]:
    """What was seen as the longest stall of each step and build began."""
    section = Section("Where the longest stalls were blocked when they began", ("step and build", WHERE))
    for step in comparison.steps:
        longest = {name: _longest_incident(comparison.of(name, step)) for name in comparison.names}
        where = ((name, place, line) for name, each in longest.items() if each for place, line in enumerate(each.where))
        section.add_step(step, [((f"  {name}" if place == 0 else "", line), "") for name, place, line in where])
    yield section


def _longest_incident(cells: Sequence[CellStep]) -> Incident | None:
    found = (incident for cell in cells for incident in cell.incidents)
    return max(found, key=lambda incident: incident.seconds, default=None)


def waits(comparison: Comparison, _: Notes) -> Iterable[Section]:
    """Wait events of each role's server processes, as shares of the samples."""
    title = "Waits of server processes (share of the samples, several a second; mean of cells)"
    seen = (event for cell in comparison.cells for events in cell.waits.values() for event in events if event)
    kinds = {kind: word for kind, word in KINDS.items() if kind != UNKNOWN or not all(map(is_known, seen))}
    section = Section(title, ("step, build and role", *(word.replace(" ", "\n") for word in kinds.values()), WHERE))
    for step in comparison.steps:
        there = {role for cell in comparison.cells if cell.step == step for role in cell.waits}
        rows: list[Row] = [
            ((f"  {name} {role}", *cells), "")
            for role in sorted(there, key=role_place)
            for name in comparison.names
            if (cells := _shares(comparison.of(name, step), role, kinds)) is not None
        ]
        section.add_step(step, rows)
    yield section


def _shares(cells: list[CellStep], role: str, shown: Iterable[str]) -> tuple[str, ...] | None:
    events = mean_shares(cells, role)
    if not events:
        return None
    kinds = by_kind(events)
    most = sorted((event for event in events if event and events[event] >= LEAST), key=lambda event: -events[event])
    # An event that pgbed does not know is named with its type, however rare it is.
    unknown = [event for event in events if event and not is_known(event)]
    listed = dict.fromkeys((*most[:NAMED], *unknown))
    names = {event: event if event in unknown else event.partition(":")[2] for event in listed}
    where = ", ".join(f"{name} {_percent(events[event])}" for event, name in names.items())
    return (*(_percent(kinds.get(kind, 0.0)) for kind in shown), where)


def _percent(share: float) -> str:
    return "-" if share <= 0 else "<1%" if share < 0.01 else f"{share:.0%}"


def mean_shares(cells: list[CellStep], role: str) -> dict[str, float]:
    """The mean of the cells' shares by event; empty if waits were not sampled."""
    found = [cell.waits[role] for cell in cells if cell.waits.get(role)]
    events = dict.fromkeys(event for each in found for event in each)
    return {event: sum(each.get(event, 0.0) for each in found) / len(found) for event in events}


def _scheduling(comparison: Comparison, _: Notes, step: str, subject: str) -> list[Row]:
    figures = {name: comparison.figure(subject, step, name) for name, _ in SCHEDULED}
    if all(figures[name] is None for name in PROBED):
        return []
    rows: list[Row] = [(tuple(map(number, figures.values())), "")]
    found = [comparison.ratio(subject, step, name) for name in figures]
    return [*rows, (tuple(map(ratio_text, found)), "dim")] if any(found) else rows


def _programs(comparison: Comparison, _: Notes, step: str, subject: str) -> list[Row]:
    found = [(name, middle(comparison.values(subject, step, name))) for name, _ in PROGRAM_FIGURES]
    if all(value is None for _, value in found):
        return []
    times = [each for cell in comparison.of(subject, step) for each in cell.times_s]
    extremes = (min(times), max(times)) if len(times) > 1 else (None, None)
    return [((*(_text(name, value) for name, value in found), str(len(times) or "-"), *map(duration, extremes)), "")]


def _text(name: str, value: float | None) -> str:
    if name != "memory_bytes":
        return duration(value)
    return "-" if value is None else size(value)


STALLED = Table("Stalls", ("seconds", "cells", "longest", "its cause"), _stalls)
SCHEDULING = Table(
    "Scheduling per operation (wake-ups and migrations: server and client; below it the ratio to base)",
    tuple(title for _, title in SCHEDULED),
    _scheduling,
)
PROGRAMS = Table(
    "Times of programs (median of cells; floor: the time to do nothing)",
    (*(title for _, title in PROGRAM_FIGURES), "runs", "fastest", "slowest"),
    _programs,
)

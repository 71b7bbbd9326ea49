"""What the scheduler did with the processes of connections, beside the rate, where the probe `sched` was on."""

from __future__ import annotations

from engine.report.section import UNITS, Notes, Row, Section, Table, number, ratio_text
from engine.results.comparison import RATE, Comparison

PROBED = ("wakeups_per_op", "migrations_per_op")
FIGURES = (
    (RATE, UNITS),
    ("runq_us_per_op", "run-q\nus"),
    ("ctx_switches_per_op", "switches"),
    ("wakeups_per_op", "wake-\nups"),
    ("migrations_per_op", "migra-\ntions"),
)


def sections(comparison: Comparison, notes: Notes) -> list[Section]:
    """The table, where the probe has counted in any step."""
    section = SCHEDULING.filled(comparison, notes)
    return [section] if section.rows else []


def _rows(comparison: Comparison, _: Notes, step: str, subject: str) -> list[Row]:
    medians = {name: comparison.median(subject, step, name) for name, _ in FIGURES}
    if all(medians[name] is None for name in PROBED):
        return []
    rows: list[Row] = [(tuple(map(number, medians.values())), "")]
    found = [comparison.ratio(subject, step, name) for name in medians]
    return [*rows, (tuple(map(ratio_text, found)), "dim")] if any(found) else rows


SCHEDULING = Table(
    "Scheduling per operation (wake-ups and migrations: server and client; below it the ratio to base)",
    tuple(title for _, title in FIGURES),
    _rows,
)

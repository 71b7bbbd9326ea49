"""Outcomes of transactions, and the times of their scripts and statements."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from engine.features.feature import Tables
from engine.features.transactions.executions import executions
from engine.report.tables.section import STEP_AND_BUILD, Line, Table
from engine.results.averages import middle
from engine.results.cell_step import CellStep
from engine.results.comparison import Comparison
from engine.results.section import Column, Figure, Section, Value, columns, row
from workloads.api.report import StatementTime
from workloads.client.counter_page import OUTCOMES

ACROSS = 3  # subjects in one table of 80 columns
STATEMENT_CHARS = 40
STOP_SHARE = 0.02  # of a statement's mean time, by which the client's stops may have prolonged it
STOPPED = (
    f"pgbench is stopped before and after the measured time, or waits for it, which may be more than {STOP_SHARE:.0%} "
    "of this mean; give more seconds or transactions"
)
NORMAL_95 = 1.96
MOST_ERROR = 0.25  # of a statement's mean time
RECKONED = (
    "interleaved, pgbench's clock runs on while it is stopped: its stops are subtracted in proportion, which is right "
    "within this error, 19 times in 20"
)
UNCERTAIN = (
    f"interleaved, pgbench's clock runs on while it is stopped: without the stops this is right to {MOST_ERROR:.0%} at "
    "best; give more seconds, repeats or clients, or --interleave cells"
)
DROPPED = (
    "dropped: in flight when pgbench was stopped for another server's slice; counted, but without a response time",
)


def outcomes(comparison: Comparison) -> Iterable[Section]:
    """Shares of the transactions that were due, all cells of a subject together; outcomes that occurred only."""
    every = [cell for step in comparison.steps for name in comparison.names for cell in comparison.of(name, step)]
    seen = tuple(outcome for outcome in OUTCOMES if any(_count(cell, outcome) for cell in every))
    rows = []
    for step in comparison.steps:
        for name in comparison.names:
            cells = comparison.of(name, step)
            counts = {outcome: sum(_count(cell, outcome) for cell in cells) for outcome in OUTCOMES}
            if any(counts.values()):
                due = sum(cell.ops for cell in cells) + sum(
                    counts[outcome] for outcome in ("serialization", "deadlock", "failed", "skipped")
                )
                shares = (counts[outcome] / due if due else None for outcome in seen)
                rows.append(row(name, *shares, step=step, subject=name))
    shown = (Column(outcome, "share", remarks=DROPPED if outcome == "dropped" else ()) for outcome in seen)
    title = "Outcomes of transactions (of all that were due)"
    yield Section("outcomes", title, columns(STEP_AND_BUILD, *shown), tuple(rows))


def _count(cell: CellStep, outcome: str) -> float:
    return sum(figures.get(outcome) or 0 for figures in cell.roles.values())


def statements(comparison: Comparison) -> Iterable[Section]:
    for start in range(0, len(comparison.names), ACROSS):
        names, rows = comparison.names[start : start + ACROSS], []
        for step in comparison.steps:
            texts = {
                key: time.statement
                for name in reversed(names)  # the text of the first one stands
                for cell in comparison.of(name, step)
                for key, time in _placed(cell).items()
            }
            for key, text in sorted(texts.items()):
                rows.append(row(_cut(text), *(_mean(comparison, name, step, key) for name in names), step=step))
        title = "Time of each statement (mean ms, median of cells)"
        yield Section("statements", title, columns("step and statement", *names), tuple(rows))


def _script_times(comparison: Comparison, step: str, subject: str) -> Iterable[Line]:
    """A line for each of several scripts."""
    cells = comparison.of(subject, step)
    for name in dict.fromkeys(times.name for cell in cells for times in cell.scripts):
        times = [script for cell in cells for script in cell.scripts if script.name == name]
        figures = ("p50_ms", "p95_ms", "p99_ms")
        quantiles = (middle(getattr(script, figure) for script in times) for figure in figures)
        yield (name.removesuffix(".sql"), sum(script.transactions for script in times), *quantiles), ""


def _placed(cell: CellStep) -> dict[tuple[int, int], StatementTime]:
    """Statements by script and position: two of a script may begin alike."""
    places = Counter[int]()
    placed = {}
    for time in cell.statements:
        placed[time.script, places[time.script]] = time
        places[time.script] += 1
    return placed


def _mean(comparison: Comparison, name: str, step: str, key: tuple[int, int]) -> Value:
    times = [time for cell in comparison.of(name, step) if (time := _placed(cell).get(key)) is not None]
    if any(time.stop_ms > STOP_SHARE * time.mean_ms for time in times):
        return Figure(None, remarks=(STOPPED,))
    value = middle(time.mean_ms for time in times)
    if value is None:
        return None
    error_ms = NORMAL_95 * math.sqrt(sum(time.error_ms**2 for time in times)) / len(times)
    if error_ms > MOST_ERROR * value:
        return Figure(None, remarks=(UNCERTAIN,))
    return Figure(
        f"{value:,.3f}" + (f" ±{error_ms / value:.0%}" if error_ms else ""), remarks=(RECKONED,) * bool(error_ms)
    )


def _cut(text: str) -> str:
    return text if len(text) <= STATEMENT_CHARS else text[: STATEMENT_CHARS - 1] + "…"


SCRIPT_TIMES = Table(
    "scripts",
    "Response time by script (ms, median of cells)",
    ("script", Column("counted", "count"), "p50", "p95", "p99"),
    _script_times,
    below="",
)

TABLES: Tables = {
    "scripts": SCRIPT_TIMES,
    "outcomes": outcomes,
    "statements": statements,
    "executions": executions,
}

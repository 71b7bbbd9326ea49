"""Tables of transactions: what became of those that did not end in time at the first try, and times by statement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from engine.core.comparison import CellStep, Comparison, StatementTime, middle
from engine.report import tables, time_tables
from workloads.page import OUTCOMES

ACROSS = 3  # subjects in one table of 80 columns
STATEMENT_CHARS = 40
STOP_SHARE = 0.02  # of a statement's mean time, which the client's stops may have made longer
STOPPED = (
    f"pgbench is stopped before and after the measured time, or waits for it, which may be more than {STOP_SHARE:.0%} "
    "of this mean; give more seconds or transactions"
)
DROPPED = (
    "dropped: in flight when pgbench was stopped for another server's slice; counted, but without a response time",
)


def sections(comparison: Comparison, notes: tables.Notes) -> Iterable[tables.Section]:
    """The tables that have rows."""
    found = (*time_tables.sections(comparison, notes), _outcomes(comparison, notes), *_statements(comparison, notes))
    yield from (section for section in found if section.rows)


def _outcomes(comparison: Comparison, notes: tables.Notes) -> tables.Section:
    """Shares of the transactions that were due, all cells of a subject together; of what there was."""
    every = [cell for step in comparison.steps for name in comparison.names for cell in comparison.of(name, step)]
    seen = tuple(outcome for outcome in OUTCOMES if any(_count(cell, outcome) for cell in every))
    marks = {"dropped": notes.mark(DROPPED)} if "dropped" in seen else {}
    columns = (f"{outcome}{marks.get(outcome, '')}" for outcome in seen)
    section = tables.Section("What became of transactions (of all that were due)", ("step and build", *columns))
    for step in comparison.steps:
        rows = []
        for name in comparison.names:
            cells = comparison.of(name, step)
            counts = {outcome: sum(_count(cell, outcome) for cell in cells) for outcome in OUTCOMES}
            if any(counts.values()):
                due = sum(cell.ops for cell in cells) + sum(
                    counts[outcome] for outcome in ("serialization", "deadlock", "failed", "skipped")
                )
                shares = (tables.percent(counts[outcome] / due if due else None) for outcome in seen)
                rows.append(((f"  {name}", *shares), ""))
        section.add_step(step, rows)
    return section


def _count(cell: CellStep, outcome: str) -> float:
    return sum(figures.get(outcome) or 0 for figures in cell.roles.values())


def _statements(comparison: Comparison, notes: tables.Notes) -> Iterable[tables.Section]:
    """The mean time of each statement of a transaction, as the client that ran it reports them."""
    for start in range(0, len(comparison.names), ACROSS):
        names = comparison.names[start : start + ACROSS]
        section = tables.Section("Time of each statement (mean ms, median of cells)", ("step and statement", *names))
        for step in comparison.steps:
            texts = {
                key: each.statement
                for name in reversed(names)  # the text of the first one stands
                for cell in comparison.of(name, step)
                for key, each in _placed(cell).items()
            }
            section.add_step(
                step,
                [
                    ((f"  {_cut(text)}", *(_mean(comparison, name, step, key, notes) for name in names)), "")
                    for key, text in sorted(texts.items())
                ],
            )
        yield section


def _placed(cell: CellStep) -> dict[tuple[int, int], StatementTime]:
    """Statements by script and place: two of a script may begin alike."""
    places = Counter[int]()
    found = {}
    for each in cell.statements:
        found[each.script, places[each.script]] = each
        places[each.script] += 1
    return found


def _mean(comparison: Comparison, name: str, step: str, key: tuple[int, int], notes: tables.Notes) -> str:
    found = [each for cell in comparison.of(name, step) if (each := _placed(cell).get(key)) is not None]
    if any(each.stop_ms > STOP_SHARE * each.mean_ms for each in found):
        return f"-{notes.mark((STOPPED,))}"
    value = middle([each.mean_ms for each in found])
    return "-" if value is None else f"{value:,.3f}"


def _cut(text: str) -> str:
    return text if len(text) <= STATEMENT_CHARS else text[: STATEMENT_CHARS - 1] + "…"

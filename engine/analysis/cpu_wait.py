"""Where the time went by which one side is slower: what its connections waited for a CPU, as the kernel counted it.

A connection does one thing at a time, so the time that it takes for an op is its backend's and its client's, one after
the other; what either of them waited on a run queue is lost to it. Pure arithmetic over the cells of a comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from statistics import median

from engine.analysis.cells import ComparedCells
from engine.analysis.results import StepResult
from engine.core.model import Subject
from engine.core.totals import judged_by, ops

SLOWER = 1.05  # from here on the time per op is longer by so much that it is worth a sentence
LEAST = 0.2  # a cause of less than this part of it is not named


@dataclass(frozen=True, slots=True)
class PerOp:
    """One side's us per op of a connection: in all, and how long of that its backend and client waited for a CPU."""

    elapsed_us: float
    backend_us: float
    client_us: float


def why(cells: ComparedCells) -> list[str]:
    """One sentence for each step and side that is slower than what it is compared with and waited longer for a CPU."""
    found = []
    for step in cells.steps:
        for subject in cells.others:
            base = cells.baseline_of(subject)
            before, after = (_per_op(cells.of(side, step)) for side in (base, subject))
            text = _sentence(before, after) if before is not None and after is not None else ""
            if text:
                result, name = cells.of(subject, step)[0], cells.names[subject]
                headline = judged_by(result.kind, result.totals)
                role = headline.role if headline else ""
                moved = _moved(cells, base, subject, step)
                found.append(f"{step}: against {cells.names[base]}, {name} takes {text.format(role=role)}{moved}")
    return found


def _moved(cells: ComparedCells, base: Subject, subject: Subject, step: str) -> str:
    """What a probe counted of it that the scheduler did: from how much to how much for an op."""
    parts = []
    for metric, what in (("wakeups_per_op", "wake-ups"), ("migrations_per_op", "migrations")):
        sides = [cells.values(side, step, metric) for side in (base, subject)]
        if all(sides):
            before, after = map(median, sides)
            parts.append(f"{what} per op {before:.3g} to {after:.3g}")
    return f"; {', '.join(parts)}" if parts else ""


def _sentence(before: PerOp, after: PerOp) -> str:
    lost_us = after.elapsed_us - before.elapsed_us
    backend_us, client_us = after.backend_us - before.backend_us, after.client_us - before.client_us
    waited_us = backend_us + client_us
    if after.elapsed_us < SLOWER * before.elapsed_us or waited_us < LEAST * lost_us:
        return ""
    share = min(1.0, waited_us / lost_us)
    return (
        f"{lost_us:.1f} us more per op; {share:.0%} of that is longer CPU wait of its {{role}} connections "
        f"(run queue: backends {backend_us:+.1f} us, clients {client_us:+.1f} us)"
    )


def _per_op(results: Sequence[StepResult]) -> PerOp | None:
    """The medians of a side's cells; None where the step has no rate."""
    parts = [part for result in results if (part := _of_cell(result)) is not None]
    return PerOp(*(median(each) for each in zip(*map(astuple, parts), strict=True))) if parts else None


def _of_cell(result: StepResult) -> PerOp | None:
    totals, count = result.totals, ops(result.kind, result.totals)
    headline = judged_by(result.kind, totals)
    roles = totals.of_kind(headline.role) if headline else []
    backends = [role.backend_runq_ns for role in roles if role.backend_runq_ns is not None]
    if headline is None or headline.by != "rate" or not backends or not count:
        return None
    return PerOp(
        totals.seconds * 1e6 * sum(role.connections for role in roles) / count,
        sum(backends) / 1000 / count,
        sum(role.client_runq_ns for role in roles) / 1000 / count,
    )

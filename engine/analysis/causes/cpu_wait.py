"""The part of a side's slowness that its connections spent waiting for a CPU, as the kernel counted it."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from engine.analysis.causes.time_parts import Attribution
from engine.analysis.cells.compared_cells import ComparedCells
from engine.core.model import Subject

SLOWER = 1.05  # ratio of the times per op from which it is worth a sentence
LEAST = 0.2  # share of it below which a cause is not named
WAITS = {"server_runq": "backends", "client_runq": "clients"}  # parts of the time, and whose they are


def why(cells: ComparedCells, attributions: Iterable[Attribution]) -> list[str]:
    """A sentence for each step and side that is slower, with certainty, and waited longer for a CPU."""
    subjects = {name: subject for subject, name in cells.names.items()}
    sentences = []
    for attribution in attributions:
        waits = [part for part in attribution.of(tuple(WAITS)) if part.known]
        share = sum(part.share or 0.0 for part in waits)
        connections = any(
            part.name == "client_runq" for part in attribution.parts
        )  # of a command all processes are counted
        if attribution.reason or not connections or attribution.us < SLOWER * attribution.base_us or share < LEAST:
            continue
        subject = subjects[attribution.subject]
        base = cells.baseline_of(subject)
        longer = ", ".join(f"{WAITS[part.name]} {part.us - part.base_us:+.1f} us" for part in waits)
        sentences.append(
            f"{attribution.step}: against {cells.names[base]}, {attribution.subject} takes "
            f"{attribution.us - attribution.base_us:,.1f} us more per op; {share:.0%} of that "
            f"is longer CPU wait of its {attribution.role} connections (run queue: {longer})"
            f"{_moved(cells, base, subject, attribution.step)}"
        )
    return sentences


def _moved(cells: ComparedCells, base: Subject, subject: Subject, step: str) -> str:
    parts = []
    for metric, what in (("wakeups_per_op", "wake-ups"), ("migrations_per_op", "migrations")):
        sides = [cells.values(side, step, metric) for side in (base, subject)]
        if all(sides):
            before, after = map(median, sides)
            parts.append(f"{what} per op {before:.3g} to {after:.3g}")
    return f"; {', '.join(parts)}" if parts else ""

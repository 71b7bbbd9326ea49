"""Sweeps in a comparison: their steps, from the plan; where each subject peaks; and both in a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from statistics import median

from engine.analysis.cells import ComparedCells
from engine.core.comparison import RATE, Ratio
from engine.core.model import Subject
from engine.core.record import converted
from engine.core.sweep import Peak, Point, Sweep

MIN_POINTS = 2
WORDS = {"faster": "faster", "slower": "slower", "same": "the same", "inconclusive": "inconclusive"}


def sweeps(cells: ComparedCells, ratios: Sequence[Ratio], units: Mapping[str, str]) -> tuple[Sweep, ...]:
    """The sweeps of the runs' steps that have been measured."""
    where = f"{cells.runs[0].path / 'manifest.json'}: workload: steps: sweep"
    found: list[tuple[str, str, Point]] = []
    for step in cells.runs[0].manifest.workload.get("steps", []):
        name = str(step.get("name"))
        for what, value in converted(step.get("sweep", {}), dict[str, float], where).items():
            if name in cells.steps and name in units:
                found.append((what, units[name], Point(name, value)))
    return tuple(
        _sweep(cells, ratios, what, unit, sorted((point for *_, point in points), key=lambda point: point.value))
        for (what, unit), group in groupby(sorted(found, key=lambda each: each[:2]), key=lambda each: each[:2])
        if len(points := list(group)) >= MIN_POINTS
    )


def _sweep(cells: ComparedCells, ratios: Sequence[Ratio], what: str, unit: str, points: Sequence[Point]) -> Sweep:
    peaks = list(_peaks(cells, points))
    named = {peak.subject: peak for peak in peaks}
    base = named.get(cells.names[cells.base])
    low, high = points[0].value, points[-1].value
    parts = []
    for peak in peaks:
        against = f" ({peak.ratio:.3f} of {base.subject}'s)" if base and peak.ratio and peak is not base else ""
        verdicts = _verdicts([ratio for ratio in ratios if ratio.subject == peak.subject], points)
        parts.append(f"{peak.subject} peaks at {peak.rate_per_s:,.0f} {unit} with {peak.value:g}{against}{verdicts}")
    return Sweep(what, unit, tuple(points), tuple(peaks), f"{low:g} to {high:g} {what}: {'; '.join(parts)}.")


def _peaks(cells: ComparedCells, points: Sequence[Point]) -> Iterable[Peak]:
    highest: float | None = None
    for subject, name in cells.names.items():
        medians = [(rate, point.value) for point in points if (rate := _median(cells, subject, point.step)) is not None]
        if medians:
            rate, value = max(medians, key=lambda each: each[0])
            highest = rate if subject == cells.base else highest
            yield Peak(name, rate, value, rate / highest if highest else None)


def _median(cells: ComparedCells, subject: Subject, step: str) -> float | None:
    rates = [
        rate
        for cell in cells.cells
        if cell.cell.subject == subject and step in cell.steps
        if (rate := cell.steps[step].figures["rate_per_s"]) is not None
    ]
    return median(rates) if rates else None


def _verdicts(ratios: Sequence[Ratio], points: Sequence[Point]) -> str:
    """In how many of the steps which verdict was given: `, slower at 2 of 13`."""
    steps = {point.step for point in points}
    given = [ratio.verdict for ratio in ratios if ratio.metric == RATE and ratio.step in steps]
    counts = {word: given.count(verdict) for verdict, word in WORDS.items() if verdict in given}
    return "".join(f", {word} at {count} of {len(steps)}" for word, count in counts.items())

"""Sweeps in a comparison: their steps, where each subject peaks, both in a sentence, and steps with several rates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from engine.analysis.cells.compared_cells import ComparedCells
from engine.analysis.statistics import change_points
from engine.core.model import Subject
from engine.core.record import converted
from engine.journal.reader import JournalReader
from engine.results.averages import mean
from engine.results.comparison import Comparison
from engine.results.ratio import ANSWERS, KNOWN, RATE, Ratio, Verdict
from engine.results.section import Column, Figure, Row, Section, Value, of_ratio, row

MIN_POINTS = 2
MOST_LEVELS = 4  # that are listed
WORDS: dict[Verdict, str] = {verdict: verdict for verdict in (*ANSWERS, "undecided")} | {"same": "the same"}

ACROSS = 3  # subjects in one table of 80 columns
CHANGED = "in one repeat or more the rate changed within the step: see below, when and from what to what"


@dataclass(frozen=True, slots=True)
class Point:
    """A step of a sweep, and its number."""

    step: str
    value: float


@dataclass(frozen=True, slots=True)
class Peak:
    """The peak of a subject's median rate; `ratio` is set if the base peaks there too, with a verdict."""

    subject: str
    rate_per_s: float
    value: float
    ratio: float | None = None


@dataclass(frozen=True, slots=True)
class RateChange:
    """A step of one cell that had several rates in succession: see `analysis.statistics.change_points`."""

    step: str
    subject: str
    run: str
    cell: str
    repeat: int
    levels: tuple[change_points.Level, ...]


@dataclass(frozen=True, slots=True)
class Sweep:
    """The steps of a sweep by their number `name`, rising; `text` sums up the result in a sentence.

    `changes` are steps of single cells whose rate changed as they ran.
    """

    name: str
    unit: str
    points: tuple[Point, ...]
    peaks: tuple[Peak, ...] = ()
    text: str = ""
    changes: tuple[RateChange, ...] = ()


def sweeps(cells: ComparedCells, ratios: Sequence[Ratio], units: Mapping[str, str]) -> tuple[Sweep, ...]:
    where = f"{cells.runs[0].path / 'manifest.json'}: workload: steps: sweep"
    swept_points: list[tuple[str, str, Point]] = []
    for step in cells.runs[0].manifest.workload.get("steps", []):
        name = str(step.get("name"))
        for what, value in converted(step.get("sweep", {}), dict[str, float], where).items():
            if name in cells.steps and name in units:
                swept_points.append((what, units[name], Point(name, value)))
    return tuple(
        _sweep(cells, ratios, what, unit, sorted((point for *_, point in points), key=lambda point: point.value))
        for (what, unit), group in groupby(sorted(swept_points, key=lambda item: item[:2]), key=lambda item: item[:2])
        if len(points := list(group)) >= MIN_POINTS
    )


def _sweep(cells: ComparedCells, ratios: Sequence[Ratio], what: str, unit: str, points: Sequence[Point]) -> Sweep:
    peaks = _peaks(cells, ratios, points)
    named = {peak.subject: peak for peak in peaks}
    base = named.get(cells.names[cells.base])
    low, high = points[0].value, points[-1].value
    parts = []
    for peak in peaks:
        against = f" ({peak.ratio:.3f} of {base.subject}'s)" if base and peak.ratio and peak is not base else ""
        verdicts = _verdicts([ratio for ratio in ratios if ratio.subject == peak.subject], points)
        parts.append(f"{peak.subject} peaks at {_rate(peak.rate_per_s)} {unit} with {peak.value:g}{against}{verdicts}")
    text = f"{low:g} to {high:g} {what}: {'; '.join(parts)}."
    return Sweep(what, unit, tuple(points), tuple(peaks), text, tuple(_changes(cells, points)))


def sections(comparison: Comparison, swept: Iterable[Sweep]) -> Iterable[Section]:
    """Each sweep's figures with their ratios and the peaks below, in as many parts as the subjects need."""
    for sweep in swept:
        for start in range(0, len(comparison.names), ACROSS):
            names = comparison.names[start : start + ACROSS]
            shown = [Column(sweep.name)]
            for name in names:
                shown += [Column(name), *([Column("/ base", "ratio")] if name != comparison.base else [])]
            title = f"{sweep.unit} by number of {sweep.name} (mean of cells, ratio to base)"
            rows = tuple(_rows(comparison, sweep, names))
            yield Section("sweep", title, tuple(shown), rows, (sweep.text,) * (start == 0), flat=True)


def _rows(comparison: Comparison, sweep: Sweep, names: Sequence[str]) -> Iterable[Row]:
    def line(name: str, step: str, rates: Iterable[Value], ratios: Iterable[Value]) -> Row:
        both = zip(names, rates, ratios, strict=True)
        values = [value for of, *pair in both for value in (pair if of != comparison.base else pair[:1])]
        return row(name, *values, step=step)

    changed = {(change.subject, change.step) for change in sweep.changes}
    for point in sweep.points:
        step = point.step
        marks = (((name, step) in changed) * (CHANGED,) for name in names)
        figures = (comparison.figure(name, step, RATE) for name in names)
        ratios = (of_ratio(comparison.ratio(name, step, RATE)) for name in names)
        rates = (Figure(figure, remarks=mark) for figure, mark in zip(figures, marks, strict=True))
        yield line(f"{point.value:g}", step, rates, ratios)
    peaks = {peak.subject: peak for peak in sweep.peaks}
    known = [peaks.get(name) for name in names]
    of_peaks = (Figure(peak.ratio if peak else None, unit="ratio") for peak in known)
    yield line("peak", "", (peak.rate_per_s if peak else None for peak in known), of_peaks)
    yield line(f"{sweep.name} at peak", "", (f"{peak.value:g}" if peak else None for peak in known), [""] * len(names))


def _rate(per_s: float) -> str:
    return f"{per_s:,.0f}" if per_s >= 100 else f"{per_s:.3g}"


def findings(swept: Sequence[Sweep]) -> tuple[str, ...]:
    """A sentence for each step of a cell that had more than one rate, and how certain that is."""
    sentences = tuple(_sentence(change, sweep.unit) for sweep in swept for change in sweep.changes)
    often = round(1 / change_points.LEVEL)
    return (
        (*sentences, f"at most 1 in {often} steps without a change of rate is marked as having one")
        if sentences
        else ()
    )


def _sentence(change: RateChange, unit: str) -> str:
    parts = [
        f"{_rate(level.rate_per_s)} {unit} from {level.from_s:.0f} to {level.until_s:.0f} s" for level in change.levels
    ]
    more = f", and {len(parts) - MOST_LEVELS} more" if len(parts) > MOST_LEVELS else ""
    rates = ", ".join(parts[:MOST_LEVELS]) + more
    return f"{change.step}: {change.subject} ran at {len(parts)} rates in repeat {change.repeat}: {rates}"


def _changes(cells: ComparedCells, points: Sequence[Point]) -> Iterable[RateChange]:
    """Rate changes within a sweep's steps, if the rate means something while a step runs."""
    for run in cells.runs:
        run_cells = [cell for cell in cells.cells if cell.run == run.name]
        with JournalReader(run.path) as reader:
            for point in points:
                for cell in run_cells:
                    step = cell.steps.get(point.step)
                    judged = step.totals.primary_metric if step is not None else None
                    if step is None or judged is None or not judged.live:
                        continue
                    levels = change_points.levels(change_points.rates_of(reader, reader.step(step.id)))
                    if len(levels) > 1:
                        place = (cells.names[cell.cell.subject], run.name, cell.cell.id, cell.cell.repeat)
                        yield RateChange(point.step, *place, levels)


def _peaks(cells: ComparedCells, ratios: Sequence[Ratio], points: Sequence[Point]) -> list[Peak]:
    """Each subject's peak, with the ratio of that step's pairs if its baseline peaks there, too."""
    highest: dict[Subject, tuple[float, Point]] = {}
    for subject in cells.names:
        rates = [(rate, point) for point in points if (rate := mean(cells.values(subject, point.step, RATE)))]
        if rates:
            highest[subject] = max(rates, key=lambda rate: rate[0])
    known = {
        (ratio.subject, ratio.step): ratio.ratio for ratio in ratios if ratio.metric == RATE and ratio.verdict in KNOWN
    }
    peaks = []
    for subject, (rate, point) in highest.items():
        base = cells.baseline_of(subject)
        with_base = base == cells.base and highest.get(base, (0.0, None))[1] == point
        name = cells.names[subject]
        ratio = known.get((name, point.step)) if with_base else None
        peaks.append(Peak(name, highest[base][0] * ratio if ratio else rate, point.value, ratio))
    return peaks


def _verdicts(ratios: Sequence[Ratio], points: Sequence[Point]) -> str:
    """The number of steps with each verdict: `, slower at 2 of 13`."""
    steps = {point.step for point in points}
    given = [ratio.verdict for ratio in ratios if ratio.metric == RATE and ratio.step in steps]
    counts = {word: given.count(verdict) for verdict, word in WORDS.items() if verdict in given}
    return "".join(f", {word} at {count} of {len(steps)}" for word, count in counts.items())

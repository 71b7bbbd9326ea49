"""The tables of a sweep: a row for each number, a column for each subject, and every repeat as a dot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.report import tables
from engine.report.section import Notes, Section, number, ratio_text
from engine.results.comparison import RATE, Comparison
from engine.results.sweep import Sweep

ACROSS = 3  # subjects in one table of 80 columns
ROOM = 54  # for the dots of all subjects and their marks
TWO_MODES = "2 modes"
CHANGED = "in one repeat or more the rate changed within the step: see below, when and from what to what"


def sections(comparison: Comparison, notes: Notes, *, brief: bool = False) -> Iterable[Section]:
    """For each sweep the medians with their ratios, the peaks below; then every repeat, unless it is to be brief."""
    for sweep in comparison.sweeps:
        for start in range(0, len(comparison.names), ACROSS):
            names = comparison.names[start : start + ACROSS]
            yield _medians(comparison, sweep, names)
            if not brief:
                yield _repeats(comparison, sweep, names, notes)


def _medians(comparison: Comparison, sweep: Sweep, names: Sequence[str]) -> Section:
    section = Section(f"{sweep.unit} by number of {sweep.name} (median of cells, ratio to base)", (sweep.name, *names))
    for point in sweep.points:
        section.add(f"{point.value:g}", *(_median(comparison, name, point.step) for name in names))
    peaks = {peak.subject: peak for peak in sweep.peaks}
    shown = [peaks.get(name) for name in names]
    section.add(
        "peak",
        *(
            "-"
            if peak is None
            else number(peak.rate_per_s)
            + (f"  {peak.ratio:.3f}" if peak.ratio and peak.subject != comparison.base else "")
            for peak in shown
        ),
    )
    section.add(f"{sweep.name} at peak", *("-" if peak is None else f"{peak.value:g}" for peak in shown))
    return section


def _median(comparison: Comparison, name: str, step: str) -> str:
    ratio = comparison.ratio(name, step, RATE)
    against = f" {ratio_text(ratio)}" if ratio is not None else ""
    return number(comparison.median(name, step, RATE)) + against


def _repeats(comparison: Comparison, sweep: Sweep, names: Sequence[str], notes: Notes) -> Section:
    section = Section(
        f"Every repeat by number of {sweep.name} ({sweep.unit}, lowest to highest of a row)",
        (sweep.name, "lowest", *names, "highest"),
    )
    changed = {(change.subject, change.step) for change in sweep.changes}
    marks = {
        (name, point.step): _modes(comparison, name, point.step)
        + (notes.mark((CHANGED,)) if (name, point.step) in changed else "")
        for point in sweep.points
        for name in names
    }
    columns = ROOM // len(names) - max(map(len, marks.values()))
    for point in sweep.points:
        every = [value for name in comparison.names for value in comparison.values(name, point.step, RATE)]
        if len(every) > 1:
            dots = (
                tables.strip(comparison.values(name, point.step, RATE), min(every), max(every), columns)
                + marks[name, point.step]
                for name in names
            )
            section.add(f"{point.value:g}", number(min(every)), *dots, number(max(every)))
    return section


def _modes(comparison: Comparison, name: str, step: str) -> str:
    spread = comparison.spread(name, step, RATE)
    return f" {TWO_MODES}" if spread is not None and spread.bimodal else ""

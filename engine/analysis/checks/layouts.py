"""Differences so small that where functions lie in two binaries may make them, and not their sources.

A compiler and a linker could have made other binaries of the same source, each of which is a little faster or slower.
No interval covers that: a build is one binary in all pairs. tests/perf/layouts.py measures how much it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.analysis.cells.compared_cells import ComparedCells
from engine.analysis.checks.comparability import digests
from engine.core.model import Build, Subject
from engine.results.ratio import CHANGED, PRIMARY_METRICS, Ratio

WORTH = 0.01  # about twice the standard deviation of layouts: see docs/explanation/statistics.md


def findings(cells: ComparedCells, judged: Sequence[Ratio]) -> list[str]:
    """A sentence for each subject whose verdict is faster or slower by less than layouts may differ."""
    sentences = []
    for subject in cells.others:
        base, name = cells.baseline_of(subject), cells.names[subject]
        if subject.control or digests(cells.runs, subject) == digests(cells.runs, base):
            continue
        small = [
            ratio.step
            for ratio in judged
            if ratio.subject == name and ratio.metric in PRIMARY_METRICS and ratio.verdict in CHANGED
            and ratio.ratio is not None and abs(ratio.ratio - 1) < WORTH
        ]  # fmt: skip
        if small:
            fixed = [build.label for build in _builds(cells, base, subject) if build.provenance != "source"]
            how = (
                f"{' and '.join(fixed)} cannot be linked in another order, so the verdict is for these binaries"
                if fixed
                else "their variants :layout1 and :layout2 show how much it is here"
            )
            sentences.append(
                f"{', '.join(small)}: {name} differs from {cells.names[base]} by less than {WORTH:.0%}, which where "
                f"functions lie in a binary may make: {how}"
            )
    return sentences


def _builds(cells: ComparedCells, *subjects: Subject) -> list[Build]:
    builds = {build.label: build for run in cells.runs for build in run.manifest.builds}
    return [builds[label] for label in dict.fromkeys(subject.build for subject in subjects) if label in builds]

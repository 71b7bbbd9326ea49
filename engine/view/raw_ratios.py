"""A run's measured rates: a comparison before the statistics have judged it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from engine.core.model import Cell, Manifest
from engine.core.record import converted
from engine.journal import outcome
from engine.journal.reader import JournalReader
from engine.journal.rows import StepRow
from engine.journal.totals import ops, rows
from engine.results.cell_step import CellStep
from engine.results.comparison import Answer, ComparedSubject, Comparison, RunBuild, WorkloadSummary

NOT_JUDGED = "Not judged yet: means and every cell, as they were measured."


def finished_cells(run: Path) -> int:
    """Number of finished attempts. Raises UserError if this is not a run."""
    with JournalReader(run) as reader:
        return sum(attempt.state == "finished" for attempt in reader.attempts(origins=False))


def measured(run: Path) -> Comparison | None:
    """A run's finished cells, without ratios; None if there is nothing to compare. Raises UserError if unreadable."""
    with JournalReader(run) as reader:
        manifest = reader.manifest
        attempts = reader.attempts(origins=False)
        whole, chosen = outcome.finished(manifest, attempts), outcome.chosen(manifest, attempts)
        names, first = manifest.names, manifest.baseline
        steps = [
            (cell, step)
            for cell in manifest.cells
            if cell.id in whole
            for step in reader.steps(chosen[cell.id].id)
            if step.totals is not None
        ]
    if first is None or not steps or len(names) < 2:
        return None
    subjects = tuple(
        ComparedSubject(names[subject], **asdict(subject)) for subject in sorted(names, key=lambda one: one != first)
    )
    primaries = {step.name: step.totals.primary_metric for _, step in steps if step.totals is not None}
    workload = converted(manifest.workload, WorkloadSummary, f"{run / 'manifest.json'}: workload")
    return Comparison(
        base=names[first],
        runs=(manifest.run,),
        margin=manifest.margin,
        subjects=subjects,
        steps=tuple(primaries),
        metrics=(),
        cells=tuple(_cell_step(manifest, cell, names[cell.subject], step) for cell, step in steps),
        ratios=(),
        left_out=(),
        findings=(),
        folders={manifest.run: str(run)},
        pairs=len({cell.repeat for cell, _ in steps}),
        kernels=(),
        workload=workload,
        builds=tuple(RunBuild.of(manifest.run, build) for build in manifest.builds),
        spreads=(),
        comparability=(),
        answer=tuple(Answer(subject.name, (NOT_JUDGED,)) for subject in subjects[1:]),
        units={name: primary.unit for name, primary in primaries.items() if primary is not None},
        design=manifest.design,
    )


def _cell_step(manifest: Manifest, cell: Cell, name: str, step: StepRow) -> CellStep:
    assert step.totals is not None
    return CellStep(
        run=manifest.run,
        cell=cell.id,
        ordinal=cell.ordinal,
        subject=name,
        **asdict(cell.subject),
        repeat=cell.repeat,
        step=step.name,
        kind=step.kind,
        group=step.group,
        seconds=step.totals.seconds,
        rows=rows(step.kind, step.totals),
        ops=ops(step.kind, step.totals),
        rate_per_s=step.rate_per_s if step.time_s is None else None,
        time_s=step.time_s,
    )

"""Making a comparison of the cells of one run or several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from engine import origins
from engine.comparison import Comparison, LeftOut, subject_names
from engine.errors import UserError, unknown
from engine.model import Subject
from engine.results import CellResult, RunResult, load, step_order


def compare(paths: Sequence[Path], base: str | None = None) -> Comparison:
    """Compares all finished cells of the runs with those of the base (default: the first run's).

    `base` is a build's label, a config's name, or a subject's name as the comparison prints it. Raises UserError
    when a path is no run, when the runs put on different loads, and when there is no such base.
    """
    from engine import verdicts  # loads scipy, which only those who compare should pay for

    runs = tuple(load(path) for path in dict.fromkeys(path.resolve() for path in paths))
    if not runs:
        raise UserError("no run named: bench compare RUN…; `bench list runs` shows those there are")
    names_of_runs = [run.name for run in runs]
    if len(set(names_of_runs)) < len(runs):
        raise UserError(f"the same run twice ({', '.join(names_of_runs)}): a copy's cells are no further samples")
    origins.check_workloads(runs)
    if origins.by_kernel(runs):
        runs = tuple(_with_kernel(run) for run in runs)
    planned = [cell for run in runs for cell in run.cells]
    subjects = list(dict.fromkeys(cell.cell.subject for cell in planned))
    names = subject_names(subjects)
    first = _base(base or str(runs[0].manifest["base"]), names)
    ordered = {first: names[first], **{subject: name for subject, name in names.items() if subject != first}}
    finished = tuple(cell for cell in planned if cell.state == "finished")
    unjudged = Comparison(
        base=first,
        names=ordered,
        runs=runs,
        steps=step_order(runs),
        cells=finished,
        left_out=tuple(_left_out(cell, names) for cell in planned if cell.state != "finished"),
        ratios=(),
        findings=(),
        margin=float(runs[0].manifest.get("margin", 0.02)),
    )
    return verdicts.complete(unjudged)


def _base(wanted: str, names: dict[Subject, str]) -> Subject:
    def calls(subject: Subject) -> tuple[str, ...]:
        return (names[subject], subject.build, subject.config, f"{subject.build}/{subject.config}", subject.kernel)

    # A full name wins over a label that several subjects share; of those the first planned is meant.
    for place in range(5):
        for subject in names:
            if subject.arm == "" and calls(subject)[place] == wanted:
                return subject
    raise unknown("base", wanted, [name for subject, name in names.items() if subject.arm == ""])


def _left_out(cell: CellResult, names: dict[Subject, str]) -> LeftOut:
    return LeftOut(cell.run, cell.cell.id, names[cell.cell.subject], cell.cell.repeat, cell.state, cell.reason)


def _with_kernel(run: RunResult) -> RunResult:
    release = origins.release_of(run)

    def renamed(cell: CellResult) -> CellResult:
        if cell.cell.subject.kernel != "host":
            return cell
        return replace(cell, cell=replace(cell.cell, subject=replace(cell.cell.subject, kernel=release)))

    return replace(run, cells=tuple(renamed(cell) for cell in run.cells))

"""Compare the cells of one run or several, into an `engine.results.comparison.Comparison`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from engine.analysis.answer.answer_lines import answer
from engine.analysis.causes import cpu_wait, function_section, statement_plans, sweeps, time_parts
from engine.analysis.cells.compared_cells import METRICS, ComparedCells
from engine.analysis.cells.run_results import CellResult, RunResult, load
from engine.analysis.checks import comparability, setting_differences
from engine.core.errors import UserError, unknown
from engine.core.model import Subject, subject_names
from engine.core.record import converted
from engine.features import features
from engine.results.cell_step import CellStep
from engine.results.comparison import (
    ComparedSubject,
    Comparison,
    LeftOutCell,
    MeasuredRuns,
    Remarks,
    RunBuild,
    WorkloadSummary,
)
from engine.results.section import Section


def compare(paths: Sequence[Path], base: str | None = None, level: float | None = None) -> Comparison:
    """Compare all finished cells of the runs with the base's (default: the first run's).

    `base` is a build's label, a config's name, or a subject's name as the comparison prints it. `level` is that of
    verdicts, if this is not the only analysis of these runs. Raises UserError if a path is not a run, if workloads
    differ, or if there is no such base.
    """
    # They load scipy, which only those who compare should pay for.
    from engine.analysis.answer.findings import findings
    from engine.analysis.causes import attribution, function_costs
    from engine.analysis.cells import alpha_spending
    from engine.analysis.ratios import group_verdicts, measured_ratios, verdicts

    cells = compared_cells(paths, base)
    cells = cells if level is None else replace(cells, levels=alpha_spending.alone(level))
    measured = measured_ratios.measured(cells)
    ratios, spreads = verdicts.ratios(cells, measured), verdicts.spreads(cells)
    groups = group_verdicts.groups(cells, measured, ratios)
    units = {
        step.name: judged.unit
        for cell in cells.cells
        for step in cell.steps.values()
        if (judged := step.totals.primary_metric) is not None
    }
    swept, attributions = sweeps.sweeps(cells, ratios, units), attribution.attributions(cells, ratios)
    different = statement_plans.result_differences(cells)
    comparison = Comparison(
        base=cells.names[cells.base],
        margin=cells.margin,
        subjects=tuple(ComparedSubject(name, **asdict(subject)) for subject, name in cells.names.items()),
        steps=cells.steps,
        metrics=METRICS,
        cells=tuple(step for cell in cells.cells for step in _cell_steps(cell, cells.names)),
        ratios=ratios,
        measured=MeasuredRuns(
            folders={run.name: str(run.path) for run in cells.runs},
            kernels=tuple(dict.fromkeys(release for run in cells.runs for release in comparability.releases_of(run))),
            workload=_workload(cells.runs[0]),
            builds=tuple(RunBuild.of(run.name, build) for run in cells.runs for build in run.manifest.builds),
            design=cells.runs[0].manifest.design.words,
            route=cells.runs[0].manifest.route.words,
        ),
        remarks=Remarks(
            findings=(
                *findings(cells, ratios, spreads),
                *cpu_wait.why(cells, attributions),
                *sweeps.findings(swept),
                *statement_plans.planner_differences(cells),
            ),
            left_out=tuple(_left_out(cells)),
            spreads=spreads,
            comparability=tuple(check for subject in cells.others for check in comparability.checks(cells, subject)),
        ),
        answer=statement_plans.after_results(different, answer(cells, ratios, groups)),
        units=units,
    )
    sections = (
        Section("results", "Results that differ", (), findings=tuple(f"? {text}" for text in different)),
        *statement_plans.plan_changes(cells, ratios),
        *sweeps.sections(comparison, swept),
        group_verdicts.section(groups),
        time_parts.section(attributions, cells.steps),
        function_section.section(function_costs.function_costs(cells), cells.steps),
        setting_differences.section(cells, setting_differences.differences(cells)),
        *statement_plans.planning(cells),
        *(section for feature in features() for section in feature.sections(comparison)),
    )
    return replace(comparison, sections=tuple(section for section in sections if section.rows or section.findings))


def compared_cells(paths: Sequence[Path], base: str | None = None) -> ComparedCells:
    """The finished cells of the runs, all of one workload. Raises UserError as `compare` does."""
    from engine.analysis.cells import alpha_spending

    runs = tuple(load(path) for path in dict.fromkeys(path.resolve() for path in paths))
    if not runs:
        raise UserError("no run given: bench compare RUN…; `bench list runs` lists them")
    names_of_runs = [run.name for run in runs]
    if len(set(names_of_runs)) < len(runs):
        raise UserError(f"the same run given twice ({', '.join(names_of_runs)}): copies are not independent samples")
    comparability.check_workloads(runs)
    if len({comparability.release_of(run) for run in runs}) > 1:  # kernels are compared, and all called `host`
        runs = tuple(_with_kernel(run) for run in runs)
    planned = [cell for run in runs for cell in run.cells]
    names = subject_names(list(dict.fromkeys(cell.cell.subject for cell in planned)))
    first = _base(base or runs[0].manifest.design.base, names)
    return ComparedCells(
        runs=runs,
        base=first,
        names={first: names[first]} | names,
        steps=tuple(dict.fromkeys(step for cell in planned for step in cell.steps)),
        cells=tuple(cell for cell in planned if cell.state == "finished"),
        margin=runs[0].manifest.design.margin,
        levels=alpha_spending.levels(runs),
    )


def _base(wanted: str, names: dict[Subject, str]) -> Subject:
    def calls(subject: Subject) -> tuple[str, ...]:
        both = f"{subject.build}/{subject.config}"
        return (names[subject], subject.build, subject.config, both, subject.kernel)

    # A full name wins over a label that several subjects share; among those the first planned is meant.
    for place in range(5):
        for subject in names:
            if subject.control == "" and calls(subject)[place] == wanted:
                return subject
    raise unknown("base", wanted, [name for subject, name in names.items() if subject.control == ""])


def _left_out(cells: ComparedCells) -> Iterable[LeftOutCell]:
    for result in (result for run in cells.runs for result in run.cells if result.state != "finished"):
        name = cells.names[result.cell.subject]
        yield LeftOutCell(result.run, result.cell.id, name, result.cell.repeat, result.state, result.reason)


def _with_kernel(run: RunResult) -> RunResult:
    release = comparability.release_of(run)

    def renamed(cell: CellResult) -> CellResult:
        if cell.cell.subject.kernel != "host":
            return cell
        return replace(cell, cell=replace(cell.cell, subject=replace(cell.cell.subject, kernel=release)))

    return replace(run, cells=tuple(renamed(cell) for cell in run.cells))


def _workload(run: RunResult) -> WorkloadSummary:
    workload = run.manifest.workload
    summary = converted(workload, WorkloadSummary, f"{run.path / 'manifest.json'}: workload")
    return replace(summary, non_default=comparability.of_workload(workload, "non_default", tuple[str, ...]))


def _cell_steps(result: CellResult, names: dict[Subject, str]) -> Iterable[CellStep]:
    cell, subject = result.cell, result.cell.subject
    for step in result.steps.values():
        yield CellStep(
            run=result.run,
            cell=cell.id,
            ordinal=cell.ordinal,
            subject=names[subject],
            **asdict(subject),
            repeat=cell.repeat,
            step=step.name,
            kind=step.kind,
            group=step.group,
            **step.figures | {"probe_notes": tuple(step.figures["probe_notes"])},
            stall_s=step.stall_s,
            stalls=step.stalls,
            slices=len(step.slices),
        )

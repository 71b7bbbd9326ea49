"""Statements of an application on two servers: plans that changed, results that differ, planning times."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import fmean, median

from engine.analysis.causes import plan_change
from engine.analysis.cells.compared_cells import ComparedCells
from engine.analysis.cells.run_results import StepResult
from engine.core.errors import unknown
from engine.core.model import Subject
from engine.results.comparison import Answer
from engine.results.ratio import CHANGED, CPU, PRIMARY_METRICS, TIME, Ratio
from engine.results.section import Column, Figure, Section, columns, row
from engine.results.slice_ratio import ratio_of
from workloads.api.plan_tree import StatementPlan, StatementResult

MOST_NAMED = 5  # settings listed
LEAST_MS, MOST_MS = 1e-6, 1e12  # of planning a statement; other values are not times
OF_COLUMNS = ("statistics target of ", "options of ")  # entries that a server has only where they are not the default


def plan_changes(cells: ComparedCells, ratios: Sequence[Ratio]) -> tuple[Section, ...]:
    """Statements with another plan than the baseline's, those that became slower first."""
    changes = [
        (replace(change, findings=tuple(f"plan changed: {text}{of}" for text in change.findings)), factor)
        for subject in _judged(cells)
        for of in [f" ({cells.names[subject]})" * (len(cells.others) > 1)]
        for step in cells.steps
        for factor in [_factor(ratios, step, cells.names[subject])]
        for statement in _statements(cells, subject, step)
        if (change := changed(cells, subject, step, statement, ratios)) is not None
    ]
    return tuple(change for change, _ in sorted(changes, key=lambda item: -item[1]))


def side_by_side(cells: ComparedCells, statement: str) -> tuple[Section, ...]:
    """A statement's plans, changed or not, for each subject. Raises UserError for an unknown statement."""
    changes = [
        change
        for subject in _judged(cells)
        for step in cells.steps
        if statement in _statements(cells, subject, step)
        if (change := changed(cells, subject, step, statement, (), always=True)) is not None
    ]
    if not changes:
        known = dict.fromkeys(
            name for subject in cells.names for step in cells.steps for name in _statements(cells, subject, step)
        )
        raise unknown("statement with a plan", statement, list(known))
    return tuple(changes)


def changed(
    cells: ComparedCells, subject: Subject, step: str, statement: str, ratios: Sequence[Ratio], *, always: bool = False
) -> Section | None:
    base, other = (
        [plan for result in cells.of(one, step) for plan in result.report.plans if plan.statement == statement]
        for one in (cells.baseline_of(subject), subject)
    )
    if not base or not other:
        return None
    (before, _), (after, count) = _usual(base), _usual(other)
    if before.shape == after.shape and not always:
        return None
    name = cells.names[subject]
    effects = _effects(ratios, step, name) if step == statement else iter(())
    text = plan_change.sentence(statement, before.tree, after.tree, next((words for _, words in effects), ""))
    if before.chosen and after.chosen and before.chosen != after.chosen:
        text += f"; its plan was {before.chosen}, is {after.chosen}"
    if count < len(other):
        text += f"; in {count} of {len(other)} cells"
    if had := sum(plan.shape == after.shape for plan in base):
        text += f"; {cells.names[cells.baseline_of(subject)]} had it in {had} of {len(base)}, too"
    text = text if before.shape != after.shape else f"{statement}: the same plan"
    trees = {cells.names[cells.baseline_of(subject)]: before.tree, name: after.tree}
    return plan_change.section(statement, step, trees, text)


def result_differences(cells: ComparedCells) -> tuple[str, ...]:
    """Caveats to any ratio: statements that fail, or return something else, on one build."""
    sentences: dict[str, None] = {}
    for step in cells.steps:
        for statement in dict.fromkeys(result.statement for _, result in _results(cells, list(cells.names), step)):
            sentences |= dict.fromkeys(_differences(cells, step, statement))
    return tuple(sentences)


def after_results(differences: Sequence[str], answers: Sequence[Answer]) -> tuple[Answer, ...]:
    """The answers, after a line on results that differ: a ratio means little if the work was not the same."""
    names = list(dict.fromkeys(text.partition(" ")[0] for text in differences))
    if not names:
        return tuple(answers)
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    text = f"Not the same results, or none: {', '.join(names[:MOST_NAMED])}{more}."
    return tuple(replace(answer, lines=(text, *answer.lines)) for answer in answers)


def planner_differences(cells: ComparedCells) -> tuple[str, ...]:
    """Settings of the planner and statistics targets that differ between a subject and its baseline."""
    sentences = []
    for subject in _judged(cells):
        base, other = (_planner(cells, side) for side in (cells.baseline_of(subject), subject))
        if not base or not other:
            continue
        differ = [
            f"{name} {base[name] or 'empty'} became {other[name] or 'empty'}"
            for name in sorted(base.keys() & other.keys())
            if base[name] != other[name]
        ]
        differ += [
            f"{name} {base.get(name, 'as default')} became {other.get(name, 'as default')}"
            for name in sorted(base.keys() ^ other.keys())
            if name.startswith(OF_COLUMNS)
        ]
        if differ:
            more = f", and {len(differ) - MOST_NAMED} more" if len(differ) > MOST_NAMED else ""
            names = f"{cells.names[cells.baseline_of(subject)]} to {cells.names[subject]}"
            sentences.append(f"the planner's settings differ from {names}: {', '.join(differ[:MOST_NAMED])}{more}")
    return tuple(sentences)


def planning(cells: ComparedCells) -> Iterator[Section]:
    """Planning times by statement of a run that only plans, those that grew most first: a table for each subject."""
    from engine.analysis.statistics import inference

    for subject in _judged(cells):
        pairs = [
            (times(first.steps[step]), times(second.steps[step]))
            for step in cells.steps
            for first, second in cells.pairs(subject, step)
        ]
        ratios = []
        for name in dict.fromkeys(name for base, other in pairs for name in base if name in other):
            both = [(base[name], other[name]) for base, other in pairs if base.get(name) and other.get(name)]
            if both:
                logs = [math.log(after / before) for before, after in both]
                low, high = (None if bound is None else ratio_of(bound) for bound in inference.mean_interval(logs))
                sign = "" if low is None or high is None else "worse" if low > 1 else "better" if high < 1 else ""
                ratio = Figure(math.exp(fmean(logs)), low, high, sign)
                of_both = (median(values) for values in zip(*both, strict=True))
                ratios.append((fmean(logs), row(name, *of_both, ratio, subject=cells.names[subject])))
        names = (f"{cells.names[side]}\nms" for side in (cells.baseline_of(subject), subject))
        headings = columns("statement", *names, Column("ratio", "ratio", bounds="95%"))
        title = "Planning time by statement (medians of cells; each interval on its own)"
        yield Section("planning", title, headings, tuple(line for _, line in sorted(ratios, key=lambda item: -item[0])))


def times(result: StepResult) -> dict[str, float]:
    return {name: ms for name, ms in result.report.planning.items() if LEAST_MS <= ms <= MOST_MS}


def _results(cells: ComparedCells, subjects: Iterable[Subject], step: str) -> Iterator[tuple[Subject, StatementResult]]:
    for subject in subjects:
        for step_result in cells.of(subject, step):
            yield from ((subject, result) for result in step_result.report.results)


def _differences(cells: ComparedCells, step: str, statement: str) -> Iterator[str]:
    by_subject: dict[Subject, list[StatementResult]] = {}
    for subject, result in _results(cells, list(cells.names), step):
        if result.statement == statement:
            by_subject.setdefault(subject, []).append(result)
    failed = {
        subject: next(result.error for result in results if result.error)
        for subject, results in by_subject.items()
        if any(result.error for result in results)
    }
    if failed and len(failed) == len(by_subject) and len(set(failed.values())) == 1:
        yield f"{statement} fails everywhere: {next(iter(failed.values()))}"
    elif failed:
        yield f"{statement} fails: " + "; ".join(
            f"{cells.names[subject]}: {failed.get(subject, 'no error')}" for subject in by_subject
        )
    for subject in _judged(cells):
        base = cells.baseline_of(subject)
        ours, theirs = (
            {result.values: result for result in by_subject.get(one, []) if not result.error} for one in (subject, base)
        )
        for values in ours.keys() & theirs.keys():
            same = ours[values].executions == theirs[values].executions
            (rows, digest), (base_rows, base_digest) = (_returned(results[values], same) for results in (ours, theirs))
            if rows is None or base_rows is None:
                continue
            if rows != base_rows:
                yield (f"{statement} returns other rows: {base_rows:,} with {cells.names[base]}, "
                       f"{rows:,} with {cells.names[subject]}")  # fmt: skip
            elif digest != base_digest:
                names = f"{cells.names[subject]} and {cells.names[base]}"
                yield f"{statement} returns other values with {names}, in {rows:,} rows each"
        if ours and theirs and ours.keys().isdisjoint(theirs):
            yield f"{statement} was run with other values on {cells.names[subject]}: the query of its rule differs"


def _returned(result: StatementResult, complete: bool) -> tuple[int | None, str]:
    """Rows and digest: of the first execution only where the other build had another number of them."""
    return (result.rows, result.digest) if complete else (result.first_rows, result.first_digest)


def _planner(cells: ComparedCells, subject: Subject) -> dict[str, str]:
    for step in cells.steps:
        for result in cells.of(subject, step):
            if result.report.planner:
                return result.report.planner
    return {}


def _judged(cells: ComparedCells) -> list[Subject]:
    return [subject for subject in cells.others if not subject.control]


def _statements(cells: ComparedCells, subject: Subject, step: str) -> list[str]:
    return list(dict.fromkeys(plan.statement for result in cells.of(subject, step) for plan in result.report.plans))


def _usual(plans: Sequence[StatementPlan]) -> tuple[StatementPlan, int]:
    """The plan that most cells had, and how many."""
    ((shape, count),) = Counter(plan.shape for plan in plans).most_common(1)
    return next(plan for plan in plans if plan.shape == shape), count


def _factor(ratios: Sequence[Ratio], step: str, subject: str) -> float:
    """Factor by which a step takes longer or, failing that, uses more server CPU, if it is known to differ; else 1."""
    return next((factor for factor, _ in _effects(ratios, step, subject)), 1.0)


def _effects(ratios: Sequence[Ratio], step: str, subject: str) -> Iterator[tuple[float, str]]:
    """The certain effects in words, the primary metric's first."""
    certain = [ratio for ratio in ratios if (ratio.step, ratio.subject) == (step, subject) and ratio.verdict in CHANGED]
    for ratio in certain:
        if ratio.ratio and ratio.metric in PRIMARY_METRICS:
            factor = ratio.ratio if ratio.metric == TIME else 1 / ratio.ratio
            yield factor, plan_change.times(factor)
    for ratio in certain:
        if ratio.ratio and ratio.metric == CPU:
            yield ratio.ratio, f"{plan_change.multiple(ratio.ratio)} the server CPU"

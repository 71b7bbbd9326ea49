"""Sentences about a comparison that its reader must know and its tables do not show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from engine.analysis.cells import pooling
from engine.analysis.cells.compared_cells import ComparedCells
from engine.analysis.checks import external_servers, layouts
from engine.analysis.ratios import slice_verdicts
from engine.core import missing_steps
from engine.core.model import Subject
from engine.host.drift import SLOW_CLOCKS, value
from engine.results.comparison import Spread
from engine.results.ratio import CHANGED, PRIMARY_METRICS, Ratio


def findings(cells: ComparedCells, judged: Sequence[Ratio], spread: Sequence[Spread]) -> tuple[str, ...]:
    sentences = [f"drift at {cell.cell.id}: {sentence}" for cell in cells.cells for sentence in cell.drift]
    sentences += _unknown(cells)
    sentences += _clocks(cells)
    sentences += [
        text for run in cells.runs for text in missing_steps.sentences(missing_steps.recorded(run.manifest.workload))
    ]
    rates = {(item.step, item.subject): item for item in spread if item.metric in PRIMARY_METRICS}
    for step in cells.steps:
        for subject, name in cells.names.items():
            of_rate = rates.get((step, name))
            if of_rate is not None and of_rate.bimodal:
                sentences.append(f"{step}: the cells of {name} are bimodal, {of_rate.gap:.0%} apart")
            elif of_rate is not None and of_rate.wide:
                sentences.append(f"{step}: the cells of {name} vary by {of_rate.cv:.0%} (CV)")
            sentences += _short_deletes(cells, step, subject)
    sentences += pooling.findings(cells, judged)
    sentences += external_servers.findings(cells)
    sentences += slice_verdicts.findings(cells)
    sentences += layouts.findings(cells, judged)
    sentences += _left_alone(cells)
    if len(cells.levels.analyses) > 1:
        sentences.append(
            f"verdicts are at {cells.levels.differs():.1%}, because these pairs may be analysed more than once: all "
            "analyses together report equal servers as different in at most 5% of comparisons"
        )
    sentences += [
        f"{ratio.step}: the base against itself differs by {ratio.ratio - 1:+.1%} in {ratio.metric}; "
        "do not trust effects of that size in this step"
        for ratio in judged
        if ratio.control == "aa" and ratio.verdict in CHANGED and ratio.ratio is not None
    ]
    return tuple(dict.fromkeys(sentences))


def _unknown(cells: ComparedCells) -> Iterable[str]:
    texts: dict[str, dict[str, None]] = {}  # by build: its cells may be under several configs
    for cell in cells.cells:
        texts.setdefault(cell.cell.subject.build, {}).update(dict.fromkeys(cell.unknown))
    return (
        f"{build} has what pgbed does not know: {'; '.join(unknown)}" for build, unknown in texts.items() if unknown
    )


def _clocks(cells: ComparedCells) -> Iterable[str]:
    """Timing costs less by a fast clock; the timed work then differs by that, too."""
    sources = [value(run.manifest.environment, "kernel", "clock_source") for run in cells.runs]
    for source in dict.fromkeys(source for source in sources if source in SLOW_CLOCKS):
        yield (
            f"the machine's clock is {source}: reading it takes a microsecond or more, and clients do so for each "
            "statement, so short statements take longer, and differ less, than by a fast clock"
        )
    known = ((cell.cell.subject, cell.settings.values) for cell in cells.cells)
    clocks = {cells.names[subject]: clock_of(settings) for subject, settings in known if settings}
    if len(set(clocks.values())) > 1:
        listed = ", ".join(f"{name} {clock}" for name, clock in clocks.items())
        yield f"servers time with different clocks ({listed}): track_io_timing and EXPLAIN ANALYZE cost unlike CPU time"


def clock_of(settings: Mapping[str, str]) -> str:
    """The clock that a server times with: `tsc` of `auto (tsc)` from 19 on, the system's before."""
    value = settings.get("timing_clock_source", "system")
    return value.partition("(")[2].rstrip(")") or value


def _left_alone(cells: ComparedCells) -> Iterable[str]:
    """Steps that have fewer pairs than others, because more would not have changed their verdicts."""
    for run in (run for run in cells.runs if run.manifest.design.adaptive):
        ours = [cell for cell in run.cells if cell.state == "finished" and cell.cell.subject == cells.base]
        counts = {step: sum(step in cell.steps for cell in ours) for step in cells.steps}
        if fewer := [f"{step} ({count} of {len(ours)})" for step, count in counts.items() if 0 < count < len(ours)]:
            yield f"left out of further pairs, since decided or withheld for good: {', '.join(fewer)}"


def _short_deletes(cells: ComparedCells, step: str, subject: Subject) -> list[str]:
    deletes = [role for result in cells.of(subject, step) for role in result.totals.of_kind("delete")]
    short, deleted = sum(role.short_deletes for role in deletes), sum(role.statements for role in deletes)
    if not short:
        return []
    name = cells.names[subject]
    return [f"{step}: {short:,} of {deleted:,} deletes with {name} deleted a different number of rows than requested"]

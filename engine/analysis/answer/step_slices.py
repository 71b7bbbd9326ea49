"""One interleaved step, block by block, as `bench compare --slices STEP` has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import NamedTuple

from engine.analysis.answer.compare import compared_cells
from engine.analysis.cells import repetitions
from engine.analysis.cells.compared_cells import ComparedCells, Pair
from engine.analysis.cells.run_results import CellResult
from engine.analysis.checks.comparability import left_out, steady
from engine.analysis.checks.foreign_load import MachineInterval, machine, mean
from engine.analysis.ratios import slice_verdicts
from engine.analysis.ratios.slice_verdicts import Block, spill_over_share
from engine.analysis.statistics.interference import StepRatios
from engine.analysis.statistics.slice_estimates import SelfCheck, within_pair
from engine.core.errors import UserError, unknown
from engine.core.model import Subject
from engine.journal.reader import JournalReader
from engine.journal.rows import SliceRow
from engine.results.ratio import RATE, TIME
from engine.results.slice_ratio import LogRatio, ratio_of
from engine.results.sliced_step import (
    MachineSecond,
    SlicedAdjustment,
    SlicedBlock,
    SlicedCheck,
    SlicedPair,
    SlicedSide,
    SlicedStep,
)
from workloads.base import COUNTED_IN_ROWS


def sliced_step(paths: Sequence[Path], step: str, base: str | None = None) -> SlicedStep:
    """Read a step's slices in all pairs. Raises UserError as `compare` does, and if it was not interleaved."""
    cells = compared_cells(paths, base)
    known = [name for name in cells.steps if any(cell.steps[name].slices for cell in cells.cells if name in cell.steps)]
    if not known:
        where = " and ".join(run.name for run in cells.runs)
        raise UserError(f"{where}: no finished step was interleaved; --interleave slices makes such runs")
    if step not in cells.steps:
        raise unknown("step", step, cells.steps)
    if step not in known:
        raise UserError(f"{step} was not interleaved; steps that were: {', '.join(known)}")
    checks = {
        subject: slice_verdicts.self_check(slice_verdicts.steps_of(cells, subject), RATE) for subject in cells.others
    }
    adjusted = {subject: _ratios(cells, subject, step) for subject in cells.others}
    results = [result for subject in cells.names for result in cells.of(subject, step)]
    judged = results[0].totals.primary_metric
    in_rows = judged is not None and judged.role in COUNTED_IN_ROWS
    return SlicedStep(
        step=step,
        unit=judged.unit if judged is not None else "ops/s",
        design=cells.runs[0].manifest.design,
        base=cells.names[cells.base],
        checks=tuple(
            SlicedCheck(cells.names[subject], check.f, check.ratios, check.suspect) for subject, check in checks.items()
        ),
        pairs=tuple(
            _pair(cells, subject, pair, step, checks[subject], adjusted[subject].get(_key(pair)), why, in_rows=in_rows)
            for subject in cells.others
            for every in [cells.pairs(subject, step)]
            for pair, why in zip(every, left_out(every, step), strict=True)
            if slice_verdicts.whole_blocks(pair, step)
        ),
        adjustments=tuple(
            SlicedAdjustment(cells.names[subject], *adjustment)
            for subject, found in adjusted.items()
            for adjustment in dict.fromkeys((each.by, each.left_out) for each in found.values())
        ),
        meters=tuple(dict.fromkeys(text for cell in cells.cells for text in _meters(cells, cell, step))),
    )


class _PairRatio(NamedTuple):
    """A pair's ratio as verdicts rest on it, and without adjustment."""

    ratio: LogRatio
    plain: LogRatio
    by: tuple[str, ...]
    left_out: tuple[str, ...]


def _metric(pair: Pair, step: str) -> str:
    judged = pair[0].steps[step].totals.primary_metric
    return TIME if judged is not None and judged.by == "time" else RATE


def _key(pair: Pair) -> tuple[str, int]:
    return pair[0].run, pair[0].cell.repeat


def _ratios(cells: ComparedCells, subject: Subject, step: str) -> dict[tuple[str, int], _PairRatio]:
    """The ratios of a subject's pairs: those that count adjusted together, others alone."""
    known = [pair for pair in cells.pairs(subject, step) if slice_verdicts.whole_blocks(pair, step)]
    counted = steady(known, step)
    metric = _metric(known[0], step) if known else RATE
    ratios = slice_verdicts.step_ratios(counted, step, metric) if counted else None
    groups: list[tuple[list[Pair], StepRatios | None]] = [(counted, ratios)] if ratios is not None else []
    rest = [pair for pair in known if ratios is None or pair not in counted]
    groups += [([pair], slice_verdicts.step_ratios([pair], step, metric)) for pair in rest]
    return {
        _key(pair): _PairRatio(ratio, plain, found.by, found.left_out)
        for pairs, found in groups
        if found is not None
        for pair, ratio, plain in zip(pairs, found.ratios, found.plain, strict=True)
    }


def _meters(cells: ComparedCells, cell: CellResult, step: str) -> list[str]:
    """How stolen time was measured in a cell's step, in words; it is recorded with one cell of each repeat."""
    if step not in cell.steps:
        return []
    with JournalReader(cells.run_of(cell).path) as reader:
        return [str(event.data.get("text", "")) for event in reader.events(cell.steps[step].id, kinds=("meter",))]


def _pair(
    cells: ComparedCells,
    subject: Subject,
    pair: Pair,
    step: str,
    check: SelfCheck,
    found: _PairRatio | None,
    why: str,
    *,
    in_rows: bool,
) -> SlicedPair:
    base, other = pair
    run = cells.run_of(base)
    interleaved = [
        cell
        for cell in cells.cells
        if (cell.run, cell.cell.repeat) == (base.run, base.cell.repeat) and step in cell.steps
    ]
    with JournalReader(run.path) as reader:
        ids = [cell.steps[step].id for cell in interleaved]
        started_ns = min(reader.step(id).started_ns for id in ids)
        seconds = machine(reader, base.steps[step].id, ids)
    bounds = within_pair(found.ratio, check.inflation) if found else None
    plain = within_pair(found.plain, check.inflation) if found else None
    timed = all(repetitions.times_s(cell.steps[step]) for cell in pair)
    typical = slice_verdicts.typical(pair, step, RATE)
    threads = (run.manifest.environment.get("cpu") or {}).get("threads")
    return SlicedPair(
        run=base.run,
        repeat=base.cell.repeat,
        subject=cells.names[subject],
        base=cells.names[cells.baseline_of(subject)],
        base_cell=base.cell.id,
        other_cell=other.cell.id,
        ratio=ratio_of(found.ratio.theta) if found else None,
        low=bounds[0] if bounds else None,
        high=bounds[1] if bounds else None,
        typical=ratio_of(typical.log_ratio) if typical else None,
        base_spill_over_share=spill_over_share(base.steps[step].slices),
        other_spill_over_share=spill_over_share(other.steps[step].slices),
        left_out=why,
        cpus=threads if isinstance(threads, int) else None,
        blocks=_blocks(
            slice_verdicts.whole_blocks(pair, step),
            _orders(pair, interleaved, step),
            started_ns,
            seconds,
            in_rows=in_rows,
            timed=timed,
        ),
        machine=tuple(
            MachineSecond(
                (each.from_ns - started_ns) / 1e9,
                (each.until_ns - each.from_ns) / 1e9,
                each.busy,
                each.others,
                each.stolen,
            )
            for each in seconds
        ),
        unadjusted=ratio_of(found.plain.theta) if found else None,
        unadjusted_low=plain[0] if plain else None,
        unadjusted_high=plain[1] if plain else None,
        base_over=_side(base.steps[step].slices, in_rows, timed),
        other_over=_side(other.steps[step].slices, in_rows, timed),
    )


def _blocks(
    whole: Sequence[Block],
    order: Callable[[int], str],
    started_ns: int,
    seconds: Sequence[MachineInterval],
    *,
    in_rows: bool,
    timed: bool,
) -> tuple[SlicedBlock, ...]:
    """`timed`: statements last longer than blocks, which have no rate then."""
    found: list[SlicedBlock] = []
    done = [[0, 0], [0, 0]]  # so far, by side: ops in the unit of the step, counted ns
    for number, base, other in whole:
        for total, rows in zip(done, (base, other), strict=True):
            total[0] += _done(rows, in_rows)
            total[1] += sum(row.counted_ns for row in rows)
        from_ns = min(row.opened_ns for row in (*base, *other))
        until_ns = max(row.counted_from_ns + row.counted_ns for row in (*base, *other))
        others = mean(seconds, from_ns, until_ns)
        found.append(
            SlicedBlock(
                block=number,
                at_s=(from_ns - started_ns) / 1e9,
                length_s=(until_ns - from_ns) / 1e9,
                order=order(number),
                base=_side(base, in_rows, timed),
                other=_side(other, in_rows, timed),
                ratio=_ratio(_rate(base, in_rows), _rate(other, in_rows)),
                running=_ratio(*(ops * 1e9 / counted_ns if counted_ns else None for ops, counted_ns in done)),
                others_cpus=others[0] if others else None,
                stolen_cpus=others[1] if others else None,
            )
        )
    return tuple(found)


def _orders(pair: Pair, interleaved: Sequence[CellResult], step: str) -> Callable[[int], str]:
    """The order of turns in a block: A for the baseline's, B for the other's, further letters for further servers."""
    sides = [*pair, *(cell for cell in interleaved if cell not in pair)]
    turns: dict[int, list[tuple[int, str]]] = {}
    for letter, cell in zip(ascii_uppercase, sides, strict=False):
        for row in cell.steps[step].slices:
            turns.setdefault(row.block, []).append((row.place, letter))
    return lambda block: "".join(letter for _, letter in sorted(turns[block]))


def _side(rows: Sequence[SliceRow], in_rows: bool, timed: bool) -> SlicedSide:
    """Slices count CPU by statements: each statement gets its average rows in the counted parts."""
    statements, cpu_statements = sum(row.ops for row in rows), sum(row.cpu_ops for row in rows)
    per_statement = (_done(rows, in_rows) / statements if statements else 0.0) if in_rows else 1.0
    cpu_ops = cpu_statements * per_statement
    return SlicedSide(
        rate_per_s=None if timed else _rate(rows, in_rows),
        server_cpu_us_per_op=sum(row.cpu_ns for row in rows) / 1000 / cpu_ops if cpu_ops else None,
        runq_us_per_op=sum(row.runq_ns for row in rows) / 1000 / cpu_ops if cpu_ops else None,
        spill_over_share=spill_over_share(rows),
        stolen_share=_stolen_share(rows),
        others_tasks=_others_tasks(rows),
    )


def _stolen_share(rows: Sequence[SliceRow]) -> float | None:
    known = [(row.stolen_ns, row.counted_ns) for row in rows if row.stolen_ns is not None]
    counted_ns = sum(counted for _, counted in known)
    return sum(stolen for stolen, _ in known) / counted_ns if len(known) == len(rows) and counted_ns else None


def _others_tasks(rows: Sequence[SliceRow]) -> float | None:
    """They were counted twice for each slice."""
    known = [row.runnable for row in rows if row.runnable is not None]
    return sum(known) / (2 * len(known)) if known else None


def _done(rows: Sequence[SliceRow], in_rows: bool) -> int:
    """What was counted, in the unit of the primary metric: a slice's `ops` are statements."""
    return sum(row.rows if in_rows else row.ops for row in rows)


def _rate(rows: Sequence[SliceRow], in_rows: bool) -> float | None:
    counted_ns = sum(row.counted_ns for row in rows)
    return _done(rows, in_rows) * 1e9 / counted_ns if counted_ns else None


def _ratio(base: float | None, other: float | None) -> float | None:
    return other / base if base and other is not None else None

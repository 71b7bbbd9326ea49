"""One interleaved step, block by block, as `bench compare --slices STEP` has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from string import ascii_uppercase

from engine.analysis.answer.compare import compared_cells
from engine.analysis.cells import repetitions
from engine.analysis.cells.compared_cells import ComparedCells, Pair
from engine.analysis.cells.run_results import CellResult
from engine.analysis.checks.comparability import left_out
from engine.analysis.checks.foreign_load import MachineInterval, machine, mean
from engine.analysis.ratios import slice_verdicts
from engine.analysis.ratios.slice_verdicts import Block, spill_over_share
from engine.analysis.statistics.slice_estimates import SelfCheck, within_pair
from engine.core.errors import UserError, unknown
from engine.core.model import Subject
from engine.journal.reader import JournalReader
from engine.journal.rows import SliceRow
from engine.results.ratio import RATE, TIME
from engine.results.slice_ratio import ratio_of
from engine.results.sliced_step import MachineSecond, SlicedBlock, SlicedCheck, SlicedPair, SlicedSide, SlicedStep
from workloads.api.base import COUNTED_IN_ROWS


def sliced_step(paths: Sequence[Path], step: str, base: str | None = None) -> SlicedStep:
    """Read a step's slices in all pairs. Raises UserError as `compare` does, and if it was not interleaved."""
    return slices_of(compared_cells(paths, base), step)


def slices_of(cells: ComparedCells, step: str) -> SlicedStep:
    """The same for cells that have been read. Raises UserError if the step was not interleaved."""
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
    results = [result for subject in cells.names for result in cells.of(subject, step)]
    judged = results[0].totals.primary_metric
    in_rows = judged is not None and judged.role in COUNTED_IN_ROWS
    return SlicedStep(
        step=step,
        unit=judged.unit if judged is not None else "ops/s",
        design=cells.runs[0].manifest.design.words,
        base=cells.names[cells.base],
        checks=tuple(
            SlicedCheck(cells.names[subject], check.f, check.ratios, check.suspect) for subject, check in checks.items()
        ),
        pairs=tuple(
            _pair(cells, subject, pair, step, checks[subject], why, in_rows=in_rows)
            for subject in cells.others
            for every in [cells.pairs(subject, step)]
            for pair, why in zip(every, left_out(every, step), strict=True)
            if slice_verdicts.whole_blocks(pair, step)
        ),
    )


def _metric(pair: Pair, step: str) -> str:
    judged = pair[0].steps[step].totals.primary_metric
    return TIME if judged is not None and judged.by == "time" else RATE


def _pair(
    cells: ComparedCells, subject: Subject, pair: Pair, step: str, check: SelfCheck, why: str, *, in_rows: bool
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
    ratio = slice_verdicts.log_ratio(pair, step, _metric(pair, step))
    bounds = within_pair(ratio, check.inflation) if ratio else None
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
        ratio=ratio_of(ratio.theta) if ratio else None,
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
                (rate.from_ns - started_ns) / 1e9,
                (rate.until_ns - rate.from_ns) / 1e9,
                rate.busy,
                rate.others,
                rate.stolen,
            )
            for rate in seconds
        ),
    )


def _blocks(
    all_blocks: Sequence[Block],
    order: Callable[[int], str],
    started_ns: int,
    seconds: Sequence[MachineInterval],
    *,
    in_rows: bool,
    timed: bool,
) -> tuple[SlicedBlock, ...]:
    """`timed`: statements last longer than blocks, which have no rate then."""
    blocks: list[SlicedBlock] = []
    done = [[0, 0], [0, 0]]  # so far, by side: ops in the unit of the step, counted ns
    for number, base, other in all_blocks:
        for total, rows in zip(done, (base, other), strict=True):
            total[0] += _done(rows, in_rows)
            total[1] += sum(row.counted_ns for row in rows)
        from_ns = min(row.opened_ns for row in (*base, *other))
        until_ns = max(row.counted_from_ns + row.counted_ns for row in (*base, *other))
        others = mean(seconds, from_ns, until_ns)
        blocks.append(
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
    return tuple(blocks)


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
    )


def _done(rows: Sequence[SliceRow], in_rows: bool) -> int:
    """The amount of work in the unit of the primary metric: a slice's `ops` are statements."""
    return sum(row.rows if in_rows else row.ops for row in rows)


def _rate(rows: Sequence[SliceRow], in_rows: bool) -> float | None:
    counted_ns = sum(row.counted_ns for row in rows)
    return _done(rows, in_rows) * 1e9 / counted_ns if counted_ns else None


def _ratio(base: float | None, other: float | None) -> float | None:
    return other / base if base and other is not None else None

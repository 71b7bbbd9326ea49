"""Evidence from slices of interleaved cells: ratios within each pair, and whether the slices can be trusted.

`analysis.statistics.slice_estimates` has the formulas; this module feeds them the journal's rows, by pairs of cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from operator import attrgetter
from statistics import NormalDist, fmean

import numpy as np

from engine.analysis.cells import repetitions
from engine.analysis.cells.compared_cells import ComparedCells, Pair
from engine.analysis.checks.comparability import steady
from engine.analysis.statistics import slice_estimates
from engine.analysis.statistics.inference import ALPHA
from engine.analysis.statistics.slice_estimates import Floats, SelfCheck, Slices, Typical
from engine.core.model import Subject
from engine.journal.rows import SliceRow
from engine.results.ratio import CPU, PRIMARY_METRICS, RATE
from engine.results.slice_ratio import MIN_BLOCKS, TURNS, LogRatio, ratio_of

# Metric: numerator, denominator. Slices count statements: right for ratios, not for figures of steps that count rows.
PARTS = {RATE: ("ops", "counted_ns"), CPU: ("cpu_ns", "cpu_ops")}
MOST_SPILL_OVER = 0.05  # share of a server's CPU time used in others' slices or steps
MOST_IMBALANCE = 0.2  # share of slices in which some of a server's clients had no work left and others had
STRAYED = "slices of one server differ among themselves"
LEAST_CHECKS = 10  # ratios whose truth is 1: a few differ by chance
MOST_EARLY = 0.02  # by how much statements may be slower at the beginning of a slice's counted part
LEAST_GAP = 0.001  # of logs: a smaller difference is the same figure to a reader

# Time and statements of a slice's counted part: its beginning, and the rest.
EARLY: tuple[Callable[[SliceRow], int], ...] = (attrgetter("early_ns"), attrgetter("early_ops"))
LATE: tuple[Callable[[SliceRow], int], ...] = (
    lambda row: row.counted_ns - row.early_ns,
    lambda row: row.ops - row.early_ops,
)

Block = tuple[int, list[SliceRow], list[SliceRow]]  # its number, the slices of the baseline and of the other


def log_ratio(pair: Pair, step: str, metric: str) -> LogRatio | None:
    """The log ratio of an interleaved pair; None if it was not interleaved, or a server did nothing in its slices."""
    if (ratio := _of_times(pair, step, metric)) is not None:
        return ratio
    if (sides := sides_of(pair, step, metric)) is None:
        return None
    return replace(slice_estimates.log_ratio(*sides), seconds=pair[0].steps[step].planned_s)


def log_ratios(pairs: Sequence[Pair], step: str, metric: str) -> list[LogRatio]:
    """The log ratio of each pair that may be pooled; empty if one of them has none."""
    ratios = [log_ratio(pair, step, metric) for pair in alike(pairs, step)[0]]
    known = [ratio for ratio in ratios if ratio is not None]
    return known if len(known) == len(ratios) else []


def _of_times(pair: Pair, step: str, metric: str) -> LogRatio | None:
    """The log ratio of statements that were timed whole, as they last longer than slices; None without such."""
    times = [repetitions.times_s(cell.steps[step]) for cell in pair]
    if metric not in PRIMARY_METRICS or not all(times):
        return None
    return repetitions.log_ratio(*(times if metric == RATE else times[::-1]))


def typical(pair: Pair, step: str, metric: str) -> Typical | None:
    """The typical values of a pair's blocks; None if it has too few, or did nothing in them."""
    sides = sides_of(pair, step, metric)
    return None if sides is None else slice_estimates.typical(*sides)


def own_ratios(pairs: Sequence[Pair], step: str, metric: str) -> list[LogRatio]:
    """Ratios whose truth is 1: of each server of each pair to itself."""
    known = [sides for pair in pairs if (sides := sides_of(pair, step, metric)) is not None]
    side_ratio = (slice_estimates.own_ratio(side) for sides in known for side in sides)
    return [ratio for ratio in side_ratio if ratio is not None]


def self_check(steps: Iterable[tuple[Sequence[Pair], str]], metric: str) -> SelfCheck:
    return slice_estimates.self_check([ratio for pairs, step in steps for ratio in own_ratios(pairs, step, metric)])


def steps_of(cells: ComparedCells, subject: Subject) -> list[tuple[list[Pair], str]]:
    """The interleaved steps of a subject, with the pairs between whose cells the machine did not change."""
    steps = []
    for step in cells.steps:
        sliced = [pair for pair in cells.pairs(subject, step) if all(cell.steps[step].slices for cell in pair)]
        if pairs := steady(sliced, step):
            steps.append((pairs, step))
    return steps


def alike(pairs: Sequence[Pair], step: str) -> tuple[list[Pair], list[Pair]]:
    """The pairs that may be pooled, and the others: those without slices, if others were interleaved."""
    by_slices: dict[bool, list[Pair]] = {True: [], False: []}
    for pair in pairs:
        timed = all(repetitions.times_s(cell.steps[step]) for cell in pair)
        by_slices[timed or bool(whole_blocks(pair, step))].append(pair)
    return (by_slices[True], by_slices[False]) if by_slices[True] else (by_slices[False], [])


def reasons(pair: Pair, step: str) -> list[str]:
    """The reason why a step of a pair bears no verdict: its slices or, without any, other servers' work meanwhile."""
    counts = [len(cell.steps[step].slices) for cell in pair]
    if not any(counts):
        return _spilled_over(pair, step)
    if not all(counts):
        return [f"pair {pair[0].cell.repeat}: only one of its servers was interleaved"]
    rows = [cell.steps[step].slices for cell in pair]
    spill_over = max(spill_over_share(totals) or 0.0 for totals in rows)
    # Only the mean of the clients' parts is known: with evenly spread ends, the last came half the imbalance later.
    imbalance = max(
        _part(sum(row.imbalance_ns for row in totals), sum(row.counted_ns + row.imbalance_ns / 2 for row in totals))
        for totals in rows
    )
    texts = []
    if spill_over > MOST_SPILL_OVER:
        texts.append(
            f"a server used {spill_over:.0%} of its CPU time in the other's slices ({_tolerated(MOST_SPILL_OVER)})"
        )
    if imbalance > MOST_IMBALANCE:
        texts.append(
            f"in {imbalance:.0%} of a server's slices some clients waited for the rest ({_tolerated(MOST_IMBALANCE)})"
        )
    return [f"pair {pair[0].cell.repeat}: {reason}" for reason in texts]


def _spilled_over(pair: Pair, step: str) -> list[str]:
    share = max(cell.steps[step].figures["spill_over_share"] or 0.0 for cell in pair)
    if share <= MOST_SPILL_OVER:
        return []
    return [
        f"pair {pair[0].cell.repeat}: other servers used {share:.0%} as much CPU time as the one whose step it was "
        f"({_tolerated(MOST_SPILL_OVER)})"
    ]


def _part(part: float, total: float) -> float:
    return part / total if total else 0.0


def _tolerated(most: float) -> str:
    return f"at most {most:.0%} is tolerated"


def findings(cells: ComparedCells) -> list[str]:
    """Remarks on the slices: where rare events make a ratio, and where errors are larger than promised."""
    sentences = []
    slow: dict[str, float] = {}  # by step, for the subject that shows most of it
    plain: dict[str, None] = {}  # steps whose pairs are too short for an error of their own
    subjects = {subject: steps_of(cells, subject) for subject in cells.others}
    tests = sum(len(steps) for steps in subjects.values())
    for subject, steps in subjects.items():
        name = cells.names[subject]
        check = self_check(steps, RATE)
        if check.suspect and check.ratios >= LEAST_CHECKS:
            sentences.append(
                f"{STRAYED} by {check.f:.1f} times their error: the intervals of {name} are widened by that"
            )
        ratios_of = {step: ratios for pairs, step in steps if (ratios := log_ratios(pairs, step, RATE))}
        plain |= dict.fromkeys(
            step
            for pairs, step in steps
            if step in ratios_of
            and all(ratio.variance is None for ratio in ratios_of[step])
            and not any(_of_times(pair, step, RATE) for pair in pairs)
        )
        for pairs, step in steps:
            if (longer := _slow_beginnings(pairs, step, ALPHA / tests)) is not None:
                slow[step] = max(longer, slow.get(step, 0.0))
            typicals = [value for pair in pairs if (value := typical(pair, step, RATE)) is not None]
            if len(typicals) < len(pairs) or step not in ratios_of:
                continue
            middle = slice_estimates.typical_of(typicals)
            if abs(middle.gap) >= LEAST_GAP and middle.has_rare_events(ALPHA / tests, check.inflation):
                total = fmean(ratio.theta for ratio in ratios_of[step])
                sentences.append(
                    f"{step}: rare events make a part of the ratio: {name} is at {ratio_of(total) - 1:+.1%} in all, at "
                    f"{ratio_of(middle.log_ratio) - 1:+.1%} in a typical block"
                )
    if plain:
        by_step = ", ".join(step for step in cells.steps if step in plain)
        sentences.append(
            f"intervals by the scatter of pairs alone, which have fewer than {MIN_BLOCKS} blocks: {by_step}"
        )
    if slow:
        by_step = ", ".join(f"{step} {slow[step]:.1%}" for step in cells.steps if step in slow)
        sentences.append(
            f"statements took longer in the first 10 ms that slices count than later on: {by_step}; "
            "longer slices (--slice-ms) would show less of it"
        )
    return sentences


def _slow_beginnings(pairs: Sequence[Pair], step: str, level: float) -> float | None:
    """Factor by which statements were slower just after the warm-up of slices; None if that was long enough."""
    ratios = []
    for side in (side for pair in pairs for side in _beginnings(pair, step)):
        with suppress(ValueError):  # too little was done
            ratios.append(slice_estimates.log_ratio(*side))
    errors = [ratio.variance for ratio in ratios]
    if not ratios or None in errors:
        return None
    mean = fmean(ratio.theta for ratio in ratios)
    error = math.sqrt(sum(filter(None, errors))) / len(ratios)
    if mean <= math.log1p(MOST_EARLY) or mean <= NormalDist().inv_cdf(1 - level) * error:
        return None
    return ratio_of(mean) - 1


def _beginnings(pair: Pair, step: str) -> Iterator[tuple[Slices, Slices]]:
    """Each server's time per statement later in its slices, and in their beginnings, if known."""
    blocks = whole_blocks(pair, step)
    for side in ([base for _, base, _ in blocks], [other for _, _, other in blocks]):
        rows = [block for block in side if all(0 < row.early_ns < row.counted_ns for row in block)]
        if not rows:
            continue
        late, early = (
            Slices(*(np.array([[part(row) for row in block] for block in rows]) for part in parts))
            for parts in (LATE, EARLY)
        )
        yield late, early


def spill_over_share(rows: Iterable[SliceRow]) -> float | None:
    """CPU time a server used in others' slices, as a share of that in its own; None if that is 0."""
    rows = list(rows)
    own_ns = sum(row.cpu_ns for row in rows)
    return sum(row.spill_over_ns for row in rows) / own_ns if own_ns else None


def whole_blocks(pair: Pair, step: str) -> list[Block]:
    """The blocks in which each side had both its turns, in order."""
    base, other = (_by_block(cell.steps[step].slices) for cell in pair)
    return [
        (block, rows, other[block])
        for block, rows in sorted(base.items())
        if len(rows) == TURNS and len(other.get(block, ())) == TURNS
    ]


def sides_of(pair: Pair, step: str, metric: str) -> tuple[Slices, Slices] | None:
    """Both sides' slices in whole blocks, with work done on either side; None without any."""
    if metric not in PARTS or not (blocks := whole_blocks(pair, step)):
        return None
    base, other = (
        Slices(*(_values(side, part) for part in PARTS[metric]))
        for side in ([base for _, base, _ in blocks], [other for _, _, other in blocks])
    )
    if not all(part.sum() > 0 for side in (base, other) for part in (side.numerators, side.denominators)):
        return None
    return base, other


def _values(side: Sequence[Sequence[SliceRow]], part: str) -> Floats:
    """A figure of each slice, (blocks, 2)."""
    return np.array([[getattr(row, part) for row in rows] for rows in side], dtype=float)


def _by_block(rows: Sequence[SliceRow]) -> dict[int, list[SliceRow]]:
    rows_by_block: dict[int, list[SliceRow]] = {}
    for row in rows:
        rows_by_block.setdefault(row.block, []).append(row)
    return rows_by_block

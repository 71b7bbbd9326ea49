"""Functions whose own CPU time per operation differs between two servers by more than chance.

While the probe `stacks` is on, the function that runs in a server's processes is sampled at a fixed rate (`leaf_hz`):
x samples of a function in the time of m operations are x / m samples per operation, of 1e6 / hz us each. Both sides
are sampled by the same timers on the same CPUs, so their cost is the same. The change of a function is

    d = sum x' / sum m' - sum x / sum m,

over all pairs of cells. Interleaved cells are up at the same time: frames of the probe fall into windows of two
seconds, and the share of a window in d,

    e = (x' - R' m') / sum m' - (x - R m) / sum m    with the rates R of the whole,

has the machine's disturbances of both sides in it, which cancel. The variance of d within pairs is the sum of squares
of e about its pair's mean, with neighbouring windows (Newey and West 1987, one lag), and never less than that of counts
by chance alone. Cells that were not interleaved are one window each, with the latter.

A pair's sum of e tells what fresh clusters add. That is a factor for all functions alike, such as that of memory, whose
variance is estimated from all of them by moments, and is at least that of `slice_ratio.MIN_TAU`; a function whose pairs
scatter significantly more than that is judged by their scatter alone. Student's t has Satterthwaite's degrees of
freedom: the windows less the pairs, and for clusters the pairs less one. As everywhere, there are no verdicts
below three pairs.

All functions of all steps and subjects are one family: of those that are named one in twenty is not different, on
average, and if all servers are equal, none is named in 19 of 20 comparisons (Benjamini and Hochberg 1995). So are the
intervals: of all R that are named of m tested, each has the level 1 - 0.05 R / m (Benjamini and Yekutieli 2005).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt

from engine.analysis.causes.function_section import FunctionCosts
from engine.analysis.causes.stack_changes import RENAMED
from engine.analysis.cells.compared_cells import ComparedCells
from engine.analysis.cells.run_results import CellResult, StepResult
from engine.analysis.ratios import measured_ratios
from engine.analysis.statistics import inference
from engine.core.model import PROBED, Subject
from engine.core.record import converted
from engine.journal.reader import JournalReader
from engine.journal.rows import ProbeFrame, SliceRow
from engine.journal.totals import ops
from engine.results.flame import FunctionChange
from engine.results.ratio import MIN_PAIRS
from engine.results.slice_ratio import MIN_TAU
from workloads.api.base import COUNTED_IN_ROWS

PROBE = "stacks"
WINDOW_NS = 2_000_000_000
LEAST_WINDOWS = 8  # of a pair: with fewer, chance alone is its error
LEAST = 10  # samples of both sides: with fewer, nothing can be certain among hundreds of functions
MANY = 1e6  # degrees of freedom of a known variance
UNLIKE = 0.05  # p-value below which a function's own scatter between pairs is used
NOT_OF_THE_STEP = ("monitor", "observer")

Floats = npt.NDArray[np.float64]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]


class SampleQuality(msgspec.Struct, frozen=True):
    """Quality of a frame: samples in a second of a CPU (0 if unknown), and its gaps."""

    leaf_hz: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    lost_events: Count = 0
    map_keys_pct: Count = 0

    @property
    def whole(self) -> bool:
        return not self.lost_events and self.map_keys_pct < 100


@dataclass(frozen=True, slots=True)
class CellSamples:
    """A step of a cell: its frames as (begin, end, samples by function), and how many operations were done by when.

    `interleaved`: windows of both cells of its pair are of the same time.
    """

    frames: Sequence[tuple[int, int, Mapping[str, int]]]
    times_ns: Floats
    done: Floats
    hz: int
    interleaved: bool

    def ops_between(self, began_ns: int, ended_ns: int) -> float:
        before, after = np.interp((began_ns, ended_ns), self.times_ns, self.done)
        return float(after - before)

    def within(self) -> Iterable[tuple[int, int, Mapping[str, int]]]:
        """The frames of which all operations are known."""
        return (frame for frame in self.frames if self.times_ns[0] <= frame[0] and frame[1] <= self.times_ns[-1])


@dataclass(frozen=True, slots=True)
class PairWindows:
    """The windows of a pair: of each side the samples by (function, window), and the operations by window."""

    counts: tuple[Floats, Floats]
    ops: tuple[Floats, Floats]


@dataclass(frozen=True, slots=True)
class Estimates:
    """Each function's samples per operation: both rates, the variance of their difference, and its p-value."""

    base: Floats
    other: Floats
    variance: Floats
    degrees: Floats
    p: Floats
    samples: Floats

    def halves(self, confidence: float) -> Floats:
        """Half the widths of the differences' intervals."""
        t = [inference.t_quantile(confidence, float(degrees)) for degrees in self.degrees]
        return np.asarray(np.array(t, float) * np.sqrt(self.variance))


@dataclass(frozen=True, slots=True)
class _Tested:
    costs: FunctionCosts
    names: Sequence[str]
    found: Estimates


def function_costs(cells: ComparedCells) -> tuple[FunctionCosts, ...]:
    """Costs of each step and subject with functions sampled on both sides. Raises UserError for damaged records."""
    sampled: dict[tuple[str, str, str], CellSamples | None] = {}
    tested = [
        one
        for subject in cells.others
        if subject.control != PROBED
        for step in cells.steps
        if (one := _tested(cells, subject, step, sampled)) is not None
    ]
    level, confidence = levels([one.found for one in tested])
    return tuple(replace(one.costs, changes=_changes(one, level, confidence)) for one in tested)


def _tested(
    cells: ComparedCells, subject: Subject, step: str, sampled: dict[tuple[str, str, str], CellSamples | None]
) -> _Tested | None:
    every = []
    for pair in measured_ratios.counted_pairs(cells, step, subject):
        for cell in pair:
            place = (cell.run, cell.cell.id, step)
            if place not in sampled:
                sampled[place] = _samples(cells, cell, cell.steps[step])
        base, other = (sampled[cell.run, cell.cell.id, step] for cell in pair)
        if base is not None and other is not None:
            every.append((base, other))
    if not every:
        return None
    both = [(base, other) for base, other in every if base.hz == other.hz]
    rates = {base.hz for base, _ in both}
    if len(rates) != 1:  # a machine with more CPUs is sampled less often
        counts = sorted({side.hz for pair in every for side in pair})
        reason = f"sampled {' and '.join(map(str, counts))} times a second, so not compared"
        costs = FunctionCosts(step, cells.names[subject], 0, 0, 0, 0, 0.0, 0.0, 0, reason=reason)
        return _Tested(costs, (), Estimates(*(np.zeros(0) for _ in Estimates.__slots__)))
    (hz,) = rates
    names = sorted({name for pair in both for side in pair for _, _, counts in side.frames for name in counts})
    pairs = [windows for base, other in both if (windows := pair_windows(base, other, names)) is not None]
    if not pairs:
        return None
    tested = estimates(pairs)
    enough = (tested.samples >= LEAST) & (len(pairs) >= MIN_PAIRS)
    per_sample_us = 1e6 / hz
    counted = [sum(float(pair.counts[side].sum()) for pair in pairs) for side in (0, 1)]
    costs = FunctionCosts(
        step=step,
        subject=cells.names[subject],
        pairs=len(pairs),
        hz=hz,
        base_samples=round(counted[0]),
        samples=round(counted[1]),
        base_us=float(tested.base.sum()) * per_sample_us,
        us=float(tested.other.sum()) * per_sample_us,
        tested=int(enough.sum()),
        reason="" if len(pairs) >= MIN_PAIRS else f"{len(pairs)} of {MIN_PAIRS} pairs",
    )
    kept = [name for name, good in zip(names, enough, strict=True) if good]
    return _Tested(costs, kept, Estimates(*(getattr(tested, name)[enough] for name in Estimates.__slots__)))


def levels(tested: Sequence[Estimates]) -> tuple[float, float]:
    """The largest p-value of a difference that is certain, and the confidence of each interval that is then named."""
    p_values = [float(p) for one in tested for p in one.p]
    level = inference.benjamini_hochberg_level(p_values)
    named = sum(p <= level for p in p_values)
    return level, 1 - inference.ALPHA * named / len(p_values) if named else inference.CONFIDENCE


def _changes(one: _Tested, level: float, confidence: float) -> tuple[FunctionChange, ...]:
    if not one.names:
        return ()
    per_sample_us, estimates_of, changes = 1e6 / one.costs.hz, one.found, []
    halves = estimates_of.halves(confidence)
    for place, name in enumerate(one.names):
        if estimates_of.p[place] > level:
            continue
        base, other = float(estimates_of.base[place]), float(estimates_of.other[place])
        base_us, us, half_us = (rate * per_sample_us for rate in (base, other, float(halves[place])))
        change_us = us - base_us
        share = change_us / one.costs.base_us if one.costs.base_us else 0.0
        changes.append(FunctionChange(name, base_us, us, change_us, change_us - half_us, change_us + half_us, share))
    return tuple(sorted(changes, key=lambda change: (-abs(change.change_us), change.name)))


def estimates(pairs: Sequence[PairWindows]) -> Estimates:
    """The rates of all functions over these pairs, of which there is at least one, with operations on both sides."""
    wholes = [sum(float(pair.ops[side].sum()) for pair in pairs) for side in (0, 1)]
    totals = [np.sum([pair.counts[side].sum(axis=1) for pair in pairs], axis=0) for side in (0, 1)]
    base, other = (total / exposure for total, exposure in zip(totals, wholes, strict=True))
    pooled = (totals[0] + totals[1]) / sum(wholes)  # as if both sides' rates were the same
    within, by_chance, degrees, sums = np.zeros_like(base), np.zeros_like(base), 0, []
    for pair in pairs:
        apart = [
            (counts - rate[:, None] * done) / exposure
            for counts, done, rate, exposure in zip(pair.counts, pair.ops, (base, other), wholes, strict=True)
        ]
        influence = apart[1] - apart[0]
        sums.append(influence.sum(axis=1))
        chance = pooled * sum(float(done.sum()) / exposure**2 for done, exposure in zip(pair.ops, wholes, strict=True))
        by_chance += chance
        count = influence.shape[1]
        if count < LEAST_WINDOWS:
            within += chance
            continue
        centred = influence - influence.mean(axis=1, keepdims=True)
        neighbours = (centred[:, 1:] * centred[:, :-1]).sum(axis=1)
        within += ((centred**2).sum(axis=1) + np.maximum(neighbours, 0)) * count / (count - 1)
        degrees += count - 1
    within = np.maximum(within, by_chance)
    between = np.sum(np.square(sums), axis=0) * len(pairs) / max(1, len(pairs) - 1)
    shares = [sum(float(done.sum()) for done in pair.ops) / sum(wholes) for pair in pairs]
    weight = pooled**2 * sum(share**2 for share in shares)
    variance, freedom = _with_clusters(within, between, weight, degrees or MANY, len(pairs) - 1)
    half = 0.5 * sum(1 / exposure for exposure in wholes)  # of a sample, after Yates
    t = np.maximum(0.0, np.abs(other - base) - half) / np.sqrt(np.where(variance > 0, variance, 1.0))
    p = np.array([inference.t_tails(float(one), float(of)) for one, of in zip(t, freedom, strict=True)])
    return Estimates(base, other, variance, freedom, p, totals[0] + totals[1])


def _with_clusters(
    within: Floats, between: Floats, weight: Floats, degrees: float, pairs_less_one: int
) -> tuple[Floats, Floats]:
    """The variances, of clusters included, and their degrees of freedom. A single pair adds nothing that is known."""
    if not pairs_less_one:
        return within, np.full_like(within, degrees)
    factor = float((between - within).sum() / weight.sum()) if weight.sum() > 0 else 0.0
    added = max(factor, MIN_TAU**2) * weight
    variance = within + added
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = variance**2 / (within**2 / degrees + added**2 / pairs_less_one)
    freedom = np.where(variance > 0, freedom, degrees)
    for place in np.flatnonzero(between > variance):
        ratio = float(between[place] / variance[place]) if variance[place] > 0 else math.inf
        if inference.f_tail(ratio, pairs_less_one, float(freedom[place])) < UNLIKE:
            variance[place], freedom[place] = between[place], pairs_less_one
    return variance, freedom


def pair_windows(base: CellSamples, other: CellSamples, names: Sequence[str]) -> PairWindows | None:
    """The windows in which both cells have frames; None without any, or without operations of either in them."""
    placed = [_by_window(side, windows=base.interleaved and other.interleaved) for side in (base, other)]
    common = sorted(placed[0].keys() & placed[1].keys())
    places = {name: place for place, name in enumerate(names)}
    counts = [np.zeros((len(names), len(common))) for _ in placed]
    done = [np.zeros(len(common)) for _ in placed]
    for side, windows in enumerate(placed):
        for column, window in enumerate(common):
            counted, done[side][column] = windows[window]
            for name, count in counted.items():
                counts[side][places[name], column] = count
    if not common or not all(part.sum() > 0 for part in done):
        return None
    return PairWindows((counts[0], counts[1]), (done[0], done[1]))


def _by_window(cell: CellSamples, *, windows: bool) -> dict[int, tuple[Counter[str], float]]:
    """Samples and operations by the number of the window in which a frame's middle is; or of a single one."""
    by_window: dict[int, tuple[Counter[str], float]] = {}
    for began_ns, ended_ns, counts in cell.within():
        window = (began_ns + ended_ns) // 2 // WINDOW_NS if windows else 0
        known, done = by_window.get(window, (Counter(), 0.0))
        known.update(counts)
        by_window[window] = known, done + cell.ops_between(began_ns, ended_ns)
    return by_window


def _samples(cells: ComparedCells, cell: CellResult, step: StepResult) -> CellSamples | None:
    """The samples of a step of a cell; None if it was not sampled, or if nothing was done."""
    if PROBE not in step.totals.observers:
        return None
    run = cells.run_of(cell)
    with JournalReader(run.path) as reader:
        rows = [row for row in reader.probe_frames(step.id) if row.probe == PROBE]
        row_of_step = reader.step(step.id)
    where = f"{run.path / 'journal.db'}: step {step.name}: frame"
    frames = frames_of(rows, NOT_OF_THE_STEP, where)
    rates = {converted(row.quality, SampleQuality, where).leaf_hz for row in rows}
    if not frames or len(rates) != 1 or 0 in rates:  # a run of a version that did not sample functions
        return None
    (hz,) = rates
    if step.slices:
        times_ns, done = progress(step.slices, _operations(step))
    else:
        ended_ns = max(row_of_step.ended_ns or 0, row_of_step.started_ns + 1)
        times_ns = np.array([row_of_step.started_ns, ended_ns], float)
        done = np.array([0.0, ops(step.kind, step.totals)])
    return CellSamples(frames, times_ns, done, hz, bool(step.slices)) if done[-1] > 0 else None


def frames_of(
    rows: Sequence[ProbeFrame], left_out: Sequence[str], where: str
) -> list[tuple[int, int, Mapping[str, int]]]:
    """Samples by function of all the server's processes, by frame; functions are named as in later versions."""
    stacks: dict[tuple[int, int], Counter[str]] = {}
    spoilt = set()
    for frame_row in rows:
        frame = (frame_row.t_ns - frame_row.dt_ns, frame_row.t_ns)
        if not converted(frame_row.quality, SampleQuality, where).whole:
            spoilt.add(frame)
        counts = stacks.setdefault(frame, Counter())
        if frame_row.role not in left_out:
            for name, count in converted(frame_row.data.get("functions", {}), dict[str, Count], where).items():
                counts[RENAMED.get(name, name)] += count
    return [(*frame, counts) for frame, counts in sorted(stacks.items()) if frame not in spoilt]


def progress(slices: Iterable[SliceRow], operations: float | None = None) -> tuple[Floats, Floats]:
    """Operations of a server by time, from its slices, each of which does its own evenly.

    All of them are `operations`, by default statements. Slices that cut one long statement share them by their time.
    """
    rows = sorted(slices, key=lambda row: row.opened_ns)
    ends = [(row.opened_ns, row.counted_from_ns + row.counted_ns) for row in rows]
    statements = any(row.cpu_ops for row in rows)
    done = np.cumsum([row.cpu_ops if statements else row.counted_ns for row in rows], dtype=float)
    if operations is not None and done[-1] > 0:
        done *= operations / done[-1]
    times_ns = np.maximum.accumulate(np.array(ends, float).ravel())
    return times_ns, np.column_stack((np.concatenate(([0.0], done[:-1])), done)).ravel()


def _operations(step: StepResult) -> float:
    """The operations of a step's slices: rows, in steps that count them, for each statement as many as on average."""
    statements = sum(row.ops for row in step.slices)
    all_statements = sum(row.cpu_ops for row in step.slices)
    if not all_statements:
        return ops(step.kind, step.totals)
    primary = step.totals.primary_metric
    if primary is None or primary.role not in COUNTED_IN_ROWS or not statements:
        return float(all_statements)
    return float(all_statements * sum(row.rows for row in step.slices) / statements)

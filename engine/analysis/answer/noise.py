"""The effect that a number of pairs can show on this machine, by the scatter of its last run of the same steps.

Whole cells: the last A/A run, whose ratios have the truth 1. Slices: the last interleaved run, of any builds, as only
the scatter of its ratios is used, between pairs and within a pair.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING

from engine.core.errors import UserError
from engine.core.model import InterimAnalysis, Interleave, Manifest, Subject, workload_title
from engine.journal.manifest import read_manifest
from engine.journal.runs import runs_in
from engine.results.ratio import MIN_PAIRS, PRIMARY_METRICS, RATE

if TYPE_CHECKING:
    from engine.analysis.cells.compared_cells import Pair
    from engine.analysis.cells.run_results import RunResult, StepResult


LARGE = 1.0  # an effect beyond it is of no use
NOTHING_SHOWS = 1e9


def ignored(_: UserError) -> None:
    """Pass over an unreadable run, for callers that do not report it."""


@dataclass(frozen=True, slots=True)
class Noise:
    """The smallest visible effect of each step's rate as a fraction, for `pairs` pairs: seen in four of five runs.

    `run` is the run it rests on, `aa_pairs` the fewest pairs of a step there, `scale` its load. `best_step_s` is the
    most efficient length of an interleaved step, all servers together, by that run.
    """

    run: str
    scale: str
    aa_pairs: int
    pairs: int
    steps: dict[str, float]
    sliced: bool = False
    best_step_s: float | None = None

    @property
    def effect(self) -> float:
        """The effect visible in every step: the largest of the steps'."""
        return max(self.steps.values())


def smallest_effects(
    out: Path,
    pairs: int,
    steps: Collection[str],
    subjects: int = 2,
    *,
    workload: str,
    unread: Callable[[UserError], None] = ignored,
) -> Noise | None:
    """Effects from the newest A/A run of this host below `out`; None without one, or if `pairs` give no verdict.

    Only for `steps`, and from a run of the same workload that has any of them; their verdicts will be one family with
    those of all `subjects`, at the level of a run to which nobody has added another. The statistics are loaded only if
    such a run exists; `unread` gets why a run could not be read.
    """
    share = _share(steps, subjects)

    def read(folder: Path) -> Noise | None:
        return _of_cells(folder, pairs, steps, _level(pairs, share))

    ours = partial(_is_ours, design="cells", workload=workload, steps=steps)
    return _newest(out, pairs, ours, read, unread)


def smallest_in_slices(
    out: Path,
    pairs: int,
    steps: Mapping[str, float],
    subjects: int = 2,
    interim: Sequence[InterimAnalysis] = (),
    *,
    workload: str,
    unread: Callable[[UserError], None] = ignored,
) -> Noise | None:
    """The same from the newest interleaved run; `steps` maps a step to its planned active seconds per server."""
    share = _share(steps, subjects)

    def read(folder: Path) -> Noise | None:
        return _of_slices(folder, pairs, steps, _level(pairs, share, interim, sliced=True))

    ours = partial(_is_ours, design="slices", workload=workload, steps=steps)
    return _newest(out, pairs, ours, read, unread)


def _share(steps: Collection[str], subjects: int) -> float:
    """The share of the error that each step gets while no verdict is known."""
    return 1 / (len(steps) * max(1, subjects - 1))


def _level(pairs: int, share: float, interim: Sequence[InterimAnalysis] = (), *, sliced: bool = False) -> float:
    from engine.analysis.cells.alpha_spending import Levels, first, planned  # loads scipy

    return Levels(tuple(planned(interim, pairs, first(pairs, sliced=sliced)))).differs(share)


def _newest(
    out: Path,
    pairs: int,
    ours: Callable[[Manifest], bool],
    read: Callable[[Path], Noise | None],
    unread: Callable[[UserError], None],
) -> Noise | None:
    for folder in runs_in(out) if pairs >= MIN_PAIRS else ():
        try:
            if ours(read_manifest(folder)) and (noise := read(folder)) is not None:
                return noise
        except UserError as error:  # a run before it may do
            unread(error)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # figures that no engine writes
            unread(UserError(f"{folder}: its figures cannot be right ({error})"))
    return None


def summary(noise: Noise | None, pairs: int, design: Interleave = "cells") -> str:
    if pairs < MIN_PAIRS:
        return f"{pairs} repeat{'s give' if pairs > 1 else ' gives'} no verdict: at least {MIN_PAIRS} pairs are needed"
    if noise is None:
        why = "no A/A run of these steps on this machine yet (--aa --interleave cells)"
        if design == "slices":
            why = f"it takes a first run of {MIN_PAIRS} pairs of these steps in slices on this machine"
        return f"the smallest effect that {pairs} pairs can detect is unknown: {why}"
    by_size = sorted(noise.steps.items(), key=lambda step: step[1])
    large = ", ".join(step for step, effect in by_size if effect > LARGE)
    by_size = [(step, effect) for step, effect in by_size if effect <= LARGE]
    parts = [f"only halvings or worse in {large}"] if large else []
    if by_size:
        (least, small), (most, greatest) = by_size[0], by_size[-1]
        to = f" to {greatest:.1%} ({most})" if most != least else ""
        parts.insert(0, f"effects from {small:.1%} ({least}){to} up")
    kind = "run in slices" if noise.sliced else "A/A run"
    text = f"{pairs} pairs can detect {', '.join(parts)}, by the last {kind} of this host: {noise.run}, {noise.scale}"
    if noise.best_step_s is not None:
        text += f"; by that, steps in slices would best be {noise.best_step_s:.0f} s, all servers together"
    return text


def _is_ours(manifest: Manifest, design: Interleave, workload: str, steps: Collection[str]) -> bool:
    environment = manifest.environment
    host, cpu = environment.get("host"), environment.get("cpu")
    if not isinstance(host, dict) or not isinstance(cpu, dict):
        return False
    if (host.get("name"), cpu.get("threads")) != (platform.node(), os.cpu_count()):
        return False
    if manifest.external is not None:  # the noise of other servers
        return False
    if manifest.workload["name"] != workload or not any(step["name"] in steps for step in manifest.workload["steps"]):
        return False
    return manifest.design.interleave == design and (manifest.design.aa or design == "slices")


def _of_cells(folder: Path, pairs: int, steps: Collection[str], level: float) -> Noise | None:
    from engine.analysis.cells.run_results import load
    from engine.analysis.checks.comparability import steady
    from engine.analysis.statistics import inference

    run = load(folder)
    ratios: dict[tuple[str, str], list[float]] = {}  # by step and config: each has a scatter of its own
    for double, double_pairs in _pairs(run):
        for step in _steps(double_pairs) if double.control == "aa" else ():
            ratios.setdefault((step, double.config), []).extend(_quotients(steady(double_pairs, step), step))
    wanted = {key: values for key, values in ratios.items() if len(values) >= MIN_PAIRS and key[0] in steps}
    effects: dict[str, float] = {}
    for (step, *_), values in wanted.items():
        effect = inference.smallest_visible_effect(inference.estimate(values), pairs, level)
        effects[step] = max(effects.get(step, 0.0), NOTHING_SHOWS if effect is None else effect)
    if not effects:
        return None
    return Noise(run.name, workload_title(run.manifest.workload), min(map(len, wanted.values())), pairs, effects)


def _of_slices(folder: Path, pairs: int, steps: Mapping[str, float], level: float) -> Noise | None:
    from engine.analysis.cells.run_results import load
    from engine.analysis.checks.comparability import steady
    from engine.analysis.ratios.slice_verdicts import log_ratios, own_ratios
    from engine.analysis.statistics import inference, slice_estimates

    run = load(folder)
    effects: dict[str, float] = {}
    best: list[float] = []
    several = [pairs_of for _, pairs_of in _pairs(run) if len(pairs_of) >= MIN_PAIRS]
    for pairs_of in several:
        names = [step for step in _steps(pairs_of) if step in steps]
        steady_pairs = {step: steady(pairs_of, step) for step in names}
        quotients = {step: _quotients(pairs, step) for step, pairs in steady_pairs.items()}
        # A pause, among others, has no figure to compare.
        kept = {step: pairs for step, pairs in steady_pairs.items() if len(quotients[step]) >= MIN_PAIRS}
        evidence = {step: inference.estimate(quotients[step]) for step in kept}
        ratios = {step: logs for step, pairs in kept.items() if (logs := log_ratios(pairs, step, RATE))}
        check = slice_estimates.self_check([ratio for step in ratios for ratio in own_ratios(kept[step], step, RATE)])
        kinds = [kept[step][0][0].steps[step].group for step in ratios]
        pooled = slice_estimates.by_kind(kinds, list(ratios.values()), check.inflation)
        for step, kind, pooled_step in zip(ratios, kinds, pooled, strict=True):
            if pooled_step.within is not None:
                took_s = fmean(cell.steps[step].totals.seconds for pair in kept[step] for cell in pair)
                longer = steps.get(step, took_s) / took_s
                evidence[step] = slice_estimates.planned(
                    pooled_step.tau, pooled_step.within / math.sqrt(longer), pairs, kinds.count(kind)
                )
                best.append(_best_s(kept[step], step, len(ratios), pooled_step.within, pooled_step.tau))
        for step, expected in evidence.items():
            effect = inference.smallest_visible_effect(expected, pairs, level)
            effects[step] = max(effects.get(step, 0.0), NOTHING_SHOWS if effect is None else effect)
    if not best:
        return None
    scale, fewest = workload_title(run.manifest.workload), min(map(len, several))
    return Noise(run.name, scale, fewest, pairs, effects, sliced=True, best_step_s=median(best))


def _best_s(pairs: list[Pair], step: str, sliced: int, within: float, tau: float) -> float:
    """The best length of an interleaved step, all servers together; such steps share a pair's other costs."""
    from engine.analysis.statistics.slice_estimates import best_blocks

    rows = [cell.steps[step].slices for pair in pairs for cell in pair]
    step_s = fmean((slice_rows[-1].opened_ns - slice_rows[0].opened_ns) / 1e9 for slice_rows in rows)
    blocks = fmean(len({row.block for row in slice_rows}) for slice_rows in rows)
    besides_s = fmean(max(cell.seconds for cell in pair) for pair in pairs) / sliced - step_s
    return best_blocks(max(1.0, besides_s), step_s / blocks, within * math.sqrt(blocks), tau) * step_s / blocks


def _pairs(run: RunResult) -> Iterator[tuple[Subject, list[Pair]]]:
    from engine.analysis.cells.compared_cells import pairs

    finished = [cell for cell in run.cells if cell.state == "finished"]
    subjects = list(dict.fromkeys(cell.cell.subject for cell in run.cells))
    for subject in subjects:
        base = replace(subject, control="") if subject.control else replace(subjects[0], config=subject.config)
        if subject != base:
            yield subject, pairs(finished, base, subject)


def _steps(pairs: list[Pair]) -> list[str]:
    if not pairs:
        return []
    return [step for step in pairs[0][0].steps if all(step in cell.steps for pair in pairs for cell in pair)]


def _quotients(pairs: list[Pair], step: str) -> list[float]:
    judged = [[_headline(cell.steps[step]) for cell in pair] for pair in pairs]
    return [other / base for base, other in judged if base and other]


def _headline(step: StepResult) -> float | None:
    return next((value for name in PRIMARY_METRICS if (value := step.figures[name]) is not None), None)

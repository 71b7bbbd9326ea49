"""Groups of steps of one kind, each with one ratio and verdict: what point queries, say, come to together.

Within each pair of clusters a group's log ratio is the mean of its steps', so that what clusters add to all of them is
in the scatter between pairs. Groups are a family of their own. Steps whose verdicts are withheld are left out, and so
are pairs that lack a step.

A group whose steps differ among themselves by more than chance has no verdict, as its mean is that of none of them.
That is the F test of steps in a table of steps and pairs, with degrees of freedom by Greenhouse and Geisser
(Psychometrika 24, 1959), since some steps scatter more than others; its level is divided by the number of groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from engine.analysis.cells.compared_cells import ComparedCells, Pair
from engine.analysis.ratios import measured_ratios, verdicts
from engine.analysis.ratios.measured_ratios import MeasuredRatio
from engine.analysis.statistics.inference import ALPHA, f_tail
from engine.results.ratio import PRIMARY_METRICS, Ratio
from engine.results.section import WORDS, Column, Figure, Section, columns, of_ratio, row
from engine.results.slice_ratio import ratio_of

LEAST_RESIDUAL = 1e-18  # of log ratios, squared: steps that repeat themselves exactly

Table = npt.NDArray[np.float64]  # log ratios, (steps, pairs)


@dataclass(frozen=True, slots=True)
class StepGroup:
    """Steps of one kind and their common ratio, whose `step` is the kind."""

    steps: tuple[str, ...]
    ratio: Ratio


def section(groups: Sequence[StepGroup]) -> Section:
    """A line for each group; under its kind if there are several subjects."""
    several = len({group.ratio.subject for group in groups}) > 1
    kinds = list(dict.fromkeys(group.ratio.step for group in groups))
    rows = []
    for group in sorted(groups, key=lambda group: kinds.index(group.ratio.step)):
        ratio = group.ratio
        values = (len(group.steps), of_ratio(ratio), Figure(ratio.verdict_text, remarks=ratio.remarks))
        name, step = (ratio.subject, ratio.step) if several else (ratio.step, "")
        rows.append(row(name, *values, step=step, subject=ratio.subject, mark=ratio.sign))
    title = "Groups of steps (mean of their ratios within each pair)"
    judged = (Column("ratio", "ratio", bounds="95%"), Column("verdict", WORDS))
    return Section("groups", title, columns("group", Column("steps", "count"), *judged), tuple(rows))


def groups(cells: ComparedCells, measured: Sequence[MeasuredRatio], ratios: Sequence[Ratio]) -> tuple[StepGroup, ...]:
    """The groups of two steps or more, in the order of their first steps; none if all steps are of one kind."""
    kinds = {name: step.group for cell in cells.cells for name, step in cell.steps.items()}
    if len(set(kinds.values())) < 2:
        return ()
    withheld = {_of(ratio) for ratio in ratios if ratio.reasons}
    members: dict[tuple[str, str, str], list[MeasuredRatio]] = {}
    for one in measured:
        if one.metric.name in PRIMARY_METRICS and one.quotients and _of(one.blank) not in withheld:
            members.setdefault((kinds[one.blank.step], one.blank.subject, one.metric.name), []).append(one)
    several = [(kind, group, _table(group)) for (kind, *_), group in members.items() if len(group) > 1]
    pooled = [_pooled(kind, group, table, ALPHA / len(several)) for kind, group, table in several if table.size]
    judged = verdicts.judged(cells, measured_ratios.over_units(cells, pooled))
    return tuple(StepGroup(group.steps, ratio) for group, ratio in zip(pooled, judged, strict=True))


def _table(members: Sequence[MeasuredRatio]) -> Table:
    logs = [dict(zip(map(_key, ratio.pairs), ratio.by_slices or ratio.quotients, strict=True)) for ratio in members]
    return np.log([[ratios[_key(pair)] for pair in _common(members)] for ratios in logs])


def _common(members: Sequence[MeasuredRatio]) -> list[Pair]:
    """The pairs that have every step."""
    keys = set.intersection(*(set(map(_key, ratio.pairs)) for ratio in members))
    return [pair for pair in members[0].pairs if _key(pair) in keys]


def _pooled(kind: str, members: Sequence[MeasuredRatio], table: Table, level: float) -> MeasuredRatio:
    quotients = [ratio_of(mean) for mean in table.mean(axis=0).tolist()]
    steps = tuple(ratio.blank.step for ratio in members)
    blank = replace(members[0].blank, step=kind, left_out=(), reasons=_disagreement(table, steps, level))
    return MeasuredRatio(blank, members[0].metric, quotients, _common(members), steps=steps)


def _of(ratio: Ratio) -> tuple[str, str, str]:
    return ratio.step, ratio.subject, ratio.metric


def _key(pair: Pair) -> tuple[str, int]:
    return pair[0].run, pair[0].cell.repeat


def _disagreement(table: Table, steps: Sequence[str], level: float) -> tuple[str, ...]:
    """The reason why the steps of a group have no common ratio; empty if they may have one."""
    pairs = table.shape[1]
    if pairs < 2:
        return ()
    means = table.mean(axis=1)
    rest = table - means[:, None] - table.mean(axis=0) + means.mean()
    between, within = pairs * float(((means - means.mean()) ** 2).sum()), float((rest**2).sum())
    if within > LEAST_RESIDUAL:
        covariance = rest @ rest.T
        degrees = float(np.trace(covariance) ** 2 / (covariance**2).sum())  # steps - 1 if all scatter alike
        if f_tail((pairs - 1) * between / within, degrees, degrees * (pairs - 1)) > level:
            return ()
    elif between <= LEAST_RESIDUAL:
        return ()
    least, most = (f"{steps[place]} {ratio_of(means[place]) - 1:+.1%}" for place in (means.argmin(), means.argmax()))
    return (f"its steps differ by more than chance, from {least} to {most}",)

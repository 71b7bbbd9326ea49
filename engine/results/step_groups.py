"""Groups of a comparison's steps by their kind: what many steps of one kind come to together."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from statistics import fmean

from engine.results.comparison import ANSWERS, Comparison, Ratio

LEAST_STEPS = 12  # with a primary metric; of fewer each is seen at once


@dataclass(frozen=True, slots=True)
class StepGroup:
    """All steps of a kind, of one subject. `mean` is the geometric mean of their ratios, `low` and `high` that of their
    bounds: as wide as if all steps erred together, since they share their clusters. `least` and `most` are the extreme
    steps' ratios.
    """

    kind: str
    subject: str
    ratios: tuple[Ratio, ...]
    mean: float
    low: float | None
    high: float | None

    @property
    def least(self) -> Ratio:
        return min(self.ratios, key=lambda ratio: ratio.ratio or 0.0)

    @property
    def most(self) -> Ratio:
        return max(self.ratios, key=lambda ratio: ratio.ratio or 0.0)

    @property
    def words(self) -> str:
        """`3 faster, 1 same, 2 undecided`; empty if nothing has a verdict."""
        counts = Counter(ratio.verdict for ratio in self.ratios)
        return ", ".join(
            f"{counts[verdict]} {verdict}" for verdict in (*ANSWERS, "undecided", "withheld") if counts[verdict]
        )


def groups(comparison: Comparison) -> list[StepGroup]:
    """The groups in the order of their first steps; none if the steps are few, or all of one kind."""
    kinds: dict[str, list[str]] = {}
    for step in comparison.steps:
        if step in comparison.units:
            kinds.setdefault(comparison.group(step), []).append(step)
    if len(kinds) < 2 or sum(map(len, kinds.values())) <= LEAST_STEPS:
        return []
    found = []
    for kind, steps in kinds.items():
        for subject in comparison.others:
            ratios = [comparison.ratio(subject.name, step, comparison.primary_metric(step)) for step in steps]
            if known := [ratio for ratio in ratios if ratio is not None and ratio.ratio is not None]:
                found.append(_group(kind, subject.name, known))
    return found


def _group(kind: str, subject: str, ratios: list[Ratio]) -> StepGroup:
    low, high = _mean([ratio.low for ratio in ratios]), _mean([ratio.high for ratio in ratios])
    mean = _mean([ratio.ratio for ratio in ratios])
    assert mean is not None
    return StepGroup(kind, subject, tuple(ratios), mean, low, high)


def _mean(values: list[float | None]) -> float | None:
    """The geometric mean; None if a value is missing."""
    known = [value for value in values if value is not None and value > 0]
    return math.exp(fmean(map(math.log, known))) if known and len(known) == len(values) else None

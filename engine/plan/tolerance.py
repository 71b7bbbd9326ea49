"""The slowdown that a step may show before a gate fails: `3%` for all steps, `l.x=10%` for one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from engine.core.errors import UserError, unknown
from workloads.api.quantity import figure


def tolerances(texts: Iterable[str], steps: Sequence[str]) -> dict[str, float]:
    """Tolerance per step; key "" is the default. Raises UserError for an invalid fraction or an unknown step."""
    tolerated: dict[str, float] = {}
    for text in texts:
        step, _, share = text.rpartition("=")
        if step and step not in steps:
            raise unknown("step", step, steps)
        try:
            fraction = float(figure(share, "share"))
        except ValueError as error:
            raise UserError(f"tolerance {error}") from None
        if not 0 <= fraction < 1:
            raise UserError(f"tolerance '{share}': a slow-down of at least 0% and less than 100%")
        tolerated[step] = fraction
    return tolerated


def strictest(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Combine the tolerances of several runs: the smallest per step; none for a step for which a run has none."""
    tolerances = {}
    for step in dict.fromkeys(step for run in runs for step in run):
        given = [run.get(step, run.get("", math.nan)) for run in runs]
        if not any(map(math.isnan, given)):
            tolerances[step] = min(given)
    return tolerances

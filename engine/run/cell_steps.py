"""The steps that a cell runs, in their order."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from engine.core import missing_steps
from workloads import workload
from workloads.api.base import Step, lasting


def cell_steps(planned: Mapping[str, Any], build: str, repeat: int, seconds: Mapping[str, int]) -> tuple[Step, ...]:
    """The steps of a planned workload's record, without those for which the build lacks something.

    `seconds` are the lengths of steps that differ from the plan; 0: they are left out.
    """
    lacking = missing_steps.recorded(planned).get(build, {})
    steps = [step for step in workload(planned["name"]).steps(planned) if step.name not in lacking]
    return in_order(with_lengths(steps, seconds), repeat)


def with_lengths(steps: Iterable[Step], seconds: Mapping[str, int]) -> list[Step]:
    """The steps with these lengths, without those of 0 s."""
    kept = [step for step in steps if seconds.get(step.name) != 0]
    return [lasting(step, seconds[step.name]) if step.name in seconds else step for step in kept]


def in_order(steps: Sequence[Step], repeat: int) -> tuple[Step, ...]:
    """The steps in run order: even repeats reverse neighbours that are interchangeable."""
    ordered: list[Step] = []
    for interchangeable, group in itertools.groupby(steps, key=lambda step: step.interchangeable):
        neighbours = list(group)
        ordered += neighbours[::-1] if interchangeable and repeat % 2 == 0 else neighbours
    return tuple(ordered)

"""What a run will do: its subjects and the order of its cells."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from engine.core.errors import unknown
from engine.core.kernel import HOST
from engine.core.model import Cell, Subject
from workloads.base import Step


def subjects(
    builds: Sequence[str], configs: Sequence[str], base: str, aa: bool, kernels: Sequence[str] = (HOST,)
) -> tuple[Subject, ...]:
    """Every build under every config and kernel; the base build first, then its double when A/A is asked for.

    Raises UserError when the base is not among the builds.
    """
    if base not in builds:
        raise unknown("base", base, builds)
    ordered = [base, *(build for build in builds if build != base)]
    found: list[Subject] = []
    for kernel, config in itertools.product(kernels, configs):
        for build in ordered:
            found.append(Subject(build, config, kernel))
            if aa and build == base:
                found.append(Subject(build, config, kernel, arm="aa"))
    return tuple(found)


def interleave(subjects: Sequence[Subject], repeats: int) -> tuple[Cell, ...]:
    """The cells in ABBA order: odd repeats visit the subjects forward, even ones backward.

    A drift that is linear in time thus adds the same to every subject over each two repeats, and the cells of
    one repeat make the pairs of the comparison.
    """
    cells: list[Cell] = []
    for repeat in range(1, repeats + 1):
        for subject in subjects if repeat % 2 else reversed(subjects):
            ordinal = len(cells)
            kernel = "" if subject.kernel == HOST else f"linux_{subject.kernel}"
            name = "-".join(part for part in (subject.build, subject.arm, subject.config, kernel) if part)
            cells.append(Cell(f"{ordinal + 1:03d}-{name}-r{repeat}", ordinal, subject, repeat))
    return tuple(cells)


def in_turn(steps: Sequence[Step], repeat: int) -> tuple[Step, ...]:
    """The steps in the order of a repeat: neighbours that are interchangeable the other way round in every other."""
    ordered: list[Step] = []
    for interchangeable, group in itertools.groupby(steps, key=lambda step: step.interchangeable):
        neighbours = list(group)
        ordered += neighbours[::-1] if interchangeable and repeat % 2 == 0 else neighbours
    return tuple(ordered)

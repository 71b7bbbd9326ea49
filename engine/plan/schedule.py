"""The subjects of a run and the order of its cells."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from engine.core.errors import unknown
from engine.core.kernel import HOST
from engine.core.model import Cell, Subject

MOST_NAME = 60  # characters of a config in a cell's name


def subjects(
    builds: Sequence[str], configs: Sequence[str], base: str, aa: bool, kernels: Sequence[str] = (HOST,)
) -> tuple[Subject, ...]:
    """Combine builds, configs and kernels, the base and its A/A control first. UserError for a wrong base."""
    if base not in builds:
        raise unknown("base", base, builds)
    ordered = [base, *(build for build in builds if build != base)]
    ordered_subjects: list[Subject] = []
    for kernel, config in itertools.product(kernels, configs):
        for build in ordered:
            ordered_subjects.append(Subject(build, config, kernel))
            if aa and build == base:
                ordered_subjects.append(Subject(build, config, kernel, control="aa"))
    return tuple(ordered_subjects)


def interleave(subjects: Sequence[Subject], repeats: int) -> tuple[Cell, ...]:
    """Order the cells ABBA: odd repeats visit the subjects forward, even ones backward.

    A drift that is linear in time thus affects every subject equally over two repeats. The cells of one repeat are
    the pairs of the comparison.
    """
    cells: list[Cell] = []
    for repeat in range(1, repeats + 1):
        for subject in subjects if repeat % 2 else reversed(subjects):
            ordinal = len(cells)
            config = re.sub(r"[^A-Za-z0-9.+-]", "_", subject.config)[:MOST_NAME]  # values of settings hold anything
            kernel = "" if subject.kernel == HOST else f"linux_{subject.kernel}"
            name = "-".join(filter(None, (subject.build, subject.control, config, kernel)))
            cells.append(Cell(f"{ordinal + 1:03d}-{name}-r{repeat}", ordinal, subject, repeat))
    return tuple(cells)

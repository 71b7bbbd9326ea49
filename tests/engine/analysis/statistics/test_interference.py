"""Ratios without what others did: only where it helps, never by what a server causes, and never out of sight."""

from __future__ import annotations

import math

import numpy as np
import pytest

from engine.analysis.statistics.interference import FEW, STOLEN, TASKS, StepRatios, step_ratios
from engine.analysis.statistics.slice_estimates import Floats, Slices

BLOCKS, PAIRS = 40, 3
NS = 50e6


def slices(rng: np.random.Generator, rate: float, stolen: Floats, tasks: Floats, noise: float = 0.01) -> Slices:
    """One server's slices: a task that waits takes a third of the CPU, stolen time all of it."""
    speed = rate * np.exp(noise * rng.standard_normal(stolen.shape) - tasks / 3)
    return Slices(speed * (NS - stolen), np.full(stolen.shape, NS), covariates={STOLEN: stolen, TASKS: tasks})


def pairs_of(
    stolen: float = 0.0, tasks: float = 0.0, caused: float = 0.0, blocks: int = BLOCKS
) -> list[tuple[Slices, Slices]]:
    """Pairs whose truth is 0.95: a share of slices loses a third, and tasks come and go."""
    rng, shape = np.random.default_rng(1), (blocks, 2)

    def side(rate: float, more: float) -> Slices:
        lost = np.where(rng.random(shape) < stolen, NS / 3, 0.0)
        return slices(rng, rate, lost, rng.poisson(tasks + more, shape).astype(float))

    return [(side(1e-4, 0.0), side(0.95e-4, caused)) for _ in range(PAIRS)]


def unmetered(side: Slices) -> Slices:
    return Slices(side.numerators, side.denominators)


def error(found: StepRatios, *, plain: bool = False) -> float:
    ratios = found.plain if plain else found.ratios
    return math.sqrt(sum(ratio.variance or 0 for ratio in ratios)) / len(ratios)


@pytest.mark.parametrize(
    ("stolen", "tasks", "by"), [(0.1, 0.0, (STOLEN,)), (0.0, 0.5, (TASKS,)), (0.1, 0.5, (STOLEN, TASKS))]
)
def test_what_others_did_is_taken_out_and_the_plain_ratio_stays(
    stolen: float, tasks: float, by: tuple[str, ...]
) -> None:
    found = step_ratios(pairs_of(stolen, tasks))
    assert found.by == by
    assert error(found) < error(found, plain=True) / 3
    mean = sum(ratio.theta for ratio in found.ratios) / PAIRS
    assert abs(mean - math.log(0.95)) < 4 * error(found) < 0.02
    bare = step_ratios([(unmetered(base), unmetered(other)) for base, other in pairs_of(stolen, tasks)])
    assert found.plain == bare.ratios and not bare.by and not bare.left_out


def test_what_explains_nothing_is_not_used() -> None:
    rng = np.random.default_rng(2)
    pairs = [
        tuple(
            Slices(side.numerators, side.denominators, covariates={
                STOLEN: rng.uniform(0, NS / 50, side.numerators.shape),
                TASKS: rng.poisson(1, side.numerators.shape).astype(float),
            })
            for side in pair
        )
        for pair in pairs_of()
    ]  # fmt: skip
    found = step_ratios(pairs)  # type: ignore[arg-type]
    assert found.by == () and found.ratios == found.plain
    assert [text.partition(" would")[0] for text in found.left_out] == [STOLEN, TASKS]


def test_what_a_server_may_cause_is_not_used() -> None:
    found = step_ratios(pairs_of(tasks=0.5, caused=0.5))
    assert found.by == () and found.left_out == (f"{TASKS} differed between the servers",)
    mean = sum(ratio.theta for ratio in found.ratios) / PAIRS
    assert mean < math.log(0.95) - 0.1, "what it costs is part of the effect"


def test_few_blocks_have_the_plain_ratio() -> None:
    found = step_ratios(pairs_of(stolen=0.1, tasks=0.5, blocks=19))
    assert (found.by, found.left_out) == ((), (FEW,)) and found.ratios == found.plain


def test_absurd_records_of_stolen_time_leave_a_tenth_of_the_time() -> None:
    pairs = pairs_of(stolen=0.2)
    for side in (side for pair in pairs for side in pair):
        side.covariates[STOLEN][:] = np.where(side.covariates[STOLEN] > 0, 1e18, -5.0)
    found = step_ratios(pairs)
    assert all(math.isfinite(ratio.theta) and ratio.variance is not None for ratio in found.ratios)

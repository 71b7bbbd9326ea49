"""Slices of two servers with made noise: noise common to both, and noise of either."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.signal import lfilter

from engine.analysis.statistics.slice_estimates import Slices
from engine.core.model import Subject
from engine.slices.block_order import SliceSeed, blocks

SEED = 20240529
BASE, OTHER = Subject("base", "auto"), Subject("other", "auto")
GRID_S = 0.005  # rates are made on a grid of so much
SCHEDULES = 100  # drawn by the plan; series take them in turns

Random = np.random.Generator
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Noise:
    """Noise of a log rate: `parts` wander with a time constant in s and an sd, `white` is the sd of a cell of the grid.

    With `bursts`, for 0.5 to 20 s, every 20 s on average, a neighbour halves the rate.
    """

    parts: tuple[tuple[float, float], ...]
    white: float
    bursts: bool = True


QUIET = Noise(((60, 0.02), (2, 0.01)), 0.06, bursts=False)
MILD = Noise(((60, 0.25), (5, 0.08), (0.4, 0.08), (0.06, 0.10)), 0.25)
LOADED = Noise(((60, 0.25), (5, 0.10), (0.4, 0.20), (0.06, 0.28)), 0.6)


def log_rates(noise: Noise, shape: tuple[int, int], rng: Random) -> Floats:
    """Series of log rates, from their stationary state."""
    rates = noise.white * rng.standard_normal(shape)
    for time_constant_s, sd in noise.parts:
        keep = math.exp(-GRID_S / time_constant_s)
        shocks = rng.standard_normal(shape) * sd * math.sqrt(1 - keep**2)
        shocks[:, 0] /= math.sqrt(1 - keep**2)
        rates += lfilter([1.0], [1.0, -keep], shocks, axis=1)
    return rates - math.log(2) * in_burst(shape, rng) if noise.bursts else rates


def in_burst(shape: tuple[int, int], rng: Random) -> npt.NDArray[np.bool_]:
    """Times with at least one burst; those that began up to 20 s before the start are still felt."""
    series, length = shape
    before = round(20 / GRID_S)
    rows = np.repeat(np.arange(series), rng.poisson((length + before) / before, series))
    begins = rng.integers(-before, length, len(rows))
    ends = begins + np.round(np.exp(rng.uniform(math.log(0.5), math.log(20), len(rows))) / GRID_S).astype(int)
    edges = np.zeros((series, length + 1), dtype=np.int32)
    np.add.at(edges, (rows, np.clip(begins, 0, length)), 1)
    np.add.at(edges, (rows, np.clip(ends, 0, length)), -1)
    return np.asarray(np.cumsum(edges[:, :-1], axis=1) > 0)


@cache
def schedules(slice_ms: float, seconds: float) -> tuple[Floats, npt.NDArray[np.intp]]:
    """The plan's turns: bounds in s, (SCHEDULES, 4 blocks + 1); whether it is the other's, (SCHEDULES, blocks, 4)."""
    count = round(seconds / (4 * slice_ms / 1000))
    bounds, turns = np.zeros((SCHEDULES, 4 * count + 1)), np.zeros((SCHEDULES, count, 4), dtype=np.intp)
    for number in range(SCHEDULES):
        drawn = list(itertools.islice(blocks((BASE, OTHER), SliceSeed(SEED, number, "step"), slice_ms), count))
        bounds[number, 1:] = np.cumsum(np.repeat([block.slice_ns / 1e9 for block in drawn], 4))
        turns[number] = [[subject == OTHER for subject in block.order] for block in drawn]
    return bounds, turns


def sliced(noise: Noise, slice_ms: float, seconds: float, series: int, rng: Random) -> list[tuple[Slices, Slices]]:
    """Stretches of slices of two servers (base, other) that do not differ, and feel the same noise."""
    bounds, turns = (drawn[rng.permutation(np.arange(series) % SCHEDULES)] for drawn in schedules(slice_ms, seconds))
    rates = np.exp(log_rates(noise, (series, math.ceil(bounds[:, -1].max() / GRID_S) + 1), rng))
    done = np.zeros((series, rates.shape[1] + 1))
    np.cumsum(rates, axis=1, out=done[:, 1:])
    at = (bounds / GRID_S).astype(np.intp)
    reached = np.take_along_axis(done, at, axis=1) + (bounds / GRID_S - at) * np.take_along_axis(rates, at, axis=1)
    return sides(np.diff(reached, axis=1), np.diff(bounds, axis=1), turns)


def sides(work: Floats, spent: Floats, turns: npt.NDArray[np.intp]) -> list[tuple[Slices, Slices]]:
    """The slices of each server."""
    order = np.argsort(turns, axis=2, kind="stable")  # the base's two places of a block first, both in order of time
    numerators, denominators = (np.take_along_axis(part.reshape(turns.shape), order, axis=2) for part in (work, spent))

    def side(server: int, turn: slice) -> Slices:
        return Slices(numerators[server, :, turn], denominators[server, :, turn])

    return [(side(server, slice(0, 2)), side(server, slice(2, 4))) for server in range(len(turns))]

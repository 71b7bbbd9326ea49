"""The ratio that who watches computes is the one that the analysis does."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.analysis import slice_estimates as analysis
from engine.results.slice_ratio import MIN_BLOCKS, log_ratio

seeds = st.integers(0, 2**32)


def sums(seed: int, count: int, related: float) -> tuple[np.ndarray, np.ndarray]:
    """Work and time of a server by block, in two slices each; `related` is the autocorrelation of its rate."""
    rng = np.random.default_rng(seed)
    logs = rng.normal(0, 0.3, count)
    for block in range(1, count):
        logs[block] = related * logs[block - 1] + math.sqrt(1 - related**2) * logs[block]
    time = rng.uniform(40e6, 60e6, (count, 2))
    return np.round(time * np.exp(logs)[:, None] / 1e5), time


@given(seeds, st.integers(1, 120), st.sampled_from([-0.6, 0.0, 0.5, 0.95]))
def test_it_is_the_ratio_and_the_error_of_the_analysis(seed: int, count: int, related: float) -> None:
    base, other = sums(seed, count, related), sums(seed + 1, count, related)
    found = log_ratio(*(tuple(part.sum(axis=1).tolist() for part in side) for side in (base, other)))
    expected = analysis.log_ratio(analysis.Slices(*base), analysis.Slices(*other))
    assert found.theta == pytest.approx(expected.theta, abs=1e-12)
    assert found.blocks == expected.blocks == count
    assert (found.variance is None) == (count < MIN_BLOCKS)
    if expected.variance is not None:
        assert found.variance == pytest.approx(expected.variance, rel=1e-9)


def test_of_a_side_that_did_nothing_there_is_no_ratio() -> None:
    with pytest.raises(ValueError, match="counted something"):
        log_ratio(([0.0], [1.0]), ([1.0], [1.0]))

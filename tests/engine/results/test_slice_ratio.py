"""Level 1 of the estimate, in plain Python, against the same formulae on arrays."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.analysis.statistics.slice_estimates import Slices
from engine.analysis.statistics.slice_estimates import log_ratio as log_ratio_of_arrays
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


def on_arrays(base: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray]) -> tuple[float, float]:
    """Newey and West's estimate with Andrews' bandwidth, written with numpy."""
    parts = [part.sum(axis=1) for part in (*base, *other)]
    base_x, base_y, other_x, other_y = (part.sum() for part in parts)
    shares = [part / part.mean() for part in parts]
    u = (shares[2] - shares[3]) - (shares[0] - shares[1])
    count = len(u)
    covariances = np.correlate(u, u, "full")[count - 1 :] / count
    r = np.clip(covariances[1] / covariances[0], -0.97, 0.97)
    bandwidth = min(count // 3, math.ceil(1.1447 * np.cbrt(4 * r**2 / (1 - r**2) ** 2 * count)))
    lags = np.arange(1, bandwidth + 1)
    related = ((1 - lags / (bandwidth + 1)) * covariances[lags]).sum()
    variance = max(covariances[0], covariances[0] + 2 * related) / (count - 1)
    return math.log(other_x / other_y / (base_x / base_y)), variance


@given(seeds, st.integers(1, 120), st.sampled_from([-0.6, 0.0, 0.5, 0.95]))
def test_it_is_the_ratio_and_the_error_that_arrays_give(seed: int, count: int, related: float) -> None:
    base, other = sums(seed, count, related), sums(seed + 1, count, related)
    ratio = log_ratio(*(tuple(part.sum(axis=1).tolist() for part in side) for side in (base, other)))
    assert ratio.blocks == count and (ratio.variance is None) == (count < MIN_BLOCKS)
    assert ratio == log_ratio_of_arrays(Slices(*base), Slices(*other))
    if ratio.variance is not None:
        assert (ratio.theta, ratio.variance) == pytest.approx(on_arrays(base, other), rel=1e-9, abs=1e-12)


def test_of_a_side_that_did_nothing_there_is_no_ratio() -> None:
    with pytest.raises(ValueError, match="counted something"):
        log_ratio(([0.0], [1.0]), ([1.0], [1.0]))

"""Histograms read together give what each would give by itself."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.observe.histograms import Histograms
from workloads.client import histogram

TIMES_US = st.lists(st.one_of(st.integers(0, 300), st.integers(0, histogram.HIGHEST_US)), max_size=30)


@given(st.lists(st.tuples(TIMES_US, TIMES_US, TIMES_US), min_size=1, max_size=4))
def test_each_reading_has_what_is_new_and_the_quantiles_of_all(readings: list[tuple[list[int], ...]]) -> None:
    live = np.zeros((3, histogram.BUCKETS), dtype=np.int64)
    histograms, longest_us = Histograms(live), 0
    every: list[list[int]] = [[], [], []]
    for reading in readings:
        for row, times_us in enumerate(reading):
            every[row] += times_us
            longest_us = max(longest_us, *times_us, 0)
            for time_us in times_us:
                live[row, histogram.index(time_us)] += 1
        fresh = histograms.fresh(longest_us * 1000)
        assert fresh.packed == [histogram.pack(Counter(map(histogram.index, times))) for times in reading]
        bounds = [histogram.bounds(histogram.index(max(times)))[1] if times else 0 for times in reading]
        assert fresh.longest_us.tolist() == bounds
        for q in (0.5, 0.99):
            counts = [Counter(map(histogram.index, times)) for times in every]
            quantiles = [histograms.quantile_us(row, q) for row in range(len(every))]
            assert quantiles == [histogram.quantile_us(counter, q) for counter in counts]


def test_of_no_connections_there_is_nothing() -> None:
    histograms = Histograms(np.zeros((0, histogram.BUCKETS), dtype=np.int64))
    assert histograms.fresh(0).packed == []

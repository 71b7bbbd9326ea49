"""The histograms of a step's connections: counts since the last reading, and quantiles."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from workloads.client import histogram

Ints = npt.NDArray[np.int64]
UPPER_US: Ints = np.array([histogram.bounds(bucket)[1] for bucket in range(histogram.BUCKETS)], dtype=np.int64)


class Fresh(NamedTuple):
    """New counts: `packed` like `histogram.pack`, and `longest_us`, bounds of the highest buckets, or 0."""

    packed: list[bytes]
    longest_us: Ints


class Histograms:
    """One histogram per connection. `live` are the counts on the page, a row for each."""

    def __init__(self, live: Ints) -> None:
        self._live = live
        self._known = np.zeros_like(live)
        self._rows = np.arange(len(live))

    def fresh(self, longest_ns: int) -> Fresh:
        """Counts since the last call; no connection has had a time above `longest_ns`."""
        # Buckets beyond the longest time are empty, so most of each histogram can be skipped.
        used = histogram.index(longest_ns // 1000) + 1
        live, known = self._live[:, :used], self._known[:, :used]
        rows, buckets = divmod(np.flatnonzero(live != known), used)
        now = live[rows, buckets]
        more = now - known[rows, buckets]
        known[rows, buckets] = now
        pairs = np.empty((len(rows), 2), dtype="<u4")
        pairs[:, 0], pairs[:, 1] = buckets, more
        data, ends = pairs.tobytes(), rows.searchsorted(self._rows, "right")
        longest_us = np.zeros(len(live), dtype=np.int64)
        counted = np.diff(ends, prepend=0) > 0
        longest_us[counted] = UPPER_US[buckets[ends[counted] - 1]]
        edges = (ends * pairs.strides[0]).tolist()
        return Fresh([data[start:end] for start, end in zip([0, *edges], edges, strict=False)], longest_us)

    def quantile_us(self, row: int, q: float) -> int | None:
        """Upper bound of a connection's quantile `q` by the last reading; None without counts."""
        added = self._known[row].cumsum()
        count = int(added[-1])
        return int(UPPER_US[added.searchsorted(q * count)]) if count else None

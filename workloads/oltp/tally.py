"""A client's counts, written to the page less often than events end: these are short, and writing takes its time, too.

Between two writings the page lags behind by `EVERY_NS` at most; before a client waits at the gate, and at its end, it
does not. The counts in the page belong together at any time.
"""

from __future__ import annotations

import numpy as np

from workloads.client import histogram
from workloads.client.counter_page import SERVICE_OFFSET, Page, Word
from workloads.client.process import BOUNDS_NS

EVERY_NS = 500_000
FINE_US = 256  # from here on a bucket of the histogram is wider than a microsecond


class Tally:
    """`times_ns` belong to the events since the last `sort`; `rows` are of all events."""

    def __init__(self, page: Page, slot: int) -> None:
        self.times_ns: list[int] = []
        self.rows = 0
        self._page, self._slot = page, slot
        self._sorted = self._service_ns = self._longest_ns = 0
        base = page.slot(slot)
        words = np.frombuffer(page.bytes, np.int64)
        self._buckets = words[base + SERVICE_OFFSET : base + SERVICE_OFFSET + histogram.BUCKETS]
        self._reference = words[base + Word.BUCKET_0 : base + Word.BUCKET_0 + len(BOUNDS_NS) + 1]

    def write(self, ended_ns: int) -> None:
        """Write how many events there were up to the end of the last."""
        words, base = self._page.words, self._page.slot(self._slot)
        count = self._sorted + len(self.times_ns)
        words[base + Word.LAST_ENDED_NS] = 0  # invalid until counts and time belong together again
        words[base + Word.STATEMENTS] = words[base + Word.ROWS] = count
        words[base + Word.LAST_ENDED_NS] = ended_ns
        words[base + Word.ROWS_ACTUAL] = self.rows

    def sort(self) -> None:
        """Add the times to the page's histogram, and forget them."""
        if not self.times_ns:
            return
        times_ns = np.array(self.times_ns, np.int64)
        self._sorted += len(times_ns)
        self.times_ns.clear()
        us = times_ns // 1000
        self._buckets[:FINE_US] += np.bincount(us[us < FINE_US], minlength=FINE_US)
        for long_us in us[us >= FINE_US].tolist():
            self._buckets[histogram.index(long_us)] += 1
        self._reference += np.bincount(np.searchsorted(BOUNDS_NS, times_ns), minlength=len(self._reference))
        self._service_ns += int(times_ns.sum())
        self._longest_ns = max(self._longest_ns, int(times_ns.max()))
        self._page.set_word(self._slot, Word.SERVICE_NS, self._service_ns)
        self._page.set_word(self._slot, Word.MAX_NS, self._longest_ns)

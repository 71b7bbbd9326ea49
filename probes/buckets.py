"""Power-of-two histograms, as the kernel keeps them: a mapping from bucket to count.

Bucket 0 holds the value 0, bucket b the values of b bits: 2**(b-1) to 2**b - 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeVar

Key = TypeVar("Key")


def index(value: int) -> int:
    return value.bit_length()


def bounds(bucket: int) -> tuple[int, int]:
    return (0, 0) if bucket == 0 else (1 << (bucket - 1), (1 << bucket) - 1)


def merge(histograms: Iterable[Mapping[Key, int]]) -> dict[Key, int]:
    total: Counter[Key] = Counter()
    for histogram in histograms:
        total.update(histogram)
    return dict(total)


def quantile(histogram: Mapping[int, int], q: float) -> int | None:
    """Upper bound of the quantile: the highest value of its bucket. None for an empty histogram."""
    total = sum(histogram.values())
    seen = 0
    for bucket in sorted(histogram):
        seen += histogram[bucket]
        if total and seen >= q * total:
            return bounds(bucket)[1]
    return None

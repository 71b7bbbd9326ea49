"""Latency histograms: HdrHistogram's log-linear layout with two significant digits, in microseconds.

A histogram is a mapping from bucket index to count, so that histograms merge by adding. Values from 0 to 2**32 - 1 us
(71 minutes) fall into 3328 buckets; below 256 us every microsecond has its own, above that a bucket's width is at most
1/128 of its value. The arithmetic follows HdrHistogram's CountsArrayIndex (http://hdrhistogram.org) for lowest value
1 and 256 sub-buckets.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

BUCKETS = 3328
HIGHEST_US = 2**32 - 1

Counts = dict[int, int]

# The reference client's ten counters: label and inclusive upper bound in nanoseconds; the last has none.
REFERENCE_BUCKETS: tuple[tuple[str, int | None], ...] = (
    ("256us", 256_000),
    ("1ms", 1_000_000),
    ("4ms", 4_000_000),
    ("16ms", 16_000_000),
    ("64ms", 64_000_000),
    ("256ms", 256_000_000),
    ("1s", 1_000_000_000),
    ("4s", 4_000_000_000),
    ("16s", 16_000_000_000),
    ("gt", None),
)


def index(value_us: int) -> int:
    """The bucket of a value in us; values above `HIGHEST_US` are clamped."""
    if value_us < 256:
        return value_us
    if value_us > HIGHEST_US:
        value_us = HIGHEST_US
    shift = value_us.bit_length() - 8
    return (shift << 7) + (value_us >> shift)


def bounds(bucket: int) -> tuple[int, int]:
    """The lowest and highest value of a bucket in us, both inclusive. Raises ValueError for an invalid bucket."""
    if bucket >= BUCKETS:
        raise ValueError(f"a histogram with a bucket beyond {BUCKETS - 1}")
    if bucket < 256:
        return bucket, bucket
    shift = (bucket >> 7) - 1
    low = (bucket - (shift << 7)) << shift
    return low, low + (1 << shift) - 1


def merge(histograms: Iterable[Mapping[int, int]]) -> Counts:
    total: Counter[int] = Counter()
    for histogram in histograms:
        total.update(histogram)
    return dict(total)


def quantile_us(histogram: Mapping[int, int], q: float) -> int | None:
    """Upper bound in us of the `q`-quantile's bucket (0.99: the 99th percentile); None for an empty histogram."""
    return quantiles_us(histogram, (q,))[0]


def quantiles_us(histogram: Mapping[int, int], ascending: Sequence[float]) -> list[int | None]:
    """Several quantiles, ascending, in one pass: see `quantile_us`."""
    total, seen = sum(histogram.values()), 0
    wanted = [max(1, -(-int(q * total * 1_000_000) // 1_000_000)) for q in ascending]
    quantiles: list[int | None] = []
    for bucket in sorted(histogram):
        seen += histogram[bucket]
        while len(quantiles) < len(wanted) and seen >= wanted[len(quantiles)]:
            quantiles.append(bounds(bucket)[1])
    return quantiles + [None] * (len(wanted) - len(quantiles))


def point_us(histogram: Mapping[int, int], q: float) -> float | None:
    """The `q`-quantile in us, with values spread evenly over their bucket; None for an empty histogram.

    For ratios of quantiles: bounds of buckets, up to 1% apart, would be equal in all pairs, or differ by that.
    """
    rank = q * sum(histogram.values())
    for bucket in sorted(histogram):
        count = histogram[bucket]
        if count and rank <= count:
            low, high = bounds(bucket)
            return low + (high + 1 - low) * rank / count
        rank -= count
    return None


def pack(histogram: Mapping[int, int]) -> bytes:
    """The sparse form for storage: pairs of little-endian 32-bit bucket and count, ordered by bucket."""
    pairs = array("I")
    for bucket in sorted(histogram):
        if histogram[bucket]:
            pairs.extend((bucket, histogram[bucket]))
    return pairs.tobytes()


def unpack(blob: bytes) -> Counts:
    """Parse the sparse form. Raises ValueError for anything that `pack` does not make."""
    pairs = array("I")
    pairs.frombytes(blob)
    bounds(max(pairs[::2], default=0))
    return dict(zip(pairs[::2], pairs[1::2], strict=True))

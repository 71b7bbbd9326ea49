"""The histogram's layout and arithmetic, against a plain list of values."""

from __future__ import annotations

import math
import struct
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.client import histogram
from workloads.client.counter_page import Page, Word
from workloads.client.process import recorder

values = st.one_of(st.integers(0, 1000), st.integers(0, histogram.HIGHEST_US))


def test_buckets_cover_all_values_without_gap_or_overlap() -> None:
    expected = 0
    for bucket in range(histogram.BUCKETS):
        low, high = histogram.bounds(bucket)
        assert low == expected
        assert histogram.index(low) == histogram.index(high) == bucket
        expected = high + 1
    assert expected == histogram.HIGHEST_US + 1


@given(values)
def test_a_value_lies_in_its_bucket_which_is_narrow(value: int) -> None:
    low, high = histogram.bounds(histogram.index(value))
    assert low <= value <= high
    assert high - low <= value / 128


def test_values_beyond_the_highest_count_as_the_highest() -> None:
    assert histogram.index(histogram.HIGHEST_US * 5) == histogram.BUCKETS - 1


@given(st.lists(values, min_size=1), st.integers(0, 1000))
def test_quantile_is_the_bucket_bound_of_the_sorted_values(sample: list[int], permille: int) -> None:
    counts = Counter(histogram.index(value) for value in sample)
    rank = max(1, math.ceil(Fraction(permille, 1000) * len(sample)))
    wanted = histogram.bounds(histogram.index(sorted(sample)[rank - 1]))[1]
    assert histogram.quantile_us(counts, permille / 1000) == wanted


@given(st.lists(st.dictionaries(st.integers(0, histogram.BUCKETS - 1), st.integers(1, 2**31))))
def test_merging_adds_and_packing_loses_nothing(parts: list[dict[int, int]]) -> None:
    total: Counter[int] = Counter()
    for part in parts:
        total.update(part)
        assert histogram.unpack(histogram.pack(part)) == part
    assert histogram.merge(parts) == dict(total)


@pytest.mark.parametrize("blob", [b"12345", b"1234" * 3, struct.pack("<II", histogram.BUCKETS, 1)])
def test_what_no_histogram_packs_to_is_refused(blob: bytes) -> None:
    with pytest.raises(ValueError):
        histogram.unpack(blob)


@given(st.lists(st.tuples(st.integers(0, 20 * 10**9), st.integers(0, 10**9), st.integers(0, 50)), max_size=50))
def test_recorder_counts_what_it_is_told(statements: list[tuple[int, int, int]]) -> None:
    page = Page.create(2)
    try:
        record = recorder(page, 1, 50, limited=True)
        for took_ns, late_ns, rows in statements:
            began = 10**9
            page.set_word(1, Word.IN_FLIGHT_NS, began)
            record(began, began + took_ns, rows, began - late_ns)
            assert page.word(1, Word.IN_FLIGHT_NS) == 0
        took = [took_ns for took_ns, _, _ in statements]
        response = [took_ns + late_ns for took_ns, late_ns, _ in statements]
        assert page.word(1, Word.STATEMENTS) == len(statements)
        assert page.word(1, Word.ROWS) == 50 * len(statements)
        assert page.word(1, Word.ROWS_ACTUAL) == sum(rows for _, _, rows in statements)
        assert page.word(1, Word.SERVICE_NS) == sum(took)
        assert page.word(1, Word.MAX_NS) == max(took, default=0)
        assert page.word(1, Word.LATE_MAX_NS) == max(response, default=0)
        for offset, times in ((256, took), (256 + histogram.BUCKETS, response)):
            live = {bucket: count for bucket, count in enumerate(page.counts(1, offset)) if count}
            assert live == Counter(histogram.index(ns // 1000) for ns in times)
        bounds = [bound for _, bound in histogram.REFERENCE_BUCKETS]
        for number, bound in enumerate(bounds):
            low = bounds[number - 1] if number else -1
            expected = sum(1 for ns in took if low is not None and low < ns and (bound is None or ns <= bound))
            assert page.words[page.slot(1) + Word.BUCKET_0 + number] == expected
        assert not any(page.words[page.slot(0) : page.slot(1)])
    finally:
        page.close()


@given(st.lists(values, min_size=1), st.floats(0.001, 1.0))
def test_a_point_lies_in_the_bucket_of_its_quantile(sample: list[int], q: float) -> None:
    counts = Counter(map(histogram.index, sample))
    point = histogram.point_us(counts, q)
    assert point is not None
    low, high = histogram.bounds(histogram.index(sorted(sample)[min(len(sample), math.ceil(q * len(sample))) - 1]))
    assert low * (1 - 1e-9) <= point <= (high + 1) * (1 + 1e-9)


def test_points_of_one_bucket_differ_by_its_counts() -> None:
    first, second = ({10: 60, 11: 40}, {10: 52, 11: 48})
    assert histogram.point_us(first, 0.5) == pytest.approx(10 + 50 / 60)
    assert histogram.point_us(second, 0.5) == pytest.approx(10 + 50 / 52)
    assert histogram.point_us({}, 0.5) is None

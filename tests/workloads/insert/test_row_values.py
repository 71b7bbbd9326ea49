"""The row generator: value ranges, text forms, lengths, dates, seeds."""

from __future__ import annotations

import itertools
import re
import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.client import seeds
from workloads.insert import row_values
from workloads.insert.ddl import insert_head

TEXT = row_values.text_buffer(seeds.stream(0, "text"))
HEAD = insert_head("pi1").encode()
ROW = re.compile(rb"\('(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)',(\d+),(\d+),(\d+),(\d+\.\d\d),'(a*)([A-Za-z0-9+/=]*)'\)")
RANDOM = {10: 3, 11: 4, 12: 4, 13: 4, 14: 5, 15: 5, 16: 6, 17: 6, 18: 6, 19: 7, 20: 7}


def statements(count: int, size: int, price: str = "integer", seed: int = 1, **kw: object) -> list[bytes]:
    block = row_values.RowBlock(seeds.stream(seed, "rows"), TEXT, price, row_values.block_rows(size))
    following = row_values.insert_statements(block, size, HEAD, **kw)  # type: ignore[arg-type]
    return [following() for _ in range(count)]


def values(texts: list[bytes]) -> np.ndarray:
    return np.array([
        (int(m[2]), int(m[3]), int(m[4]), float(m[5])) for text in texts for m in ROW.finditer(text)
    ])  # fmt: skip


@given(st.integers(1, 100), st.sampled_from(["integer", "real"]), st.integers(0, 2**64))
@settings(max_examples=30, deadline=None)
def test_a_statement_is_whole_and_of_its_rows_only(size: int, price: str, seed: int) -> None:
    for text in statements(3, size, price, seed):
        assert text.startswith(HEAD)
        tuples = text[len(HEAD) :]
        matches = list(ROW.finditer(tuples))
        assert len(matches) == size
        assert b",".join(match[0] for match in matches) == tuples


def test_numbers_are_uniform_over_their_ranges_and_bare() -> None:
    texts = statements(400, 100)
    assert not re.search(rb",0\d", b"".join(texts))
    numbers = values(texts)
    for column, limit in enumerate((1000, 100_000, 10_000, 500)):
        drawn = numbers[:, column]
        assert drawn.min() >= 0
        assert drawn.max() < limit
        assert drawn.max() > 0.99 * limit
        assert abs(drawn.mean() / limit - 0.5) < 0.01
        assert (drawn == np.floor(drawn)).all()
    assert np.abs(np.corrcoef(numbers.T) - np.eye(4)).max() < 0.02


def test_prices_of_2022_follow_the_customer() -> None:
    numbers = values(statements(400, 100, "real"))
    customers, prices = numbers[:, 1], numbers[:, 3]
    assert ((prices * 100 - customers > -1) & (prices * 100 - customers <= 500)).all()
    assert np.corrcoef(customers, prices)[0, 1] > 0.9999


def test_texts_have_the_lengths_and_random_tails_of_the_rule() -> None:
    lengths: Counter[int] = Counter()
    tails: set[bytes] = set()
    for text in statements(200, 100):
        for match in ROW.finditer(text):
            value = match[6] + match[7]
            lengths[len(value)] += 1
            tail = value[len(value) - RANDOM[len(value)] :]
            assert value == b"a" * (len(value) - len(tail)) + tail
            tails.add(tail)
    assert all(tail in TEXT for tail in itertools.islice(tails, 100))
    assert set(lengths) == set(range(10, 21))
    assert max(lengths.values()) < 1.2 * min(lengths.values())
    assert {n: row_values.random_length(n) for n in RANDOM} == RANDOM


def test_buffer_is_base64_of_four_mebibytes() -> None:
    assert len(TEXT) == -(-row_values.TEXT_BYTES // 3) * 4
    assert re.fullmatch(rb"[A-Za-z0-9+/]+=*", TEXT)


def test_rows_of_a_statement_carry_the_second_of_its_making() -> None:
    ticks = iter([1000.2, 1000.9, 1001.0] + [1002.5 + n / 100 for n in range(200)])
    times = [1000, 1000, 1001] + [int(1002.5 + n / 100) for n in range(200)]
    for text, second in zip(statements(203, 50, clock=lambda: next(ticks)), times, strict=True):
        dates = {match[1].decode() for match in ROW.finditer(text)}
        assert dates == {time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))}


def test_same_seed_same_rows_and_other_seeds_other_rows() -> None:
    def clock() -> float:
        return 1000.0

    assert statements(60, 50, clock=clock) == statements(60, 50, clock=clock)
    assert statements(1, 50, clock=clock) != statements(1, 50, seed=2, clock=clock)
    streams = [seeds.stream(1, *names) for names in (("l.i0", 0, 1), ("l.i0", 1, 1), ("l.i0", 0, 2), ("l.i1", 0, 1))]
    assert len({int(stream.integers(2**62)) for stream in streams}) == 4


def test_rows_do_not_depend_on_how_many_go_into_a_statement() -> None:
    small = values(statements(400, 5))
    large = values(statements(40, 50))
    assert (small == large).all()


def test_a_block_of_broken_statements_is_refused() -> None:
    with pytest.raises(ValueError, match="whole statements"):
        row_values.insert_statements(row_values.RowBlock(seeds.stream(0), TEXT, "integer", 99), 50, b"")

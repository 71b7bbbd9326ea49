"""The estimate of disk space, and the refusal when there is too little."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import space
from engine.errors import UserError
from engine.model import Config
from workloads.insert.steps import plan_steps

SMALL_WAL = Config("small", (("max_wal_size", "1GB"),), "test")
LARGE_WAL = Config("large", (("max_wal_size", "40GB"),), "test")


def test_too_little_space_says_need_and_have(tmp_path: Path) -> None:
    space.check(tmp_path / "not" / "made" / "yet", 1)
    with pytest.raises(UserError, match=r"has [\d.]+ \wB free, and 1024.0 TB are needed: .*--out"):
        space.check(tmp_path, 1 << 50)


def test_the_reference_cached_size_is_estimated_near_what_it_was() -> None:
    """50M rows: 206 bytes a row after l.x, 375 once all are replaced, plus 40 GB of WAL."""
    steps = plan_steps("g24b", scale=50_000_000, rows_written=50_000_000)
    estimate = space.estimate_bytes(steps, 1, LARGE_WAL)
    assert 50e6 * 375 + 40 * 2**30 <= estimate <= 1.3 * (50e6 * 375 + 40 * 2**30)


@given(st.integers(1000, 10_000_000), st.integers(1, 16))
def test_more_rows_clients_or_wal_never_need_less(rows: int, clients: int) -> None:
    steps = plan_steps("g24b", scale=rows, rows_written=rows)
    estimate = space.estimate_bytes(steps, clients, SMALL_WAL)
    assert estimate <= space.estimate_bytes(steps, clients, LARGE_WAL)
    assert estimate <= space.estimate_bytes(steps, clients + 1, SMALL_WAL)
    assert estimate <= space.estimate_bytes(plan_steps("g24b", scale=rows * 2, rows_written=rows), clients, SMALL_WAL)


def test_rows_that_are_not_deleted_stay() -> None:
    kept = space.estimate_bytes(plan_steps("g22", scale=1_000_000, rows_written=4_000_000), 1, SMALL_WAL)
    replaced = space.estimate_bytes(plan_steps("g24b", scale=1_000_000, rows_written=4_000_000), 1, SMALL_WAL)
    assert kept > replaced


@pytest.mark.parametrize("text, expected", [
    ("40GB", 40 << 30), ("16", 16 << 20), ("1.5GB", 3 << 29), ("64kB", 65536), ("10 MB", 10 << 20),
])  # fmt: skip
def test_sizes_are_read_as_postgresql_writes_them(text: str, expected: int) -> None:
    assert space.size_bytes(text, "MB") == expected


def test_what_is_no_size_is_an_error() -> None:
    with pytest.raises(UserError, match="'lots' is not a size"):
        space.size_bytes("lots", "MB")


@pytest.mark.parametrize("size, text", [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 kB"), (3 << 29, "1.5 GB")])
def test_sizes_are_shown_in_a_fitting_unit(size: int, text: str) -> None:
    assert space.readable(size) == text

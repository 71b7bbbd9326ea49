"""The estimate of disk space, and the refusal when there is too little."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core import format
from engine.core.errors import UserError
from engine.host import disk
from workloads.insert.estimates import expected_bytes
from workloads.insert.steps import plan_steps

SMALL_WAL, LARGE_WAL = 1 << 30, 40 << 30


def test_too_little_space_says_need_and_have(tmp_path: Path) -> None:
    disk.check(tmp_path / "not" / "made" / "yet", 1)
    with pytest.raises(UserError, match=r"has [\d.]+ \wB free but 1024 TB are needed: .*--out"):
        disk.check(tmp_path, 1 << 50)


def test_the_reference_cached_size_is_estimated_near_what_it_was() -> None:
    """50M rows: 206 bytes a row after l.x, 375 once all are replaced, plus 40 GB of WAL."""
    steps = plan_steps("g24b", scale=50_000_000, rows_written=50_000_000)
    estimate = expected_bytes(steps, 1, LARGE_WAL)
    assert 50e6 * 375 + 40 * 2**30 <= estimate <= 1.3 * (50e6 * 375 + 40 * 2**30)


@given(st.integers(1000, 10_000_000), st.integers(1, 16))
def test_more_rows_clients_or_wal_never_need_less(rows: int, clients: int) -> None:
    steps = plan_steps("g24b", scale=rows, rows_written=rows)
    estimate = expected_bytes(steps, clients, SMALL_WAL)
    assert estimate <= expected_bytes(steps, clients, LARGE_WAL)
    assert estimate <= expected_bytes(steps, clients + 1, SMALL_WAL)
    assert estimate <= expected_bytes(plan_steps("g24b", scale=rows * 2, rows_written=rows), clients, SMALL_WAL)


def test_rows_that_are_not_deleted_stay() -> None:
    kept = expected_bytes(plan_steps("g22", scale=1_000_000, rows_written=4_000_000), 1, SMALL_WAL)
    replaced = expected_bytes(plan_steps("g24b", scale=1_000_000, rows_written=4_000_000), 1, SMALL_WAL)
    assert kept > replaced


@pytest.mark.parametrize("text, expected", [
    ("40GB", 40 << 30), ("16", 16 << 20), ("1.5GB", 3 << 29), ("64kB", 65536), ("10 MB", 10 << 20),
])  # fmt: skip
def test_sizes_are_read_as_postgresql_writes_them(text: str, expected: int) -> None:
    assert format.size_bytes(text, "MB") == expected


def test_what_is_no_size_is_an_error() -> None:
    for text in ("lots", "9" * 400, "²GB"):
        with pytest.raises(UserError, match=f"'{text}' is not a size"):
            format.size_bytes(text, "MB")


@pytest.mark.parametrize("size, text", [(0, "0 B"), (1023, "1023 B"), (1536, "1.50 kB"), (3 << 29, "1.50 GB")])
def test_sizes_are_shown_in_a_fitting_unit(size: int, text: str) -> None:
    assert format.size(size) == text

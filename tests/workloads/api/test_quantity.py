"""Numbers as people write them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.api.options import Option
from workloads.api.quantity import UNITS, figure


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("20M", "", 20_000_000), ("400k", "", 400_000), ("1.5k", "", 1500), ("1e6", "", 1_000_000),
        ("2g", "", 2 * 10**9), ("100 000", "", 100_000), ("100,000", "", 100_000), ("1_000_000", "", 10**6),
        (" 7 ", "", 7), ("20 M", "", 20_000_000), ("-5", "", -5), ("1h", "s", 3600), ("1h30m", "s", 5400),
        ("90", "s", 90), ("90s", "s", 90), ("1.5 h", "s", 5400), ("2h", "min", 120), ("90", "min", 90),
        ("90s", "min", Fraction(3, 2)), ("10 minutes", "min", 10), ("0.05s", "ms", 50), ("50ms", "ms", 50),
        ("50", "ms", 50), ("2%", "share", Fraction(1, 50)), ("0.02", "share", Fraction(1, 50)),
        ("2d", "s", 172_800),
    ],
)  # fmt: skip
def test_what_people_write(text: str, unit: str, value: Fraction) -> None:
    assert figure(text, unit) == value


@pytest.mark.parametrize(
    ("text", "unit"),
    [("", ""), ("abc", ""), ("20MB", ""), ("1h", ""), ("1,5", ""), ("2%", ""), ("1k5", ""), ("inf", ""), ("nan", "s"),
     ("1e999", ""), ("0x10", ""), ("3q", "s"), ("1h-5m", "s"), ("9" * 50, ""), ("1..5", ""),
     ("1 2", ""), ("10 20", ""), ("1 000 2", ""), ("k", ""), ("\u0661", "")],
)  # fmt: skip
def test_what_is_no_number(text: str, unit: str) -> None:
    with pytest.raises(ValueError, match="is not a "):
        figure(text, unit)


@given(st.text(max_size=12), st.sampled_from(UNITS))
def test_whatever_is_typed_is_a_number_or_refused(text: str, unit: str) -> None:
    try:
        figure(text, unit)
    except ValueError as error:
        assert "is not a" in str(error)


@given(st.integers(0, 10**12))
def test_a_number_is_read_back_however_it_is_grouped(number: int) -> None:
    for text in (str(number), f"{number:,}", f"{number:_}", f"{number:,}".replace(",", " ")):
        assert figure(text) == number


def test_a_number_out_of_bounds_says_what_may_be_given() -> None:
    rows = Option("rows", "", "int", None, least=1000, most=10**12)
    assert rows.parsed("400k") == 400_000 and rows.refusal(400_000) == ""
    assert rows.refusal(rows.parsed("5")) == "5 is too small: give at least 1,000"
    assert rows.refusal(rows.parsed("2000 G")) == "2,000,000,000,000 is too large: give at most 1,000,000,000,000"
    with pytest.raises(ValueError, match=r"'1.5' is not a whole number"):
        rows.parsed("1.5")
    assert Option("clients", "", "int", None, many=True).parsed("1, 2k") == [1, 2000]

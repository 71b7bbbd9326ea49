"""The division of a terminal of any size by the Live screen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.live.bindings import BINDINGS
from tui.live.layout import LiveLayout

SIZES = st.tuples(st.integers(1, 400), st.integers(1, 200))


def layout(columns: int, rows: int, *, interleaved: bool = False) -> LiveLayout:
    return LiveLayout(columns, rows, interleaved=interleaved, log=False, heat=False)


@given(SIZES, st.booleans(), st.integers(0, 60), st.integers(0, 8))
def test_the_log_has_one_row_or_more_and_leaves_room(
    size: tuple[int, int], interleaved: bool, lines: int, roles: int
) -> None:
    height, crowded = layout(*size, interleaved=interleaved).log_rows(lines, roles)
    assert 1 <= height <= 8
    assert not crowded or layout(*size).tall


@pytest.mark.parametrize("replay", [False, True])
@pytest.mark.parametrize("interleaved", [False, True])
def test_keys_left_out_are_bindings_and_fewer_if_wider(replay: bool, interleaved: bool) -> None:
    narrow, wide, widest = (
        set(layout(columns, 50, interleaved=interleaved).hidden_keys(replay=replay)) for columns in (80, 130, 200)
    )
    assert widest < wide < narrow <= {binding.id for binding in BINDINGS}
    assert ("live.mark" in widest) == replay and ("live.build" in widest) == (not interleaved)

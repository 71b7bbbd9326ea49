"""Values as lines of text."""

from __future__ import annotations

import pytest

from engine.report.tables.text_plots import COLUMNS, ROWS, scatter, strip


@pytest.mark.parametrize(
    ("values", "expected"),
    [([0.0, 10.0], "o···o"), ([0.0, 0.0, 10.0], "2···o"), ([5.0], "··o··"), ([0.0] * 12 + [10.0], "9···o")],
)
def test_every_cell_is_a_dot(values: list[float], expected: str) -> None:
    assert strip(values, min(values), max(values), columns=5) == expected


def test_a_chart_draws_every_point_once() -> None:
    points = [(0.0, 5.0), (10.0, 5.0), (5.0, 7.0), (5.0, 7.0), (5.0, 6.0)]
    lines = scatter(points, 10.0, 5.0, 7.0)
    assert len(lines) == ROWS and {len(line) for line in lines} == {COLUMNS}
    assert "".join(lines).strip("·").count("o") == 3 and "2" in lines[0] and "o" in lines[ROWS // 2]
    assert scatter([(0.0, 5.0)], 0.0, 5.0, 5.0)[ROWS // 2][0] == "o"

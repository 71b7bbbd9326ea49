"""Changes in series of many runs are named where they are."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from engine.analysis.series import trend_changes
from engine.analysis.series.trend import IndexedRun, StepFigures, TrendSeries, series

STEPS, POINTS = 10, 30
Rows = npt.NDArray[np.float64]


def noise(random: np.random.Generator, memory: float) -> Rows:
    """A folder's deviations: of two builds' steps, each point keeping a part of the deviation of the one before."""
    rows: Rows = random.standard_normal((2 * STEPS, POINTS))
    rows[:, 0] /= np.sqrt(1 - memory**2)
    for point in range(1, POINTS):
        rows[:, point] += memory * rows[:, point - 1]
    rows *= np.sqrt(1 - memory**2)
    return rows


def folder(rows: Rows) -> list[TrendSeries]:
    """The series of a folder with a run for each point, in the rows' order."""
    runs = [
        (f"run{point:03}", IndexedRun((), f"2026-01-01T{point:03}", tuple(
            StepFigures("measured", f"step{row:02}", "17.0", "17.0", True, 0, 1, {"rate_per_s": value}, "own", "", "")
            for row, value in enumerate(values)
        )))
        for point, values in enumerate(rows.T.tolist())
    ]  # fmt: skip
    return series(runs, "rate_per_s", None, "date", 0.02)


def places(row: TrendSeries) -> list[int]:
    return [row.points.index(change.after) for change in row.changes or ()]


def test_a_four_percent_change_is_found_among_twenty_series() -> None:
    rows = 100 + noise(np.random.default_rng(2), 0.0)
    rows[::2, POINTS // 2 :] *= 0.96
    trends = folder(rows)
    near = [trend for trend in trends[::2] if len(places(trend)) == 1 and abs(places(trend)[0] - POINTS // 2) <= 2]
    assert len(near) >= STEPS - 1 and not any(trend.changes for trend in trends[1::2])


def test_a_stretch_has_both_edges_and_an_odd_night_none() -> None:
    rows = 100 + 0.5 * noise(np.random.default_rng(3), 0.0)
    rows[0, 10:20] *= 0.96
    rows[1, 12] *= 0.9
    trends = folder(rows)
    assert [places(trend) for trend in trends[:3]] == [[10, 20], [], []]
    ratios = [change.ratio for change in trends[0].changes or ()]
    assert ratios == pytest.approx([0.96, 1 / 0.96], abs=0.01)


def test_p_is_of_all_series_together() -> None:
    rows = 100 + noise(np.random.default_rng(2), 0.0)
    rows[0, POINTS // 2 :] *= 0.96
    ((alone,), (among,)) = (trends[0].changes or () for trends in (folder(rows[:1]), folder(rows)))
    assert among.p == pytest.approx(alone.p * len(rows)) and alone.p < among.p < 0.05


def test_levels_that_differ_by_less_than_the_margin_are_one() -> None:
    rows = np.full((1, POINTS), 100.0)
    rows[0, 10:] += 1.5
    rows[0, 20:] += 10
    assert places(folder(rows)[0]) == [20]


@pytest.mark.parametrize("count", [6, 9, 12, 30, 60])
def test_what_is_called_weak_is_no_change_in_a_series_by_itself(count: int) -> None:
    for shape, share in trend_changes.SHARES.items():
        common = trend_changes.p_value(trend_changes.WEAK, count, shape) / share
        assert common > trend_changes.LEVEL or count < 3 * trend_changes.LEAST

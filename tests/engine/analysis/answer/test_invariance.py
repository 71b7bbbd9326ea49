"""Invariances of a comparison: the order of runs, the labels of builds, the unit and the origin of time."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from engine.analysis.answer.compare import compare
from engine.results.ratio import PRIMARY_METRICS
from tests.support.journal import make_run

BUILDS = ("16.3", "17.0")
PLANS: Mapping[str, dict[str, Any]] = {"cells": {"noise": 0.01}, "slices": {"blocks": 30}}
WORDS = ("subject", "build", "reasons", "left_out", "missing")  # which name runs or builds
TIMES = {  # columns that hold a moment, by table
    "attempt": ("started_ns", "ended_ns"),
    "step": ("started_ns", "ended_ns"),
    "role_second": ("t_ns",),
    "sample": ("t_ns",),
    "wait_second": ("t_ns",),
    "slice": ("opened_ns", "counted_from_ns"),
    "session": ("monotonic_ns",),
}

Figures = dict[tuple[str, str], dict[str, Any]]


def written(folder: Path, plan: str, builds: Sequence[str] = BUILDS) -> list[Path]:
    """Runs in which the second build is slower in a step of queries and faster in one of writes."""
    effects = {(builds[1], "qr100"): 0.93, (builds[1], "l.i1"): 1.08}
    return [make_run(folder / f"r{n}", builds=builds, effects=effects, seed=n, **PLANS[plan]) for n in (1, 2, 3)]


def figures(runs: Sequence[Path], base: str = BUILDS[0]) -> Figures:
    """All of each ratio but words, by step and metric, to seven digits."""
    return {
        (ratio.step, ratio.metric): {name: rounded(value) for name, value in asdict(ratio).items() if name not in WORDS}
        for ratio in compare(runs, base).ratios
    }


def rounded(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(rounded, value))
    return float(f"{value:.7g}") if isinstance(value, float) else value


def change(runs: Sequence[Path], *statements: str) -> None:
    for run in runs:
        with closing(sqlite3.connect(run / "journal.db")) as journal, journal:
            for statement in statements:
                journal.execute(statement)


@pytest.fixture(params=PLANS)
def plan(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_order_of_runs_does_not_matter(tmp_path: Path, plan: str) -> None:
    first, second, third = written(tmp_path, plan)
    expected = figures([first, second, third])
    assert {verdict for row in expected.values() if (verdict := row["verdict"])} >= {"slower", "faster"}
    assert figures([third, first, second]) == expected == figures([second, first, third])


def test_labels_do_not_matter(tmp_path: Path, plan: str) -> None:
    renamed = written(tmp_path / "renamed", plan, ("z 17.0", "\u00fc"))
    assert figures(renamed, "z 17.0") == figures(written(tmp_path / "named", plan))


def test_the_origin_of_time_does_not_matter(tmp_path: Path, plan: str) -> None:
    runs, shift_ns = written(tmp_path, plan), 10**16 + 1
    expected = figures(runs)
    change(
        runs,
        *(
            f"UPDATE {table} SET {', '.join(f'{column} = {column} + {shift_ns}' for column in columns)}"
            for table, columns in TIMES.items()
        ),
    )
    assert figures(runs) == expected


@pytest.mark.parametrize("unit", [0.5, 1.7])
def test_the_unit_of_time_does_not_matter_for_what_is_judged(tmp_path: Path, plan: str, unit: float) -> None:
    """Everything takes `unit` times as long, on both servers, and as much less is asked of each second."""
    runs = written(tmp_path, plan)
    expected = figures(runs)
    in_unit = "json_set({0}, '$.{1}', json_extract({0}, '$.{1}') * {2})".format
    change(
        runs,
        f"UPDATE step SET plan = {in_unit('plan', 'seconds', unit)}, totals = {in_unit('totals', 'seconds', unit)}",
        f"UPDATE step SET totals = {in_unit('totals', 'rate_target_per_s', 1 / unit)}",
        f"UPDATE slice SET counted_ns = CAST(round(counted_ns * {unit}) AS INTEGER)",
    )
    rows = figures(runs)
    judged = [key for key in expected if key[1] in PRIMARY_METRICS]
    assert judged and [rows[key] for key in judged] == [expected[key] for key in judged]

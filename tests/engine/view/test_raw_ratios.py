"""What is known of a comparison before it is judged is what the judged one says."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from engine.analysis.compare import compare
from engine.core.errors import UserError
from engine.results.comparison import RATE, TIME
from engine.view.raw_ratios import finished_cells, measured
from tests.support.journal import make_run


@pytest.mark.parametrize("run", ["recording", "sliced_recording"])
def test_medians_and_cells_are_those_of_the_comparison(run: str, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue(run)
    known, judged = measured(folder), compare([folder])
    assert known is not None and finished_cells(folder) == len({cell.cell for cell in judged.cells})
    for name in ("base", "names", "steps", "runs", "pairs", "design", "units", "margin", "workload", "builds"):
        assert getattr(known, name) == getattr(judged, name), name
    for subject in judged.names:
        for step in judged.steps:
            for metric in (RATE, TIME):
                assert known.values(subject, step, metric) == judged.values(subject, step, metric)
    assert not known.ratios and "Not judged yet" in known.answer_for(known.others[0].name)[0]


def test_where_nothing_can_be_compared_there_is_nothing(recording: Path, tmp_path: Path) -> None:
    assert measured(make_run(tmp_path / "one", builds=("16.3",), repeats=2)) is None
    with sqlite3.connect(recording / "journal.db") as journal:
        journal.execute("UPDATE attempt SET state = 'running'")
    journal.close()
    assert measured(recording) is None
    with pytest.raises(UserError):
        measured(tmp_path)

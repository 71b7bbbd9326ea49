"""Runs as Parquet: beside each other in one folder, each whole or not at all."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow.dataset
import pytest

from engine.core.errors import UserError
from engine.report import parquet
from tests.support.journal import make_run


def rows(folder: Path) -> list[tuple[str, str, float]]:
    found = pyarrow.dataset.dataset(folder / "steps").to_table().to_pylist()
    return [(row["run"], row["cell"], row["rate_per_s"]) for row in found]


def test_runs_stand_beside_each_other_and_each_is_there_once(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / name) for name in ("one", "two")]
    parquet.export(runs[:1], tmp_path / "out")
    alone = rows(tmp_path / "out")
    parquet.export(runs, tmp_path / "out")
    both = rows(tmp_path / "out")
    assert {run for run, *_ in both} == {"one", "two"}
    assert [row for row in both if row[0] == "one"] == alone and len(both) == 2 * len(alone)


@pytest.mark.parametrize("data", [{"runq_us": [[1 << 40, 1]]}, {"runq_us": [1]}, {"runq_us": [["1", 2, 3]]}])
def test_a_damaged_histogram_is_named_and_nothing_of_its_table_is_left(tmp_path: Path, data: object) -> None:
    run = make_run(tmp_path / "run")
    with closing(sqlite3.connect(run / "journal.db")) as journal, journal:
        (step,) = journal.execute("SELECT id FROM step WHERE totals IS NOT NULL LIMIT 1").fetchone()
        values = (step, 10**9, 10**9, "sched", "query", json.dumps(data), "{}")
        journal.execute("INSERT INTO probe_frame VALUES (?, ?, ?, ?, ?, ?, ?)", values)
    with pytest.raises(UserError, match=r"table frames|probe_frame"):
        parquet.export([run], tmp_path / "out")
    assert not list((tmp_path / "out").glob("frames/*"))


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file: cannot write the export"):
        parquet.export([run], tmp_path / "file")

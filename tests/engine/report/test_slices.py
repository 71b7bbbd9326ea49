"""The record of slices as it is handed out: the table of an export."""

from __future__ import annotations

import csv
from pathlib import Path

from engine.report import export
from tests.support.made_run import make_run, made_slices

RATES = {"16.3": 8000.0, "17.0": 7600.0}


def test_an_export_has_every_column_of_every_slice_and_no_published_lines(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", repeats=2, slices=lambda cell, step: made_slices(cell, step, RATES, blocks=3))
    names = {path.name for path in export.export(run, tmp_path / "export")}
    assert "slices.csv" in names
    assert "published.tsv" not in names and not (tmp_path / "export" / "ibench").exists()
    with (tmp_path / "export" / "slices.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 2 * 3 * 2
    assert {row["step"] for row in rows} == {"qr100"}
    base = [row for row in rows if row["cell"] == "001-16.3-auto-r1"]
    assert [(row["block"], row["place"]) for row in base[:3]] == [("1", "0"), ("1", "3"), ("2", "0")]
    opened_ns = int(base[0]["opened_ns"])
    assert base[0] == {
        "cell": "001-16.3-auto-r1", "step": "qr100", "block": "1", "place": "0", "opened_ns": str(opened_ns),
        "counted_from_ns": str(opened_ns + 2_000_000), "counted_ns": "48000000", "ops": "384", "rows": "3840",
        "cpu_ns": "38400000", "cpu_ops": "384", "runq_ns": "5000000", "leak_ns": "200000", "stopped_processes": "1",
        "switch_ns": "400000",
    }  # fmt: skip


def test_a_run_of_whole_cells_has_no_table_of_slices(tmp_path: Path) -> None:
    names = {path.name for path in export.export(make_run(tmp_path / "r", repeats=1), tmp_path / "export")}
    assert "slices.csv" not in names and "published.tsv" in names

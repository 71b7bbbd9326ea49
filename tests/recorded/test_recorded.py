"""Recorded runs are read, compared and exported.

`two-configs-aa` and `two-majors`: 17.0 under two configs, each against itself, and 12.11
against 16.3 with probes. The terminal's tests have a third, with stalls.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet
import pytest

from engine.analysis.compare import compare
from engine.journal.manifest import read_manifest
from engine.journal.reader import JournalReader
from engine.report import export, parquet, render
from engine.results.comparison import Comparison
from probes import buckets

HERE = Path(__file__).parent
RECORDED = {
    "two-configs-aa": HERE / "two-configs-aa",
    "two-majors": HERE / "two-majors",
    "stalled": HERE.parent / "tui" / "recordings" / "two-builds",
}
SUBJECTS = {
    "two-configs-aa": ["cx9a2_c8r32", "cx9a2_c8r32 A/A", "cx7", "cx7 A/A"],
    "two-majors": ["12.11-prebuilt", "16.3-prebuilt"],
    "stalled": ["14.10-prebuilt", "16.3-prebuilt"],
}


@pytest.fixture(params=RECORDED)
def recorded(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """A recorded run's name here, and a copy of it."""
    source, run = RECORDED[request.param], tmp_path / "run"
    (run / "cells").mkdir(parents=True)
    shutil.copyfile(source / "manifest.json", run / "manifest.json")
    (run / "journal.db").write_bytes(gzip.decompress((source / "journal.db.gz").read_bytes()))
    return request.param, run


def totals(run: Path) -> list[dict[str, Any]]:
    """What each finished step came to, as it stands in the journal."""
    with closing(sqlite3.connect(f"file:{run / 'journal.db'}?mode=ro", uri=True)) as journal:
        rows = journal.execute("SELECT totals FROM step WHERE totals IS NOT NULL ORDER BY id").fetchall()
    return [json.loads(text) for (text,) in rows]


def test_the_manifest_is_read_whole(recorded: tuple[str, Path]) -> None:
    run = recorded[1]
    raw = json.loads((run / "manifest.json").read_text())
    manifest = read_manifest(run)
    assert [cell.id for cell in manifest.cells] == [cell["id"] for cell in raw["cells"]]
    assert [build.prefix for build in manifest.builds] == [build["prefix"] for build in raw["builds"]]
    assert {key: [list(pair) for pair in config.settings] for key, config in manifest.configs.items()} == {
        key: config["settings"] for key, config in raw["configs"].items()
    }
    assert manifest.allow_concurrent == raw["allow_concurrent"]
    assert (manifest.workload, manifest.environment) == (raw["workload"], raw["environment"])


def test_every_row_of_the_journal_is_read(recorded: tuple[str, Path]) -> None:
    run = recorded[1]
    with JournalReader(run) as reader:
        steps = [step for attempt in reader.attempts() for step in reader.steps(attempt.id)]
        found = [step.totals for step in steps if step.totals is not None]
        for raw, counted in zip(totals(run), found, strict=True):
            assert (counted.seconds, counted.server_cpu_ns) == (raw["seconds"], raw["server_cpu_ns"])
            assert counted.roles.keys() == raw["roles"].keys()
        for step in steps:
            roles = reader.roles(step.id)
            seconds = [second for role in roles for second in reader.role_seconds(role.id)]
            assert len(seconds) == len(reader.counts(step.id))
            sources = {source for *_, source, _ in reader.samples(step.id)}
            assert "server" in sources or step.kind == "pause"
            assert all(frame.data for frame in reader.probe_frames(step.id))
            assert reader.differences(step.id) or step.kind == "pause"
        stalls = [event.data for event in reader.events() if event.kind == "stall"]
        assert all("max_in_flight_ns" in stall and "missed_rows" in stall for stall in stalls)


def test_it_is_compared_in_every_form(recorded: tuple[str, Path]) -> None:
    name, run = recorded
    comparison = compare([run])
    assert [subject.name for subject in comparison.subjects] == SUBJECTS[name]
    assert comparison.left_out == ()
    assert all(check.text for check in comparison.comparability)
    rates = [raw["roles"]["insert"]["rows"] / raw["seconds"] for raw in totals(run)[:1]]
    assert comparison.values(comparison.base, "l.i0", "rate_per_s")[0] == pytest.approx(rates[0])
    assert {ratio.metric for ratio in comparison.ratios} >= {"rate_per_s", "server_cpu_us_per_op", "heap_bytes"}
    assert all(math.isfinite(ratio.ratio) for ratio in comparison.ratios if ratio.ratio is not None)
    assert json.loads(render.to_json(comparison))["cells"][0]["server_cpu_us_per_op"]
    assert "### Throughput" in render.to_markdown(comparison, published=True)
    assert "rate_per_s" in render.to_csv(comparison)


def test_it_is_exported(recorded: tuple[str, Path], tmp_path: Path) -> None:
    run = recorded[1]
    export.export(run, tmp_path / "export")
    with (tmp_path / "export" / "steps.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(totals(run))
    assert all(float(row["server_cpu_us_per_op"] or 0) >= 0 for row in rows)


def test_its_parquet_files_hold_what_its_csv_files_hold(recorded: tuple[str, Path], tmp_path: Path) -> None:
    run = recorded[1]
    export.export(run, tmp_path / "csv")
    written = {path.parent.name: path for path in parquet.export([run], tmp_path / "parquet")}
    found = {name: pyarrow.parquet.read_table(path).to_pylist() for name, path in written.items()}
    assert {row["run"] for rows in found.values() for row in rows} == {read_manifest(run).run}
    for name in ("cells", "steps", "roles", "seconds"):
        with (tmp_path / "csv" / f"{name}.csv").open() as file:
            expected = list(csv.DictReader(file))
        for row, line in zip(found[name], expected, strict=True):
            assert [*row] == ["run", *line]
            for column, text in line.items():
                value = row[column]
                if isinstance(value, int | float) and not isinstance(value, bool):
                    assert value == pytest.approx(float(text))
                else:
                    assert ("" if value is None else str(value)) == text
    with (tmp_path / "csv" / "events.csv").open() as file:
        stalls = [json.loads(row["data"]) for row in csv.DictReader(file) if row["kind"] == "stall"]
    assert [row["duration_s"] for row in found["stalls"]] == [stall["duration_s"] for stall in stalls]
    with (tmp_path / "csv" / "probes.csv").open() as file:
        frames = [json.loads(row["data"]) for row in csv.DictReader(file)]
    plans = [pair for frame in frames for pair in frame.get("plan_us", ())]
    assert sorted((row["bucket_us"], row["value"]) for row in found["frames"] if row["figure"] == "plan_us") == sorted(
        (buckets.bounds(bucket)[1], count) for bucket, count in plans
    )


def test_what_the_terminal_decodes_is_what_was_compared(recorded: tuple[str, Path]) -> None:
    comparison = compare([recorded[1]])
    decoded = msgspec.json.decode(render.to_json(comparison), type=Comparison)
    assert (decoded.cells, decoded.findings, decoded.subjects) == (
        comparison.cells,
        comparison.findings,
        comparison.subjects,
    )
    assert set(comparison.ratios) == set(decoded.ratios)

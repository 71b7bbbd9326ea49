"""Recorded runs are read, compared, and queried by SQL.

`two-configs-aa` and `two-majors`: 17.0 under two configs, each against itself, and 12.11
against 16.3 with probes. The terminal's tests have a third, with stalls.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
from contextlib import closing
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine.analysis.answer.compare import compare
from engine.journal.manifest import read_manifest
from engine.journal.reader import JournalReader
from engine.report import render
from engine.results.comparison import comparison_of
from probes import buckets

HERE = Path(__file__).parent
RECORDED = {
    "two-configs-aa": HERE / "two-configs-aa",
    "two-majors": HERE / "two-majors",
    "stalled": HERE / "two-builds",
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
    """Results of each finished step, as the journal has them."""
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
        read = [step.totals for step in steps if step.totals is not None]
        for raw, counted in zip(totals(run), read, strict=True):
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


def test_its_views_have_what_is_compared(recorded: tuple[str, Path]) -> None:
    run = recorded[1]
    cells = {(cell.cell, cell.step): cell for cell in compare([run]).cells}
    with closing(sqlite3.connect(run / "journal.db")) as journal, JournalReader(run) as reader:
        journal.execute("INSERT INTO meta VALUES ('manifest', ?)", ((run / "manifest.json").read_text(),))
        journal.executescript((files("engine.journal") / "views.sql").read_text())
        times = "SELECT cell, step, role, p50, p99, p999 FROM response_times_us WHERE since = 'sent'"
        quantiles = {(cell, step, role): of_role for cell, step, role, *of_role in journal.execute(times)}
        for cell, step, build, seconds, ops, rate_per_s, time_s, cpu_s in journal.execute(
            "SELECT cell, step, build, seconds, ops, rate_per_s, time_s, server_cpu_s "
            "FROM steps JOIN cells USING (cell)"
        ).fetchall():
            known = cells.pop((cell, step))
            assert known.group == {"qr100": "range", "qp100": "point"}.get(step, known.kind.replace("query", "range"))
            assert (build, seconds, rate_per_s, time_s) == (known.build, known.seconds, known.rate_per_s, known.time_s)
            assert known.server_cpu_us_per_op in (None, pytest.approx(1e6 * cpu_s / ops if ops else 0))
            for role, figures in known.roles.items():
                known_us = [figures.get(f"service_{name}_us") for name in ("p50", "p99", "p999")]
                assert quantiles.get((cell, step, role), [None] * 3) == known_us
        assert not cells
        stalls = journal.execute("SELECT duration_s FROM stalls").fetchall()
        events = [(event.data["duration_s"],) for event in reader.events() if event.kind == "stall"]
        assert sorted(stalls) == sorted(events)
        steps = [step.id for attempt in reader.attempts() for step in reader.steps(attempt.id)]
        plans = [
            pair for step in steps for frame in reader.probe_frames(step) for pair in frame.data.get("plan_us", ())
        ]
        histogram = journal.execute("SELECT at_most, count FROM probe_histograms WHERE figure = 'plan_us'").fetchall()
        assert sorted(histogram) == sorted((buckets.bounds(bucket)[1], count) for bucket, count in plans)


def test_what_the_terminal_decodes_is_what_was_compared(recorded: tuple[str, Path]) -> None:
    comparison = compare([recorded[1]])
    decoded = comparison_of(msgspec.json.decode(render.to_json(comparison)))
    assert (decoded.cells, decoded.remarks.findings, decoded.subjects) == (
        comparison.cells,
        comparison.remarks.findings,
        comparison.subjects,
    )
    assert set(comparison.ratios) == set(decoded.ratios)

"""Damaged records: one line that names the file and the place, never anything else; a damaged cell is left out."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.analysis.answer.compare import compare
from engine.core.errors import UserError
from engine.core.text import visible
from engine.journal.manifest import read_manifest
from engine.journal.reader import JournalReader
from engine.observe.stalls import Stall
from engine.report.render import to_csv, to_json, to_markdown
from tests.support.journal import make_run
from tests.support.totals import SECOND_NS


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of two builds with a stall, the smallest that has a verdict."""

    def stalled(cell: Any, step: str, started_ns: int) -> list[Stall]:
        causes = ({"name": "lock", "score": 0.9, "text": "waited for a lock"},)
        ended_ns = started_ns + 4 * SECOND_NS
        return [Stall("insert", 1, started_ns, ended_ns, "rate", 0.1, 4.0, 0, 800, 200.0, causes)]

    return make_run(tmp_path / "r", repeats=3, stalls=stalled)


def read_all(run: Path) -> None:
    """Compare a run in every form; UserErrors are of one line."""
    try:
        comparison = compare([run])
        to_json(comparison), to_csv(comparison), to_markdown(comparison, published=True)
    except UserError as error:
        assert "\n" not in str(error) and visible(str(error)).isprintable(), str(error)
        assert str(run) in str(error) or run.name in str(error), str(error)


@pytest.mark.parametrize(
    ("harm", "place"),
    [
        ("UPDATE step SET totals = json_set(totals, '$.server_cpu_ns', 'many') WHERE id = ?", "table step"),
        ("UPDATE step SET totals = '{' WHERE id = ?", "table step"),
        ("UPDATE step SET totals = json_set(totals, '$.probes.insert', json('[7]')) WHERE id = ?", "table step"),
        ("UPDATE step SET totals = json_set(totals, '$.probes.insert', json_object('runq', 7)) WHERE id = ?", "cell"),
        ("UPDATE step SET totals = json_set(totals, '$.seconds', -1) WHERE id = ?", "step l.i0"),
        ("UPDATE step SET plan = json_set(plan, '$.seconds', -1) WHERE id = ?", "step l.i0: plan: seconds"),
        ("UPDATE step SET plan = json_set(plan, '$.seconds', 1e300) WHERE id = ?", "step l.i0: plan: seconds"),
        ("UPDATE event SET data = json_set(data, '$.duration_s', '4') WHERE step_id = ?", "stall"),
        ("UPDATE step SET name = x'ff' WHERE id = ?", "table step"),
    ],
)
def test_a_damaged_cell_is_reported_and_the_others_compared(run: Path, harm: str, place: str) -> None:
    with closing(sqlite3.connect(run / "journal.db")) as journal:
        journal.execute(harm, (1,))
        journal.commit()
    comparison = compare([run])
    (cell,) = comparison.remarks.left_out
    assert (cell.cell, cell.state) == (read_manifest(run).cells[0].id, "damaged")
    assert place in cell.reason and "\n" not in cell.reason
    assert {line.cell for line in comparison.cells} == {cell.id for cell in read_manifest(run).cells[1:]}
    assert comparison.pairs == 2
    assert f"left out: 16.3 repeat 1 (r {cell.cell}) damaged: " in to_markdown(comparison)


@pytest.mark.parametrize("value", [1e300, 1e-300, 5e-324, 1e28])
@pytest.mark.parametrize("key", ["seconds", "server_cpu_ns", "client_cpu_ns"])
def test_absurd_figures_are_left_out_or_give_an_absurd_interval(run: Path, key: str, value: float) -> None:
    with closing(sqlite3.connect(run / "journal.db")) as journal, journal:
        journal.execute(
            "UPDATE step SET totals = json_set(totals, '$.' || ?, ?) WHERE attempt_id % 3 = 1", (key, value)
        )
    read_all(run)


def test_a_manifest_of_another_schema_is_one_line(run: Path) -> None:
    (run / "manifest.json").write_text('{"schema": "2.0"}')
    with pytest.raises(UserError, match=r"schema 2.0, this pgbed reads 1.0; use the pgbed that made it"):
        compare([run])


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        (("cells", 2, "ordinal"), "two", "Expected `int`, got `str` - at `$.cells[2].ordinal`"),
        (("workload", "steps"), {}, "workload is invalid"),
        (("cells", 0, "subject", "build"), "18.0", "names a build or config that is not in it"),
        (("minutes",), 1e300, "minutes: 1e+300 is not above 0 and at most 100000"),
        (("slice_ms",), 1e-300, "slice_ms: 1e-300 is not 20 to 1000"),
        (
            ("interim_analyses",),
            [{"pairs": 5, "level": 0.01}, {"pairs": 3, "level": 0.01}],
            "interim_analyses: after 5, 3 pairs are in no o",
        ),
    ],
)
def test_a_manifest_value_of_the_wrong_type_is_located(run: Path, path: tuple[Any, ...], value: Any, text: str) -> None:
    record = json.loads((run / "manifest.json").read_text())
    part = record
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    (run / "manifest.json").write_text(json.dumps(record))
    with pytest.raises(UserError) as error:
        compare([run, make_run(run.parent / "other")])
    assert text in str(error.value) and "manifest.json" in str(error.value)


@pytest.mark.parametrize("blob", [b"\xff" * 8, b"12345"])
def test_a_damaged_histogram_is_one_line_with_its_place(run: Path, blob: bytes) -> None:
    with closing(sqlite3.connect(run / "journal.db")) as journal, journal:
        journal.execute("UPDATE role_second SET service = ?", (blob,))
    with (
        pytest.raises(UserError, match=r"^journal\.db: table role_second: damaged histogram: "),
        JournalReader(run) as reader,
    ):
        reader.services(1)

"""Steps that differ in one number only, such as that of clients: their table, their peaks, the sentence."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from engine.analysis.answer.compare import compare, compared_cells
from engine.analysis.causes import sweeps
from engine.analysis.ratios import measured_ratios, verdicts
from engine.report import render
from tests.engine.analysis.checks.test_kernel_differences import MACHINE, NEW, OLD, of_cell
from tests.support.journal import make_run


def sweeps_of(run: Path) -> tuple[sweeps.Sweep, ...]:
    cells = compared_cells([run])
    ratios = verdicts.ratios(cells, measured_ratios.measured(cells))
    return sweeps.sweeps(cells, ratios, compare([run]).units)


CLIENTS = {"l.i1": 1, "qr100": 2, "l.i0": 4, "l.x": 8}  # the made rates are 20, 8, 100 and 400 thousand


def swept(path: Path, clients: dict[str, int], effect: float = 1.0, **values: Any) -> Path:
    """A made run whose steps are points of a sweep."""
    run = make_run(path, effects={("17.0", "l.i0"): effect}, **{"repeats": 4, **values})
    manifest = json.loads((run / "manifest.json").read_text())
    for step in manifest["workload"]["steps"]:
        if step["name"] in clients:
            step["sweep"] = {"clients": clients[step["name"]]}
    (run / "manifest.json").write_text(json.dumps(manifest))
    return run


def test_each_subject_has_its_peak_and_a_sentence_says_it(tmp_path: Path) -> None:
    run = swept(tmp_path / "run", {"l.i1": 1, "l.i0": 4}, effect=0.5)
    comparison, (sweep,) = compare([run]), sweeps_of(run)
    assert [(point.step, point.value) for point in sweep.points] == [("l.i1", 1), ("l.i0", 4)]
    assert [(peak.subject, peak.value) for peak in sweep.peaks] == [("16.3", 4), ("17.0", 4)]
    ratio = comparison.ratio("17.0", "l.i0", "rate_per_s")
    assert ratio is not None and sweep.peaks[1].ratio == ratio.ratio == pytest.approx(0.5, abs=0.02)
    assert f"({ratio.ratio:.3f} of 16.3's)" in sweep.text
    assert sweep.text.startswith("1 to 4 clients: 16.3 peaks at ")
    assert "of 16.3's), slower at 1 of 2, the same at 1 of 2." in sweep.text


def test_a_peak_ratio_needs_a_known_difference_at_one_place(tmp_path: Path) -> None:
    run = swept(tmp_path / "noisy", {"l.i1": 1, "l.i0": 4}, effect=0.9, noise=0.2)
    ratio, (sweep,) = compare([run]).ratio("17.0", "l.i0", "rate_per_s"), sweeps_of(run)
    assert ratio is not None and ratio.verdict == "undecided" and sweep.peaks[1].value == 4
    assert [peak.ratio for peak in sweep.peaks] == [None, None]
    assert " of 16.3's" not in sweep.text and "undecided at" in sweep.text
    (elsewhere,) = sweeps_of(swept(tmp_path / "elsewhere", {"l.i1": 1, "l.i0": 4}, effect=0.1))
    assert [(peak.value, peak.ratio) for peak in elsewhere.peaks] == [(4, None), (1, None)]


def test_steps_of_other_units_are_no_part_of_it(tmp_path: Path) -> None:
    (sweep,) = sweeps_of(swept(tmp_path / "run", CLIENTS))
    assert [point.value for point in sweep.points] == [1, 4, 8] and sweep.unit == "rows/s"


def test_one_step_is_no_sweep(tmp_path: Path) -> None:
    assert sweeps_of(swept(tmp_path / "run", {"l.i1": 1})) == ()


def test_the_table_has_a_row_per_number_and_draws_all_repeats(tmp_path: Path) -> None:
    comparison = compare([swept(tmp_path / "run", {"l.i1": 1, "l.i0": 4}, effect=0.5)])
    console = Console(width=80, record=True, force_terminal=False)
    render.print_comparison(comparison, console)
    text = console.export_text()
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if "by number of clients (mean" in line)
    rows = {line.split()[0]: line.split() for line in lines[start + 2 : start + 6]}
    assert list(rows) == ["1", "4", "peak", "clients"]
    assert "▼0.5" in " ".join(rows["4"]) and rows["clients"][-2:] == ["4", "4"]
    drawn = next(line for line in lines[start + 6 :] if line.startswith("4 "))
    assert (
        sum(1 if letter == "o" else int(letter) for letter in drawn.split()[2] + drawn.split()[3] if letter != "·") == 8
    )
    assert max(map(len, lines[start : start + 12])) <= 80
    (section,) = comparison.section("sweep")
    assert section.findings[0] in " ".join(text.split())
    marked = render.to_markdown(comparison)
    assert "### rows/s by number of clients" in marked and "| peak |" in marked
    record = json.loads(render.to_json(comparison))["sections"][0]
    assert record["rows"][1]["step"] == "l.i0" and record["rows"][1]["values"][2]["value"] == pytest.approx(
        0.5, abs=0.02
    )


def test_published_ratios_stand_beside_those_of_kernels(tmp_path: Path) -> None:
    """Published numbers of clients, and only where kernels are compared."""
    planned: dict[str, Any] = {"builds": ("16.3",), "under": ("6.1", "6.12"), "kernels": (OLD, NEW), "guest": MACHINE}
    run = swept(tmp_path / "run", {"l.i1": 2, "l.i0": 50, "l.x": 64}, environments=of_cell, **planned)
    path, names = run / "manifest.json", {"l.i1": "select.c2", "l.i0": "select.c50", "l.x": "select.c64"}
    manifest = json.loads(path.read_text())
    for step in manifest["workload"]["steps"]:
        step["name"] = names.get(step["name"], step["name"])
    manifest["workload"] |= {"name": "pgbench-select", "options": {"preset": "select-scaling"}}
    path.write_text(json.dumps(manifest | {"workload": manifest["workload"] | {"identity": {}, "non_default": []}}))
    with sqlite3.connect(run / "journal.db") as database:
        database.executemany("UPDATE step SET name = ? WHERE name = ?", [(new, old) for old, new in names.items()])
    comparison = compare([run])
    console = Console(width=80, record=True, force_terminal=False)
    render.print_comparison(comparison, console)
    lines = console.export_text().splitlines()
    *by_line, first, second = comparison.section("published")
    assert [column.name for column in (*first.columns[1:], *second.columns[1:])] == [
        "6.12\nours", "2.6.22\npublished", "2.6.24\npublished", "2.6.25\npublished",
    ]  # fmt: skip
    assert [row.name for row in by_line[0].rows] == ["select.c2", "select.c50"], "those that were published and done"
    start = next(number for number, line in enumerate(lines) if "ratio to 6.1 (published: 2.6.9)" in line)
    rows = [line.split() for line in lines[start:] if line.startswith("select.c")]
    assert [row[-1] for row in rows[:2]] == ["0.907", "0.914"] and [row[1:] for row in rows[2:4]] == [
        ["0.801", "0.575"], ["0.562", "0.552"],
    ]  # fmt: skip
    assert max(map(len, lines[start : start + 6])) <= 80


def test_a_table_without_a_row_is_left_out(tmp_path: Path) -> None:
    """One value alone is neither the lowest nor the highest."""
    comparison = compare([swept(tmp_path / "run", {"l.i1": 1, "l.i0": 4}, builds=("16.3",), repeats=1)])
    console = Console(width=80, record=True, force_terminal=False)
    render.print_comparison(comparison, console)
    text = console.export_text()
    assert "by number of clients (mean" in text and "Every repeat" not in text
    assert "Every repeat" not in render.to_markdown(comparison)


def test_a_rate_change_within_a_step_shows_its_seconds(tmp_path: Path) -> None:
    run = swept(tmp_path / "run", {"l.i1": 1, "l.i0": 4})
    with sqlite3.connect(run / "journal.db") as database:
        slower = """
            UPDATE role_second AS one SET rows = rows / 3 WHERE role_id = (
                SELECT role.id FROM role JOIN step ON step.id = step_id JOIN attempt ON attempt.id = attempt_id
                WHERE step.name = 'l.i1' AND role.name = 'insert' AND cell LIKE '%-17.0-%-r2'
            ) AND t_ns > 6500000000 + (SELECT min(t_ns) FROM role_second AS other WHERE other.role_id = one.role_id)
        """
        assert database.execute(slower).rowcount == 5
    comparison = compare([run])
    ((change,),) = (sweep.changes for sweep in sweeps_of(run))
    assert (change.step, change.subject, change.repeat) == ("l.i1", "17.0", 2)
    assert [(level.from_s, level.until_s) for level in change.levels] == [(0, 7), (7, 12)]
    (text,) = (line for line in comparison.remarks.findings if "rates in repeat" in line)
    assert text.startswith("l.i1: 17.0 ran at 2 rates in repeat 2: 33,3") and text.endswith("from 7 to 12 s")
    console = Console(width=80, record=True, force_terminal=False)
    render.print_comparison(comparison, console)
    lines = console.export_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("rows/s by number of clients"))
    (marked,) = (line for line in lines[start + 2 : start + 4] if "(" in line)
    assert marked.startswith("1 ") and marked.split()[3] == "(1)"  # 17.0's, not 16.3's
    assert any(line.startswith("(1) in one repeat or more the rate changed") for line in lines)


def test_three_builds_with_all_marks_fit_into_eighty_columns(tmp_path: Path) -> None:
    """One cell of four of each build is far from the others, and every step has a change."""
    run = swept(tmp_path / "run", {"l.i1": 1, "l.i0": 4}, builds=("12.11-prebuilt", "16.3-prebuilt", "17.0-prebuilt"))
    with sqlite3.connect(run / "journal.db") as database:
        database.execute(
            "UPDATE role_second AS one SET rows = rows / 3 WHERE t_ns > 6500000000 + "
            "(SELECT min(t_ns) FROM role_second AS other WHERE other.role_id = one.role_id)"
        )
        for step, totals in database.execute(
            "SELECT step.id, totals FROM step JOIN attempt ON attempt.id = attempt_id WHERE cell LIKE '%-r4'"
        ).fetchall():
            record = json.loads(totals)
            record["seconds"] *= 3
            database.execute("UPDATE step SET totals = ? WHERE id = ?", (json.dumps(record), step))
    console = Console(width=80, record=True, force_terminal=False)
    render.print_comparison(compare([run]), console)
    lines = console.export_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("rows/s by number of clients"))
    figures, repeats = (line for line in lines[start:] if line.startswith("4 "))
    assert figures.count("(1)") == repeats.count("2 modes") == 3 and max(map(len, lines[start : start + 13])) <= 80

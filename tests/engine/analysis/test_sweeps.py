"""Steps that differ in one number only, such as that of clients: their table, their peaks, the sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console

from engine.analysis.comparison import compare
from engine.report import render
from tests.support.made_run import make_run

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
    comparison = compare([swept(tmp_path / "run", {"l.i1": 1, "l.i0": 4}, effect=0.5)])
    (sweep,) = comparison.sweeps
    assert [(point.step, point.value) for point in sweep.points] == [("l.i1", 1), ("l.i0", 4)]
    assert [(peak.subject, peak.value) for peak in sweep.peaks] == [("16.3", 4), ("17.0", 4)]
    assert sweep.peaks[1].ratio is not None and abs(sweep.peaks[1].ratio - 0.5) < 0.02
    assert sweep.text.startswith("1 to 4 clients: 16.3 peaks at ")
    assert "of 16.3's), slower at 1 of 2, the same at 1 of 2." in sweep.text


def test_steps_of_other_units_are_no_part_of_it(tmp_path: Path) -> None:
    (sweep,) = compare([swept(tmp_path / "run", CLIENTS)]).sweeps
    assert [point.value for point in sweep.points] == [1, 4, 8] and sweep.unit == "rows/s"


def test_one_step_is_no_sweep(tmp_path: Path) -> None:
    assert compare([swept(tmp_path / "run", {"l.i1": 1})]).sweeps == ()


def test_the_table_has_a_row_for_each_number_and_draws_every_repeat(tmp_path: Path) -> None:
    comparison = compare([swept(tmp_path / "run", {"l.i1": 1, "l.i0": 4}, effect=0.5)])
    console = Console(width=80, record=True, force_terminal=False)
    render.print_comparison(comparison, console)
    text = console.export_text()
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if "by number of clients (median" in line)
    rows = {line.split()[0]: line.split() for line in lines[start + 2 : start + 6]}
    assert list(rows) == ["1", "4", "peak", "clients"]
    assert "▼0.5" in " ".join(rows["4"]) and rows["clients"][-2:] == ["4", "4"]
    drawn = next(line for line in lines[start + 6 :] if line.startswith("4 "))
    assert (
        sum(1 if letter == "o" else int(letter) for letter in drawn.split()[2] + drawn.split()[3] if letter != "·") == 8
    )
    assert max(map(len, lines[start : start + 12])) <= 80
    assert comparison.sweeps[0].text in " ".join(text.split())
    marked = render.to_markdown(comparison)
    assert "### rows/s by number of clients" in marked and "| peak |" in marked
    assert json.loads(render.to_json(comparison))["sweeps"][0]["peaks"][0]["value"] == 4


def test_a_table_without_a_row_is_left_out(tmp_path: Path) -> None:
    """One value alone is neither the lowest nor the highest."""
    comparison = compare([swept(tmp_path / "run", {"l.i1": 1, "l.i0": 4}, builds=("16.3",), repeats=1)])
    console = Console(width=80, record=True, force_terminal=False)
    render.print_comparison(comparison, console)
    text = console.export_text()
    assert "by number of clients (median" in text and "Every repeat" not in text
    assert "Every repeat" not in render.to_markdown(comparison)

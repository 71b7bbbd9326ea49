"""Published tables beside ours: ratios only, and the differences."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.structs import replace as replace_struct
from rich.console import Console

from engine.analysis.answer.compare import compare
from engine.features.published import ratios
from engine.report import render
from engine.results.cell_step import TransactionTimes
from engine.results.comparison import Comparison
from engine.results.section import Figure, Section
from tests.support.journal import make_run
from workloads import presets

BUILDS = ("16.3-prebuilt", "17.0-prebuilt", "17beta1-builtin")


def headings(table: Section) -> list[str]:
    return [column.name.replace("\n", " ") for column in table.columns[1:]]


def of_preset(path: Path, preset: str = "insert-2024-05", builds: tuple[str, ...] = BUILDS) -> Comparison:
    make_run(
        path, builds=builds, repeats=4, effects={("17.0-prebuilt", "l.i1"): 0.8935, ("17beta1-builtin", "l.i1"): 1.5}
    )
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["workload"] |= {"options": {"preset": preset}}
    (path / "manifest.json").write_text(json.dumps(manifest))
    return compare([path])


def test_our_ratios_stand_beside_those_of_the_same_builds(tmp_path: Path) -> None:
    comparison = of_preset(tmp_path / "run")
    (table,) = comparison.section("published")
    assert headings(table) == ["17.0-prebuilt ours", "17beta1 published",
                               "17beta1-builtin ours", "17beta1-builtin published"]  # fmt: skip
    assert [row.name for row in table.rows] == ["l.i0", "l.i1", "qr100"], "of the steps that were done"
    ours, published, _, far = (value for value in table.rows[1].values if isinstance(value, Figure))
    assert ours.value == pytest.approx(0.89, abs=0.01) and published.value == pytest.approx(1.99 / 2.23)
    assert (published.sign, far.sign) == ("", "*"), "within our interval, and outside"
    said = " ".join(table.remarks)
    assert "machine: Test, 8 CPUs, 16 GiB here, 8 cores, 32 GB there" in said and "17.0 in place of 17beta1" in said
    assert "50M rows" in said
    console = Console(width=80, record=True, force_terminal=False)
    render.print_comparison(comparison, console)
    lines = console.export_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("Throughput, ratio to 16.3"))
    assert max(map(len, lines[start : start + 7])) <= 80
    row = next(line for line in lines[start:] if line.startswith("l.i1"))
    assert row.split()[1].startswith("0.89") and row.split()[4] == "0.892" and row.rstrip().endswith("1.027 *")
    assert "2.23" not in row, "no figure of another machine"
    assert "next to published ratios (1)" in render.to_markdown(comparison)
    assert f"(1) {table.remarks[0]}; " in render.to_markdown(comparison), "where they are from, and what differs"


def test_only_our_builds_of_many_published_ones_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preset = presets.preset("insert-2024-05")
    table = preset.published[0]
    lines = tuple(replace_struct(line, values=(*line.values, 1.0, 1.1, 1.2)) for line in table.lines)
    longer = replace_struct(table, subjects=(*table.subjects, "18.0", "18.1", "18.2"), lines=lines)
    monkeypatch.setattr(ratios, "preset", lambda _: replace_struct(preset, published=(longer,)))
    (shown,) = of_preset(tmp_path / "run").section("published")
    assert [name for name in headings(shown) if "published" in name] == [
        "17beta1 published",
        "17beta1-builtin published",
    ]


def test_without_its_base_the_next_published_build_is_the_base(tmp_path: Path) -> None:
    (table,) = of_preset(tmp_path / "run", builds=("17.0-prebuilt", "17beta1-builtin")).section("published")
    assert "ratio to 17.0-prebuilt (published: 17beta1)" in table.title and "16.3 is missing here" in table.remarks
    assert headings(table) == ["16.3 published", "17beta1-builtin ours", "17beta1-builtin published"]


def test_other_runs_have_none(tmp_path: Path) -> None:
    """A manifest of no preset, an unknown one, another workload's, or with none of its builds."""
    for number, (preset, builds) in enumerate(
        (
            ("planner-delete", BUILDS),
            ("nonsense", BUILDS),
            ("select-scaling", BUILDS),
            ("insert-2024-05", ("12.11", "14.10")),
        )
    ):
        assert of_preset(tmp_path / str(number), preset, builds).section("published") == ()


def of_copies(path: Path, builds: tuple[str, ...]) -> list[Section]:
    """The tables of copy-ring, where each further build's transactions take a tenth less than the one's before."""
    comparison, manifest = compare([make_run(path, builds=builds)]), json.loads((path / "manifest.json").read_text())
    cells = tuple(
        replace(cell, step="script.c1", transactions=TransactionTimes(
            count=50, total_s=250 * part, mean_ms=5000 * part, median_ms=4900 * part, min_ms=4600 * part,
            max_ms=5800 * part, stddev_ms=300 * part**10,
        ))
        for cell in comparison.cells if cell.step == "l.i0"
        for part in [0.9 ** comparison.names.index(cell.subject)]
    )  # fmt: skip
    manifest["workload"] |= {"name": "pgbench", "options": {"preset": "copy-ring"}}
    (path / "manifest.json").write_text(json.dumps(manifest))
    return list(ratios.sections(replace(comparison, cells=cells, steps=("script.c1",))))


@pytest.mark.parametrize(
    ("builds", "columns"),
    [
        (("master", "patched"), ["patched ours", "patched published"]),
        (("16.3", "18.6"), ["18.6 ours", "patched published"]),  # no release has the patch
    ],
)
def test_times_of_copies_are_those_of_a_build_to_the_base(
    tmp_path: Path, builds: tuple[str, str], columns: list[str]
) -> None:
    (table,) = of_copies(tmp_path / "run", builds)
    assert "ratio to master" in table.title or "ratio to 16.3 (published: master)" in table.title
    assert headings(table) == columns
    ratios = {row.name: [value.value for value in row.values if isinstance(value, Figure)] for row in table.rows}
    assert ratios["script.c1 mean_ms"] == pytest.approx([0.9, 4316 / 5015])
    assert ratios["script.c1 stddev_ms"] == pytest.approx([0.9**10, 101 / 314])

"""The finished part of a plan: interleaved cells finish together, whole cells each by itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.core.model import Interleave, Manifest
from engine.journal import outcome
from engine.journal.manifest import read_manifest
from engine.journal.rows import Attempt
from tests.support.journal import make_run


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    """Two builds, two repeats: cells a1 b1 b2 a2."""
    return read_manifest(make_run(tmp_path / "r", repeats=2))


def attempts(manifest: Manifest, *states: tuple[int, int, str]) -> list[Attempt]:
    """Attempts of (start of the engine, place of the cell, state)."""
    return [
        Attempt(id, session, manifest.cells[place].id, state, 0, 1, None, {})
        for id, (session, place, state) in enumerate(states, 1)
    ]


@pytest.mark.parametrize(("interleave", "groups"), [("cells", [1, 1, 1, 1]), ("slices", [2, 2])])
def test_cells_run_by_themselves_or_those_of_a_repeat_together(
    manifest: Manifest, interleave: Interleave, groups: list[int]
) -> None:
    grouped = outcome.groups(replace(manifest, design=replace(manifest.design, interleave=interleave)))
    assert [len(group) for group in grouped] == groups
    assert [cell for group in grouped for cell in group] == list(manifest.cells)


@pytest.mark.parametrize(
    ("starts", "whole_cells", "interleaved"),
    [
        ([(1, 0, "finished"), (1, 1, "failed"), (2, 0, "failed"), (2, 1, "finished")], [0, 1], []),
        ([(1, 0, "finished"), (2, 1, "finished")], [0, 1], []),
        ([(1, 0, "finished"), (1, 1, "finished"), (2, 0, "interrupted")], [0, 1], [0, 1]),
        ([(1, 0, "finished"), (1, 1, "running")], [0], []),
        ([(1, place, "finished") for place in range(4)], [0, 1, 2, 3], [0, 1, 2, 3]),
    ],
)
def test_interleaved_cells_finish_in_one_start_of_the_engine(
    manifest: Manifest, starts: list[tuple[int, int, str]], whole_cells: list[int], interleaved: list[int]
) -> None:
    designs: list[tuple[Interleave, list[int]]] = [("cells", whole_cells), ("slices", interleaved)]
    for interleave, wanted in designs:
        plan = replace(manifest, design=replace(manifest.design, interleave=interleave))
        assert outcome.finished(plan, attempts(plan, *starts)) == {manifest.cells[place].id for place in wanted}

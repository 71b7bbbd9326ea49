"""When a run will end, by what its finished cells took."""

from pathlib import Path

import pytest

from engine.core.model import Cell
from engine.journal.reader import JournalReader
from engine.journal.rows import Attempt
from engine.view.eta import left_s
from tests.support.journal import make_run

SECOND_NS = 1_000_000_000


@pytest.fixture
def cells(tmp_path: Path) -> tuple[Cell, ...]:
    """Two repeats of two builds."""
    with JournalReader(make_run(tmp_path / "r", repeats=2)) as reader:
        return reader.manifest.cells


def attempt(cell: Cell, state: str, from_s: int, until_s: int | None = None) -> Attempt:
    ended_ns = None if until_s is None else until_s * SECOND_NS
    return Attempt(cell.ordinal + 1, 1, cell.id, state, from_s * SECOND_NS, ended_ns, None, {})


def test_nothing_is_known_before_a_cell_has_finished(cells: tuple[Cell, ...]) -> None:
    assert left_s(cells, [attempt(cells[0], "running", 0)], 50 * SECOND_NS, interleaved=False) is None


def test_cells_to_come_take_as_long_as_those_before(cells: tuple[Cell, ...]) -> None:
    done = [attempt(cells[0], "finished", 0, 100), attempt(cells[1], "finished", 100, 300)]
    now_ns = 350 * SECOND_NS
    assert left_s(cells, [*done, attempt(cells[2], "running", 310)], now_ns, interleaved=False) == 110 + 150
    assert left_s(cells, [*done, attempt(cells[2], "running", 10)], now_ns, interleaved=False) == 150, "never below 0"
    assert left_s(cells, [*done, attempt(cells[2], "failed", 310, 320)], now_ns, interleaved=False) == 2 * 150
    more = [attempt(cell, "finished", 400, 500) for cell in cells[2:]]
    assert left_s(cells, [*done, *more], now_ns, interleaved=False) == 0


def test_cells_side_by_side_are_one_piece_of_work(cells: tuple[Cell, ...]) -> None:
    done = [attempt(cells[0], "finished", 0, 100), attempt(cells[1], "finished", 1, 110)]
    going = [attempt(cell, "running", 120 + place) for place, cell in enumerate(cells[2:])]
    assert left_s(cells, done + going, 150 * SECOND_NS, interleaved=True) == 80

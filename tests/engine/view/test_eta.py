"""When a run will end, by what its finished cells took."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.core.model import Cell
from engine.journal.reader import JournalReader
from engine.journal.rows import Attempt
from engine.view.eta import left_s, pieces, planned
from tests.support.journal import make_run

SECOND_NS = 1_000_000_000


@pytest.fixture
def cells(tmp_path: Path) -> tuple[Cell, ...]:
    """Two repeats of two builds."""
    with JournalReader(make_run(tmp_path / "r", repeats=2)) as reader:
        return reader.manifest.cells


def attempt(cell: Cell, state: str, from_s: int, until_s: int | None = None, start: int = 1) -> Attempt:
    ended_ns = None if until_s is None else until_s * SECOND_NS
    return Attempt(cell.ordinal + 1, start, cell.id, state, from_s * SECOND_NS, ended_ns, None, {})


def left(
    cells: Sequence[Cell], attempts: Sequence[Attempt], now_s: int, interleaved: bool = False, start: int = 1
) -> tuple[int, float | None]:
    """Pieces and seconds that are left."""
    work = pieces(cells, attempts, interleaved=interleaved)
    return sum(not piece.over(start) for piece in work), left_s(work, now_s * SECOND_NS, start=start)


def test_nothing_is_known_before_a_cell_has_finished(cells: tuple[Cell, ...]) -> None:
    assert left(cells, [attempt(cells[0], "running", 0)], 50) == (4, None)


def test_cells_to_come_take_as_long_as_those_before(cells: tuple[Cell, ...]) -> None:
    done = [attempt(cells[0], "finished", 0, 100), attempt(cells[1], "finished", 100, 300)]
    assert left(cells, [*done, attempt(cells[2], "running", 310)], 350) == (2, 110 + 150)
    assert left(cells, [*done, attempt(cells[2], "running", 10)], 350) == (2, 150), "never below 0"
    more = [attempt(cell, "finished", 400, 500) for cell in cells[2:]]
    assert left(cells, [*done, *more], 550) == (0, 0)


def test_cells_side_by_side_are_one_piece_of_work(cells: tuple[Cell, ...]) -> None:
    done = [attempt(cells[0], "finished", 0, 100), attempt(cells[1], "finished", 1, 110)]
    going = [attempt(cell, "running", 120 + place) for place, cell in enumerate(cells[2:])]
    assert left(cells, done + going, 150, interleaved=True) == (1, 80)


def test_what_failed_is_to_come_only_if_the_run_was_resumed_since(cells: tuple[Cell, ...]) -> None:
    done = [attempt(cells[0], "finished", 0, 100), attempt(cells[1], "failed", 100, 110)]
    assert left(cells, done, 120) == (2, 200)
    assert left(cells, done, 120, start=2) == (3, 300)
    pair = [*done, attempt(cells[2], "failed", 120, 130), attempt(cells[3], "running", 121)]
    assert left(cells, pair, 150, interleaved=True)[0] == 1, "one of its cells still runs"
    assert left(cells, [*pair[:3], attempt(cells[3], "finished", 121, 170)], 180, interleaved=True)[0] == 0
    for start, states in ((1, ["finished", "failed", "next", "planned"]), (2, ["finished", "next", "planned"])):
        found = planned(cells, done, lambda _: {}, running=True, interleaved=False, start=start)
        assert [each.state for each in found][: len(states)] == states

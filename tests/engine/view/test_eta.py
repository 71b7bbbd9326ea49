"""The expected end of a run, by the times of its finished cells."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.core.model import Cell
from engine.journal.reader import JournalReader
from engine.journal.rows import Attempt, StepRow
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


def test_a_failed_cell_is_to_come_only_after_a_resumption(cells: tuple[Cell, ...]) -> None:
    done = [attempt(cells[0], "finished", 0, 100), attempt(cells[1], "failed", 100, 110)]
    assert left(cells, done, 120) == (2, 200)
    assert left(cells, done, 120, start=2) == (3, 300)
    pair = [*done, attempt(cells[2], "failed", 120, 130), attempt(cells[3], "running", 121)]
    assert left(cells, pair, 150, interleaved=True)[0] == 1, "one of its cells still runs"
    assert left(cells, [*pair[:3], attempt(cells[3], "finished", 121, 170)], 180, interleaved=True)[0] == 0
    for start, states in ((1, ["finished", "failed", "next", "planned"]), (2, ["finished", "next", "planned"])):
        slots = planned(cells, done, lambda _: {}, running=True, interleaved=False, start=start)
        assert [slot.state for slot in slots][: len(states)] == states


def test_the_time_left_of_a_cell_is_its_steps_left(cells: tuple[Cell, ...]) -> None:
    """The first cell: 10 s of preparation, steps of 30, 40 and 20 s, and 5 s for its end; the second is slower."""
    names = ("l.i0", "l.i1", "qr100")
    edges = {1: (0, 10, 40, 80, 100, 105), 2: (105, 125)}

    def step(attempt: int, place: int, from_s: int, until_s: int | None) -> StepRow:
        ended_ns = None if until_s is None else until_s * SECOND_NS
        state = "running" if until_s is None else "finished"
        return StepRow(0, attempt, place, names[place], "query", state, from_s * SECOND_NS, ended_ns, 0, {}, None)

    def left_at(now_s: int, known: Sequence[StepRow], eta_s: float | None = None) -> float | None:
        done = [step(1, place, *edges[1][place + 1 : place + 3]) for place in range(3)]
        rows = {1: done, 2: list(known)}
        tried = [attempt(cells[0], "finished", 0, 105), attempt(cells[1], "running", 105)]
        work = pieces(cells[:2], tried, interleaved=False)
        return left_s(work, now_s * SECOND_NS, lambda attempt: rows[attempt.id], eta_s=eta_s)

    assert left_at(109, ()) == 101
    assert left_at(300, ()) == 95, "all of its steps are to come, however long the preparation took"
    slow = step(2, 0, 125, 900)
    assert left_at(905, (slow,)) == 65 and left_at(1500, (slow, step(2, 1, 901, None)), eta_s=21.0) == 21 + 20 + 5
    assert left_at(911, (slow, step(2, 1, 901, None))) == 30 + 20 + 5, "without an estimate as before"
    last = step(2, 2, 1500, 1520)
    assert left_at(1510, (slow, step(2, 1, 901, 1500), step(2, 2, 1500, None)), eta_s=10.0) == 15
    assert left_at(1523, (slow, last)) == 2 and left_at(1600, (slow, last)) == 0


def test_what_follows_a_step_is_not_of_another_workload(cells: tuple[Cell, ...]) -> None:
    """Two cells of two workloads have finished; a third has ended its last step, and has 5 s of its end to come."""

    def step(attempt: int, place: int, name: str, from_s: int, until_s: int) -> StepRow:
        return StepRow(
            0, attempt, place, name, "query", "finished", from_s * SECOND_NS, until_s * SECOND_NS, 0, {}, None
        )

    rows = {1: [step(1, 0, "short", 10, 95)], 2: [step(2, 0, "long", 110, 995)], 3: [step(3, 0, "short", 1010, 1095)]}
    tried = [
        attempt(cells[0], "finished", 0, 100),
        attempt(cells[1], "finished", 100, 1000),
        attempt(cells[2], "running", 1000),
    ]
    work = pieces(cells[:3], tried, interleaved=False)
    assert left_s(work, 1096 * SECOND_NS, lambda attempt: rows[attempt.id]) == 4

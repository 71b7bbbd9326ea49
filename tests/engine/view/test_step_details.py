"""Details of a step that are read if there is room: waits, from samples; figures of a server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from engine.core.model import Cell
from engine.journal.reader import JournalReader
from engine.journal.totals import StepTotals
from engine.view.step_details import StepDetails
from engine.view.step_series import SECOND_NS
from tests.support.journal import make_run


def looked(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
    waits = {"": 60, "Lock:tuple": 30, "Client:ClientRead": 10}
    return replace(totals, roles={name: replace(role, waits=waits) for name, role in totals.roles.items()})


@pytest.mark.parametrize("looks", [True, False])
def test_waits_are_of_all_looks_or_else_of_one_sample_a_second(tmp_path: Path, looks: bool) -> None:
    run = make_run(tmp_path / "r", repeats=1, change=looked) if looks else make_run(tmp_path / "r", repeats=1)
    with JournalReader(run) as reader:
        step = reader.steps(reader.attempts()[0].id)[0]
        details = StepDetails(reader, step.id)
        for _ in range(2):
            details.read_waits({role.id: role for role in reader.roles(step.id)}, lambda t_ns: (t_ns, 1.0))
    waits = details.waits["insert"]
    if looks:
        parts = {"": 0.6, "Lock:tuple": 0.3, "Client:ClientRead": 0.1}
        assert waits.value == [{event: pytest.approx(part * SECOND_NS) for event, part in parts.items()}]
    else:
        assert waits.value == [{"": SECOND_NS}] * 12


class Samples:
    """A reader that knows two seconds of a server: driven for half of the first, and for 1 ms of the second.

    With a `rest_ns` the step's end left over so much, in which it worked all the time.
    """

    def __init__(self, rest_ns: int = 0) -> None:
        self.rest_ns = rest_ns

    def samples(self, _: int, after_ns: int, **__: Any) -> Iterator[tuple[int, int, str, dict[str, int]]]:
        for second in (1, 2):
            if second * SECOND_NS > after_ns:
                yield second * SECOND_NS, SECOND_NS, "server", {"cpu_ns": SECOND_NS // 4, "runq_ns": 0}
        if self.rest_ns:
            yield 2 * SECOND_NS + self.rest_ns, self.rest_ns, "server", {"cpu_ns": self.rest_ns, "runq_ns": 0}


def test_a_tick_with_a_nearly_idle_server_has_no_figure() -> None:
    details = StepDetails(cast("JournalReader", Samples()), 1)
    figures = details.read_figures(lambda t_ns: (t_ns, 0.5 if t_ns == SECOND_NS else 0.001))
    assert figures["server CPU"].value == pytest.approx([50]), "not 25 000%"
    steady = StepDetails(cast("JournalReader", Samples()), 1).read_figures(lambda t_ns: (t_ns, 1.0))
    assert steady["server CPU"].value == pytest.approx([25, 25])


def test_what_the_end_of_a_step_left_over_is_no_second(tmp_path: Path) -> None:
    reader = cast("JournalReader", Samples(rest_ns=7_500_000))
    assert StepDetails(reader, 1).read_figures(lambda t_ns: (t_ns, 1.0))["server CPU"].value == pytest.approx([25, 25])

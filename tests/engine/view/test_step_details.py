"""What is waited for, as it is drawn: from looks, or from one sample a second where a journal has no looks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.core.model import Cell, StepTotals
from engine.journal.reader import JournalReader
from engine.view.step_details import StepDetails
from engine.view.step_series import SECOND_NS
from tests.support.made_run import make_run


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

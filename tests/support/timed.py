"""A made run of whose index builds the "transactions" are timed one by one, as those of bulk loads are."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.core.model import Cell
from engine.journal.totals import StepTotals
from tests.support.journal import make_run
from tests.support.totals import SECOND_NS

STEP = "l.x"
LOAD = {"bytes": 100, "rows": 2, "sha256": "ab" * 32}


def timed_run(
    path: Path, ended: Mapping[str, Sequence[tuple[int, float, float]]], load: Mapping[str, Any] = LOAD, **values: Any
) -> Path:
    """A run in which every cell of a build has these transactions: client, seconds into the step, ms."""

    def change(_: Cell, step: str, totals: StepTotals) -> StepTotals:
        return replace(totals, report={"load": dict(load)}) if step == STEP else totals

    run = make_run(path, **{"repeats": 1, **values}, change=change)
    with sqlite3.connect(run / "journal.db") as database:
        steps = database.execute(
            "SELECT step.id, step.started_ns, cell FROM step JOIN attempt ON attempt.id = attempt_id WHERE name = ?",
            (STEP,),
        ).fetchall()
        for step, started_ns, cell in steps:
            (each,) = (found for build, found in ended.items() if build in cell)
            listed = [[client, started_ns + round(at_s * 1e9), round(ms * 1e6)] for client, at_s, ms in each]
            row = (step, started_ns + 2 * SECOND_NS, SECOND_NS, "transactions", json.dumps({"ended": listed}))
            database.execute("INSERT INTO sample VALUES (?, ?, ?, ?, ?)", row)
    return run

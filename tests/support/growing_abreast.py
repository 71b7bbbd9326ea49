"""Cells abreast while a test looks: written by the journal's own writer, block by block and second by second."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.core.model import Cell, Subject
from engine.journal.rows import RoleSecond, SliceRow
from engine.journal.writer import JournalWriter
from engine.view.step_series import SECOND_NS
from tests.support.growing import START_NS, WALL_NS, Hand
from tests.support.made_run import make_run
from workloads import histogram

SLICE_NS = 50_000_000
WARM_NS = 2_000_000
BLOCK_NS = 4 * SLICE_NS  # of two builds
COUNTED_NS = SLICE_NS - WARM_NS


@dataclass
class Abreast:
    """Step qr100 of 12 s of cells abreast, in the order in which they were planned; all are of one repeat."""

    run: Path
    hand: Hand
    journal: JournalWriter
    cells: Sequence[Cell]
    attempts: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    roles: list[int] = field(default_factory=list)
    blocks: int = 0
    ticks: int = 0

    def begin(self, side: int, name: str = "qr100", kind: str = "query", ordinal: int = 0) -> None:
        """A side's next step begins; the step of a side is its newest."""
        plan = {"name": name, "kind": kind, "seconds": 12}
        step = self.journal.begin_step(self.attempts[side], ordinal, name, kind, 0, plan, self.hand.at_ns)
        self.steps[side] = step
        self.roles[side] = self.journal.add_role(step, 1, "query", 4100 + side, 4200 + side)
        self.journal.commit()

    def block(self, *ops: float, slow_ns: int = 0) -> None:
        """Each side's two slices of a block, so many operations in each; the first side's are longer by `slow_ns`."""
        sides = [*range(len(ops)), *reversed(range(len(ops)))]
        for place, side in enumerate(sides):
            spent_ns = COUNTED_NS + (slow_ns if side == 0 else 0)
            row = SliceRow(
                self.steps[side], self.blocks, place, self.hand.at_ns,
                counted_from_ns=self.hand.at_ns + WARM_NS, counted_ns=spent_ns, ops=round(ops[side]), rows=0,
                cpu_ns=40_000_000, cpu_ops=round(ops[side]), runq_ns=0, leak_ns=0, stopped=0, switch_ns=300_000,
            )  # fmt: skip
            self.journal.add_slice(row)
            self.hand.at_ns += SLICE_NS + (slow_ns if side == 0 else 0)
        self.blocks += 1
        if self.blocks % 5 == 0:
            self.second(*ops)
        self.journal.commit()

    def second(self, *ops: float) -> None:
        """A tick of every side, each of which worked for its part of the last second."""
        self.ticks += 1
        for side, done in enumerate(ops):
            counts = histogram.pack({histogram.index(120): max(1, round(done) * 10)})
            worked_ns = SECOND_NS // len(ops)
            second = RoleSecond(self.roles[side], self.hand.at_ns, worked_ns, round(done) * 10, 0, 0, 120, counts)
            self.journal.add_role_seconds([second])

    def stall(self, side: int) -> int:
        """A stall of a side begins now."""
        data: dict[str, Any] = {"client": 1, "depth": 0.0, "median_per_s": 8000.0, "missed_rows": 9, "causes": []}
        attempt, step = self.attempts[side], self.steps[side]
        id = self.journal.add_event("stall", self.hand.at_ns, data, attempt=attempt, step=step, role="query")
        self.journal.commit()
        return id

    def end(self, side: int, state: str = "finished") -> None:
        """A side's step ends now."""
        self.journal.end_step(self.steps[side], self.hand.at_ns, None, state)


@contextmanager
def abreast(folder: Path, *, builds: Sequence[str] = ("16.3", "17.0"), begun: bool = True) -> Iterator[Abreast]:
    """A run of one repeat in slices of 50 ms, whose cells have begun; `begun` says that their step qr100 has, too."""
    run = make_run(folder / "20261122-120000-16.3-17.0", builds=builds, repeats=1, unfinished=range(len(builds)))
    (run / "cells").mkdir(exist_ok=True)
    record = json.loads((run / "manifest.json").read_text()) | {"interleave": "slices", "slice_ms": 50.0}
    (run / "manifest.json").write_text(json.dumps(record))
    with JournalWriter.open(run) as journal:
        anchor = (START_NS, WALL_NS, journal.session.id)
        journal.database.execute("UPDATE session SET monotonic_ns = ?, wall_ns = ? WHERE id = ?", anchor)
        cells = [
            Cell(cell["id"], cell["ordinal"], Subject(**cell["subject"]), cell["repeat"]) for cell in record["cells"]
        ]
        made = Abreast(run, Hand(), journal, cells)
        for side, cell in enumerate(cells):
            made.attempts.append(journal.begin_attempt(cell.id, START_NS - SECOND_NS, {}))
            made.steps.append(0)
            made.roles.append(0)
            if begun:
                made.begin(side)
        yield made

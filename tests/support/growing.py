"""A run that goes on while a test looks: written by the journal's own writer, second by second."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.core.clock import Clock
from engine.journal.rows import RoleSecond
from engine.journal.writer import JournalWriter
from engine.view.step_series import SECOND_NS
from tests.support.made_run import make_run
from workloads import histogram

START_NS = 50_000 * SECOND_NS
WALL_NS = 1_795_180_800 * SECOND_NS  # of START_NS
CELL = "002-17.0-auto-r1"


class Hand:
    """A clock that a test moves by hand."""

    def __init__(self, at_ns: int = START_NS) -> None:
        self.at_ns = at_ns

    @property
    def clock(self) -> Clock:
        """What is handed to the interface."""
        return Clock(lambda: self.at_ns, lambda: self.at_ns)


@dataclass
class Growing:
    """A step of kind write under way, with an insert and a delete role."""

    run: Path
    hand: Hand
    journal: JournalWriter
    attempt: int
    step: int
    roles: dict[str, int]
    start_ns: int
    seconds: int = 0

    def second(self, insert: int = 1000, delete: int = 900, **values: Any) -> None:
        """One more second, and the clock moves on by it; a role with -1 was not read."""
        self.seconds += 1
        self.hand.at_ns = self.start_ns + self.seconds * SECOND_NS
        for name, rows in (("insert", insert), ("delete", delete)):
            counts = histogram.pack({histogram.index(400): max(1, rows // 50)})
            second: dict[str, Any] = {
                "statements": rows // 50,
                "rows": rows,
                "in_flight_ns": 0,
                "max_us": 400,
                "service": counts,
            }
            self.journal.add_role_seconds(
                [RoleSecond(self.roles[name], self.hand.at_ns, SECOND_NS, **(second | values))]
            )
        self.journal.commit()

    def stall(self, role: str = "insert", causes: tuple[str, ...] = ()) -> int:
        """A stall begins now."""
        record = self.stall_record(causes)
        id = self.journal.add_event("stall", self.hand.at_ns, record, attempt=self.attempt, step=self.step, role=role)
        self.journal.commit()
        return id

    def stall_record(self, causes: tuple[str, ...] = ()) -> dict[str, Any]:
        """The data of a stall."""
        ranked = [{"kind": "stopped", "score": 0.9, "text": text} for text in causes]
        return {"client": 1, "depth": 0.01, "median_per_s": 1000.0, "missed_rows": 3000, "causes": ranked}

    def end_stall(self, id: int, *causes: str) -> None:
        """It ends now."""
        self.journal.update_event(id, self.hand.at_ns, self.stall_record(causes))
        self.journal.commit()

    def end_step(self, state: str = "finished") -> None:
        """The step ends now."""
        self.journal.end_step(self.step, self.hand.at_ns, None, state)


@contextmanager
def growing(
    folder: Path,
    *,
    work: int = 100_000,
    builds: Sequence[str] = ("16.3", "17.0"),
    begun: bool = True,
    start_ns: int = START_NS,
) -> Iterator[Growing]:
    """The first cell, of the base, is finished; the second is in l.i1, if that has begun. The run's lock is held.

    Who looks by the machine's clock says when the step starts: how long the machine has been up is not for a test.
    """
    others = range(1, len(builds))
    run = make_run(folder / "20261120-120000-16.3-17.0", builds=builds, repeats=1, unfinished=others, noise=0.0)
    (run / "cells").mkdir(exist_ok=True)
    with JournalWriter.open(run) as journal:
        attempt = journal.begin_attempt(CELL, start_ns - 5 * SECOND_NS, {})
        plan = {"name": "l.i1", "kind": "write"}
        step = journal.begin_step(attempt, 0, "l.i1", "write", work, plan, start_ns) if begun else 0
        names = ("insert", "delete") if begun else ()
        roles = {name: journal.add_role(step, 1, name, 4100 + n, 4200 + n) for n, name in enumerate(names)}
        anchor = (start_ns, WALL_NS, journal.session.id)
        journal.database.execute("UPDATE session SET monotonic_ns = ?, wall_ns = ? WHERE id = ?", anchor)
        journal.commit()
        yield Growing(run, Hand(start_ns), journal, attempt, step, roles, start_ns)

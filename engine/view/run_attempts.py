"""The attempts of a run's cells, as read so far, and the state of the run that follows from them."""

from __future__ import annotations

from engine.core.model import Cell
from engine.journal import outcome
from engine.journal.reader import JournalReader
from engine.journal.rows import Attempt, EventRow
from engine.view.view_state import ViewState


class RunAttempts:
    def __init__(self, reader: JournalReader) -> None:
        self._reader, self._manifest = reader, reader.manifest
        self._by_id: dict[int, Attempt] = {}
        self._decisions: list[EventRow] = []  # on the number of repeats

    def read(self) -> None:
        running = [attempt.id for attempt in self._by_id.values() if attempt.state == "running"]
        # Any of the interleaved cells may end first.
        known = min(running) - 1 if running else max(self._by_id, default=0)
        for attempt in self._reader.attempts(known, origins=False):
            self._by_id[attempt.id] = attempt
        self._decisions = self._reader.decisions()

    @property
    def all(self) -> list[Attempt]:
        return list(self._by_id.values())

    @property
    def start(self) -> int:
        """The start of the engine that runs."""
        return max((attempt.session_id for attempt in self.all), default=0)

    def wanted(self) -> tuple[Cell, ...]:
        return outcome.wanted(self._manifest, self._decisions)

    def ended(self) -> str:
        """The state of a run without an engine."""
        if outcome.finished(self._manifest, self.all).issuperset(cell.id for cell in self.wanted()):
            return "finished"
        return "failed" if "failed" in {attempt.cell: attempt.state for attempt in self.all}.values() else "stopped"

    def blank(self, state: str) -> ViewState:
        """A view without a cell or a step."""
        manifest, names = self._manifest, self._manifest.names
        done = outcome.finished(manifest, self.all)
        failures = tuple(attempt for attempt in self.all if attempt.state == "failed" and attempt.cell not in done)
        return ViewState(
            self._reader.run.name,
            state,
            len(outcome.wanted(manifest, self._decisions, done)),
            len(done),
            len({attempt.cell for attempt in failures}),
            repeats=outcome.repeats(manifest, self._decisions),
            decisions=tuple(self._decisions),
            allocation=outcome.allocation(manifest, self._decisions),
            names=names,
            base=next(iter(names.values()), manifest.design.base),
            failures=failures,
            external=manifest.external is not None,
        )

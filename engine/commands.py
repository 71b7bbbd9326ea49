"""What an engine does when it is asked by its control socket, with what it has at that moment."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from engine.errors import UserError
from engine.probing import Probing
from engine.writer import JournalWriter

MARK_MAX = 500


@dataclass(slots=True)
class Commands:
    """Answers `control.ask`. `attempt`, `step` and `probing` are those under way, if any."""

    journal: JournalWriter
    attempt: int | None = None
    step: int | None = None
    probing: Probing | None = None
    stop_wanted: bool = False

    def answer(self, record: dict[str, Any]) -> str:
        """Does what a caller asks; returns what to say. Raises UserError for what cannot be done."""
        match record:
            case {"probe": str(name), "on": bool(on)}:
                return self._switch(name, on)
            case {"mark": str(text)}:
                return self._mark(text)
            case {"stop": True}:
                self.stop_wanted = True
                return "stopping"
            case _:
                known = '{"probe": NAME, "on": true}, {"mark": TEXT} or {"stop": true}'
                raise UserError(f"control: not understood; say {known}")

    def _switch(self, name: str, on: bool) -> str:
        if self.probing is None:
            raise UserError(f"probe {name}: no server is up yet; try again once a step runs")
        reason = self.probing.switch(name, on)
        if reason:
            raise UserError(reason)
        self.journal.commit()
        return f"{name} {'starts' if on else 'stops'}"

    def _mark(self, text: str) -> str:
        t_ns = time.monotonic_ns()
        data = {"text": text[:MARK_MAX]}
        self.journal.add_event("mark", t_ns, data, ended_ns=t_ns, attempt=self.attempt, step=self.step)
        self.journal.commit()
        return "marked"

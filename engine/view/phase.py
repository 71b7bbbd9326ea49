"""Activities of the engine while no step runs: booting a kernel, starting a server, waiting."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from engine.core.kernel import BOOT
from engine.journal.reader import JournalReader
from engine.journal.rows import Attempt

ENDED = {"finished": "has finished", "failed": "has failed", "interrupted": "was stopped"}  # by state


@dataclass(frozen=True, slots=True)
class Booting:
    """A cell whose guest is booting, before its attempt begins. `started_ns` is by the host's clock."""

    cell: str
    started_ns: int


def booting(reader: JournalReader, attempts: Collection[Attempt]) -> Booting | None:
    """The cell whose guest is booting; None if the newest guest has begun its attempt."""
    events = reader.events(kinds=(BOOT,)) if reader.manifest.boot.kernels else []
    if not events or max((attempt.id for attempt in attempts), default=0) != events[-1].data.get("after"):
        return None
    return Booting(str(events[-1].data.get("cell")), events[-1].started_ns)


def waiting(reader: JournalReader, between: str, attempt: Attempt, since_ns: int) -> str:
    """The engine's place between steps and the thing it waits for, in words; an ended attempt waits for nothing."""
    if attempt.state != "running":
        return f"the cell {ENDED.get(attempt.state, attempt.state)}"
    waits = reader.events(attempt=attempt.id, kinds=("progress",))
    return f"{between}: {waits[-1].data.get('text', '')}" if waits and waits[-1].started_ns >= since_ns else between

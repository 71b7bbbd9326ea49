"""Reading what probes counted in a step: frames of one probe and role, and the latest of all.

A step of hours has a hundred thousand frames, so only those shown are kept and others are read again on demand. `look`
runs in a thread. The engine's own scheduler samples appear as frames of the probe `procsched`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from engine.core.model import Cell
from engine.journal.reader import FAR_NS, JournalReader
from engine.journal.rows import Attempt, EngineStart, EventRow, ProbeFrame, StepRow
from engine.journal.run_lock import is_locked
from engine.view.probe_series import LATE_NS
from engine.view.step_series import SECOND_NS

READ_NS = 300 * SECOND_NS  # decoded at once
FRESH_NS = 4 * SECOND_NS  # frames come every second; an older one is the last
SAMPLED = "procsched"
EVENTS = ("probe", "probe_gap", "stall")  # the kinds used here


@dataclass(frozen=True, slots=True)
class StepPlace:
    step: StepRow
    attempt: Attempt
    session: EngineStart
    cell: Cell
    name: str  # of its subject


@dataclass(frozen=True, slots=True)
class Wanted:
    """The frames to read: those after `after_ns`, the state at `at_ns`, and news since `newest_step` and `event`."""

    step: StepRow | None = None
    probe: str = ""
    role: str = ""
    after_ns: int = 0
    at_ns: int = FAR_NS
    newest_step: int = 0
    event: int = 0
    lasting: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class News:
    """The result of one reading. `places` are all steps of the run, or None if no step is new.

    `end_ns` is how far the step has come, `frames` are the wanted ones, `fresh` those of all probes and roles just
    before `at_ns`, `roles` the pairs (probe, role) seen.
    """

    running: bool
    observers: tuple[str, ...]
    places: tuple[StepPlace, ...] | None
    step: StepRow | None
    events: tuple[EventRow, ...]
    end_ns: int = 0
    frames: tuple[ProbeFrame, ...] = ()
    fresh: tuple[ProbeFrame, ...] = ()
    roles: frozenset[tuple[str, str]] = frozenset()


def look(run: Path, wanted: Wanted) -> News:
    """Read a run's news. Raises UserError if it cannot be read."""
    with JournalReader(run) as reader:
        attempts = reader.attempts(origins=False)
        latest = [step for attempt in attempts[-2:] if (step := reader.latest_step(attempt.id)) is not None]
        newest = max((step.id for step in latest), default=0)
        places = _places(reader, attempts) if newest != wanted.newest_step else None
        events = reader.events(after_id=wanted.event, kinds=EVENTS)
        events += [reader.event(id) for id in wanted.lasting]
        news = News(is_locked(run), reader.manifest.observation.observers, places, None, tuple(events))
        return news if wanted.step is None else _of_step(reader, wanted, news)


def _of_step(reader: JournalReader, wanted: Wanted, news: News) -> News:
    assert wanted.step is not None
    step = reader.step(wanted.step.id)
    recorded = reader.counts(step.id, wanted.after_ns) if step.ended_ns is None else []
    end_ns = step.ended_ns or max((wanted.after_ns, step.started_ns, *(count.t_ns for count in recorded)))
    frames, roles = _frames(reader, wanted, end_ns + LATE_NS)
    at_ns = min(wanted.at_ns, end_ns + LATE_NS)
    fresh = reader.probe_frames(step.id, at_ns - FRESH_NS - LATE_NS, at_ns)
    newest_ns = max((frame.t_ns for frame in fresh), default=0)
    fresh = [frame for frame in fresh if frame.t_ns > min(at_ns, max(newest_ns, end_ns)) - FRESH_NS]
    fresh += _sampled(reader, step.id, "", min(at_ns, end_ns) - FRESH_NS, at_ns)
    seen = roles | {(frame.probe, frame.role) for frame in fresh}
    return replace(news, step=step, end_ns=end_ns, frames=tuple(frames), fresh=tuple(fresh), roles=frozenset(seen))


def _frames(reader: JournalReader, wanted: Wanted, until_ns: int) -> tuple[list[ProbeFrame], set[tuple[str, str]]]:
    assert wanted.step is not None
    if wanted.probe == SAMPLED:
        return _sampled(reader, wanted.step.id, wanted.role, wanted.after_ns, until_ns), set()
    selected: list[ProbeFrame] = []
    roles: set[tuple[str, str]] = set()
    for after_ns in range(wanted.after_ns, until_ns, READ_NS):
        frames = reader.probe_frames(wanted.step.id, after_ns, min(until_ns, after_ns + READ_NS))
        roles.update((frame.probe, frame.role) for frame in frames)
        selected += [frame for frame in frames if frame.probe == wanted.probe and frame.role == wanted.role]
    return selected, roles


def _places(reader: JournalReader, attempts: Iterable[Attempt]) -> tuple[StepPlace, ...]:
    cells, names = {cell.id: cell for cell in reader.manifest.cells}, reader.manifest.names
    sessions = {session.id: session for session in reader.sessions()}
    return tuple(
        StepPlace(step, attempt, sessions[attempt.session_id], cell, names[cell.subject])
        for attempt in attempts
        if (cell := cells.get(attempt.cell)) is not None
        for step in reader.steps(attempt.id)
        if step.kind != "pause"
    )


def _sampled(reader: JournalReader, step: int, wanted: str, after_ns: int, until_ns: int) -> list[ProbeFrame]:
    """Intervals of a role's connections (of all roles if empty) as frames."""
    sums: dict[tuple[int, str], ProbeFrame] = {}
    names = {role.id: role.name for role in reader.roles(step)}
    for second in reader.seconds(step, after_ns, until_ns):
        name = names[second.role_id]
        if (wanted and name != wanted) or second.backend_cpu_ns is None:
            continue
        data = {
            "processes": 1,
            "oncpu_us": second.backend_cpu_ns // 1000,
            "runq_us": (second.backend_runq_ns or 0) // 1000,
            "switches": second.backend_switches or 0,
        }
        key = (second.t_ns, name)
        if key in sums:  # several clients
            data = {field: value + sums[key].data[field] for field, value in data.items()}
        sums[key] = ProbeFrame(step, second.t_ns, second.dt_ns, SAMPLED, name, data, {})
    return [sums[key] for key in sorted(sums)]

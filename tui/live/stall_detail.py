"""The detail of a stall: its causes, every series around it, where the backend hung, and the log."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from engine.core.format import short, three
from engine.journal.reader import JournalReader
from engine.journal.rows import EventRow, RoleRow, RoleSecond
from engine.journal.totals import progress, progress_unit
from engine.view.envelope import columns_of, envelope
from engine.view.events import stall_seconds, stall_words, until_ns
from engine.view.step_series import SECOND_NS
from engine.view.view_state import ViewState, share_percent
from tui.glyphs import Glyphs
from tui.live.text import event_line
from tui.marks import Line, hanging, line
from tui.widgets.raster import columns_per_cell, raster

AROUND_NS = 30 * SECOND_NS
NAME_CELLS = 20
RANGE_CELLS = 14
Point = tuple[float, float, float]

# Series of each role, and of the machine: heading, and the value of an interval.
ROLE_SERIES: tuple[tuple[str, Callable[[RoleRow, RoleSecond], float | None]], ...] = (
    ("/s", lambda role, second: progress(role.name, second) * SECOND_NS / second.dt_ns),
    (" in flight s", lambda role, second: second.in_flight_ns / 1e9),
    (" cpu %", lambda role, second: share_percent(second.backend_cpu_ns, second.dt_ns)),
    (" runq %", lambda role, second: share_percent(second.backend_runq_ns, second.dt_ns)),
)
SAMPLE_SERIES: tuple[tuple[str, str, str, float], ...] = (
    ("server cpu %", "server", "cpu_ns", 1e-7),
    ("device written MB/s", "device", "written_kb", 1 / 1024),
    ("waiting for I/O %", "host", "pressure_io_some_ns", 1e-7),
)


def detail(reader: JournalReader, view: ViewState, stall: EventRow, glyphs: Glyphs, cells: int) -> list[Line]:
    """A stall from 30 s before to 30 s after; in a recording all of that, regardless of the replay's position."""
    assert view.series is not None
    now_ns = view.at_ns if view.speed is None else max(view.at_ns, view.series.newest_ns)
    began_ns, ended_ns = stall.started_ns, until_ns(stall, now_ns)
    over = view.speed is not None or (view.step is not None and view.step.ended_ns is not None)
    last_ns = view.series.newest_ns if over else ended_ns + AROUND_NS
    axis = (max(began_ns - AROUND_NS, view.series.step.started_ns), min(ended_ns + AROUND_NS, max(last_ns, ended_ns)))
    at = min(axis[1], now_ns)
    median, missed = short(stall.data.get("median_per_s")), short(stall.data.get("missed_rows"))
    unit = progress_unit(str(stall.role), view.unit)
    lines = [
        line(
            (" STALL ", "stall"),
            (f" {stall.role}, {stall_seconds(stall, now_ns):.1f} s", "strong"),
            (f"  depth {stall.data.get('depth', 0):.0%} of {median} {unit}/s, {missed} {unit} not done", ""),
        ),
        *_causes(stall, now_ns, cells),
        line((f" 30 s before to 30 s after{' (so far)' if at < axis[1] and not over else ''}", "dim")),
    ]
    bar = max(10, cells - NAME_CELLS - RANGE_CELLS - 2)
    marked = columns_of(*axis, began_ns, ended_ns, bar)
    for name, points in _series(reader, view, stall, axis[0], at):
        lines.append(_strip(name, points, axis, bar, marked, glyphs))
    lines += _snapshot(stall.data.get("snapshot"), cells)
    near = [
        event
        for event in view.series.events
        if event.id != stall.id and event.started_ns <= at and (event.ended_ns or event.started_ns) >= axis[0]
    ]
    lines.append(line((" log", "strong"), ("" if near else "  nothing was logged", "dim")))
    for event in near:
        began, words = event_line(event, now_ns, view.wall_ns + now_ns - view.at_ns)
        lines += hanging(began, words[0], cells, words[1])
    return lines


def _causes(stall: EventRow, at_ns: int, cells: int) -> list[Line]:
    causes = stall.data.get("causes") or []
    if not causes:
        return [line((f" {stall_words(stall, at_ns)}; its causes are not ranked yet", "dim"))]
    lines: list[Line] = []
    for rank, cause in enumerate(causes, 1):
        head = (f" {rank}. {cause['score']:.2f} ", "strong" if rank == 1 else "dim")
        lines += hanging(head, str(cause["text"]), cells)
    return lines


def _series(
    reader: JournalReader, view: ViewState, stall: EventRow, from_ns: int, until_ns: int
) -> Iterable[tuple[str, list[Point]]]:
    assert view.series is not None and view.step is not None
    roles = view.series.roles
    seconds = reader.seconds(view.step.id, from_ns, until_ns)
    client = stall.data.get("client", 1)
    for role in roles.values():
        if role.client != client:
            continue
        role_seconds = [second for second in seconds if second.role_id == role.id and second.dt_ns > 0]
        for name, value in ROLE_SERIES if role.name == stall.role else ROLE_SERIES[:1]:
            values = ((second, value(role, second)) for second in role_seconds)
            yield role.name + name, [(s.t_ns, s.dt_ns, figure) for s, figure in values if figure is not None]
    samples = reader.samples(view.step.id, from_ns, until_ns)
    for name, source, field, factor in SAMPLE_SERIES:
        yield (
            name,
            [
                (t_ns, dt_ns, data[field] * factor * SECOND_NS / dt_ns)
                for t_ns, dt_ns, of, data in samples
                if of == source and field in data and dt_ns > 0
            ],
        )


def _strip(
    name: str, points: Sequence[Point], axis: tuple[float, float], cells: int, marked: range, glyphs: Glyphs
) -> Line:
    """A series in one row: its course, reversed during the stall, and its least and greatest value."""
    values = [value for _, _, value in points]
    if not values:
        return line((f" {name:<{NAME_CELLS}}", ""), ("no data", "dim"))
    columns = envelope(points, *axis, cells * columns_per_cell(glyphs))
    (text,) = raster(columns, max(max(values), 1e-9), 1, glyphs)
    return (
        (f" {name:<{NAME_CELLS}}"[: NAME_CELLS + 1], ""),
        (text[: marked.start], "rate"),
        (text[marked.start : marked.stop], "stall"),
        (text[marked.stop :], "rate"),
        (" " * (cells - len(text)) + f" {three(min(values))}..{short(max(values))}", "dim"),
    )


def _snapshot(snapshot: dict[str, Any] | None, cells: int) -> list[Line]:
    """The place where the backend hung when the stall was detected, innermost frame first."""
    if not snapshot:
        return []
    state = f"state {snapshot.get('state', '?')}"
    wait = snapshot.get("wait") or "no wait event"
    blockers = snapshot.get("blocked_by") or []
    blocked = f", blocked by {', '.join(_holder(blocker) for blocker in blockers)}" if blockers else ""
    lines = hanging((" blocked in  ", "strong"), f"{state}, {wait}{blocked}", cells)
    for name in ("kernel", "user"):
        frames = snapshot.get(name) or []
        if frames:
            lines += hanging((f"  {name:<7}", "dim"), " < ".join(frames), cells)
    for note in snapshot.get("notes") or []:
        lines += hanging(("  ", "dim"), str(note), cells, "dim")
    return lines


def _holder(blocker: dict[str, Any]) -> str:
    """The process that holds the lock, and its activity."""
    what = blocker.get("what")
    return f"{blocker.get('pid')}{f' ({what})' if what else ''}"

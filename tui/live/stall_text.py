"""A stall's detail in lines: what every series did around it, what was logged, where the backend hung, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from textwrap import wrap
from typing import Any

from engine.journal import EventRow, JournalReader, RoleRow, RoleSecond
from engine.model import progress
from tui.glyphs import Glyphs
from tui.live.film import SECOND_NS
from tui.live.picture import Picture, lasts
from tui.live.words import event_line, stall_seconds, stall_words
from tui.marks import Line, Span, line
from tui.numbers import short, three
from tui.widgets.envelope import columns_of, envelope
from tui.widgets.raster import columns_per_cell, raster

AROUND_NS = 30 * SECOND_NS
NAME_CELLS = 20
RANGE_CELLS = 14
Point = tuple[float, float, float]

# What is shown of each role, and of the machine: heading and how it is had from an interval.
ROLE_SERIES: tuple[tuple[str, Callable[[RoleRow, RoleSecond], float | None]], ...] = (
    ("/s", lambda role, second: progress(role.name, second) * SECOND_NS / second.dt_ns),
    (" in flight s", lambda role, second: second.in_flight_ns / 1e9),
    (" cpu %", lambda role, second: _share(second.backend_cpu_ns, second.dt_ns)),
    (" runq %", lambda role, second: _share(second.backend_runq_ns, second.dt_ns)),
)
SAMPLE_SERIES: tuple[tuple[str, str, str, float], ...] = (
    ("server cpu %", "dbms", "cpu_ns", 1e-7),
    ("device written MB/s", "device", "written_kb", 1 / 1024),
    ("waiting for I/O %", "host", "pressure_io_some_ns", 1e-7),
)


def detail(reader: JournalReader, picture: Picture, stall: EventRow, glyphs: Glyphs, cells: int) -> list[Line]:
    """Everything of a stall: 30 s before it to 30 s after."""
    assert picture.film is not None
    until_ns = picture.at_ns if lasts(stall, picture.at_ns) or stall.ended_ns is None else stall.ended_ns
    axis = (stall.started_ns - AROUND_NS, until_ns + AROUND_NS)
    at = min(axis[1], picture.at_ns)
    lines = [
        line(
            (" STALL ", "stall"),
            (f" {stall.role}, {stall_seconds(stall, picture.at_ns):.1f} s", "strong"),
            _sums(stall.data),
        ),
        *_causes(stall, picture.at_ns, cells),
        line((f" 30 s before to 30 s after{' (so far)' if at < axis[1] else ''}", "dim")),
    ]
    bar = max(10, cells - NAME_CELLS - RANGE_CELLS - 2)
    marked = columns_of(*axis, stall.started_ns, until_ns, bar)
    for name, points in _series(reader, picture, stall, axis[0], at):
        lines.append(_strip(name, points, axis, bar, marked, glyphs))
    lines += _snapshot(stall.data.get("snapshot"), cells)
    near = [
        event
        for event in picture.film.events
        if event.id != stall.id and event.started_ns <= at and (event.ended_ns or event.started_ns) >= axis[0]
    ]
    lines.append(line((" log", "strong"), ("" if near else "  nothing was logged", "dim")))
    for event in near:
        began, said = event_line(event, picture.at_ns, picture.wall_ns)
        lines += _folded(began, said, cells)
    return lines


def _folded(head: Span, said: Span, cells: int) -> list[Line]:
    """A head, and what is said in as many lines as it takes: here there is a whole screen for it."""
    indent = len(head[0])
    parts = wrap(said[0], max(20, cells - indent - 1)) or [""]
    return [line(head if place == 0 else " " * indent, (part, said[1])) for place, part in enumerate(parts)]


def _sums(data: dict[str, Any]) -> Span:
    missed = short(data.get("rows_not_done"))
    return (f"  depth {data.get('depth', 0):.0%} of {short(data.get('median_per_s'))}/s, {missed} not done", "")


def _causes(stall: EventRow, at_ns: int, cells: int) -> list[Line]:
    causes = stall.data.get("causes") or []
    if not causes:
        return [line((f" {stall_words(stall, at_ns)}; its causes are ranked when more is known", "dim"))]
    heads = [
        (f" {rank}. {cause['score']:.2f} ", "strong" if rank == 1 else "dim") for rank, cause in enumerate(causes, 1)
    ]
    return [
        row for head, cause in zip(heads, causes, strict=True) for row in _folded(head, (str(cause["text"]), ""), cells)
    ]


def _series(
    reader: JournalReader, picture: Picture, stall: EventRow, from_ns: int, until_ns: int
) -> Iterable[tuple[str, list[Point]]]:
    assert picture.film is not None and picture.step is not None
    roles = picture.film.roles
    seconds = reader.seconds(picture.step.id, from_ns, until_ns)
    client = stall.data.get("client", 1)
    for role in roles.values():
        if role.client != client:
            continue
        own = [second for second in seconds if second.role_id == role.id]
        for name, value in ROLE_SERIES if role.name == stall.role else ROLE_SERIES[:1]:
            yield (
                role.name + name,
                [
                    (float(second.t_ns), float(second.dt_ns), found)
                    for second in own
                    if second.dt_ns > 0 and (found := value(role, second)) is not None
                ],
            )
    samples = reader.samples(picture.step.id, from_ns, until_ns)
    for name, source, field, factor in SAMPLE_SERIES:
        yield (
            name,
            [
                (float(t_ns), float(dt_ns), data[field] * factor * SECOND_NS / dt_ns)
                for t_ns, dt_ns, of, data in samples
                if of == source and field in data and dt_ns > 0
            ],
        )


def _strip(
    name: str, points: Sequence[Point], axis: tuple[float, float], cells: int, marked: range, glyphs: Glyphs
) -> Line:
    """One series in one row: its course, the stall reversed, its least and greatest."""
    values = [value for _, _, value in points]
    if not values:
        return line((f" {name:<{NAME_CELLS}}", ""), ("no data", "dim"))
    columns = envelope(points, *axis, cells * columns_per_cell(glyphs))
    (text,) = raster(columns, max(max(values), 1e-9), 1, glyphs)
    spans: list[Span] = [(f" {name:<{NAME_CELLS}}"[: NAME_CELLS + 1], "")]
    spans += [
        (text[: marked.start], "rate"),
        (text[marked.start : marked.stop], "stall"),
        (text[marked.stop :], "rate"),
    ]
    spans.append((" " * (cells - len(text)) + f" {three(min(values))}..{short(max(values))}", "dim"))
    return tuple(spans)


def _snapshot(snapshot: dict[str, Any] | None, cells: int) -> list[Line]:
    """Where the backend hung when the stall was seen: innermost first."""
    if not snapshot:
        return []
    state = f"state {snapshot.get('state', '?')}"
    wait = snapshot.get("wait") or "no wait event"
    blockers = snapshot.get("blocked_by") or []
    blocked = f", blocked by {', '.join(str(pid) for pid in blockers)}" if blockers else ""
    lines = [line((" where it hung", "strong"), f"  {state}, {wait}{blocked}")]
    for name in ("kernel", "user"):
        frames = snapshot.get(name) or []
        if frames:
            lines += _folded((f"  {name:<7}", "dim"), (" < ".join(frames), ""), cells)
    for note in snapshot.get("notes") or []:
        lines += _folded(("  ", "dim"), (str(note), "dim"), cells)
    return lines


def _share(value_ns: int | None, dt_ns: int) -> float | None:
    return None if value_ns is None else 100 * value_ns / dt_ns

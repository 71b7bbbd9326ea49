"""Events in words: a stall with its likeliest cause, a checkpoint, a vacuum, what a probe said."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from engine.journal import EventRow
from tui.live.picture import lasts
from tui.marks import Line, line
from tui.numbers import short


def stall_seconds(stall: EventRow, at_ns: int) -> float:
    """How long a stall lasted, or has lasted so far."""
    ended_ns = at_ns if lasts(stall, at_ns) else stall.ended_ns
    return max(0.0, ((ended_ns or at_ns) - stall.started_ns) / 1e9)


def cause(stall: EventRow) -> str:
    """The likeliest cause in words; empty while none is known."""
    causes = stall.data.get("causes")
    return str(causes[0]["text"]) if isinstance(causes, list) and causes else ""


def stall_words(stall: EventRow, at_ns: int) -> str:
    """`STALL insert 3.2s so far: backend 123 is stopped (SIGSTOP)`."""
    lasting = " so far" if lasts(stall, at_ns) else ""
    because = cause(stall)
    return f"STALL {stall.role} {stall_seconds(stall, at_ns):.1f}s{lasting}{': ' + because if because else ''}"


def event_words(event: EventRow, at_ns: int) -> str:
    """An event as a few words."""
    data = event.data
    words = _WORDS.get(event.kind)
    if event.kind == "stall":
        return stall_words(event, at_ns)
    if lasts(event, at_ns):  # of one that is replayed, what it came to is known, but not yet true
        data = {name: value for name, value in data.items() if name not in _AT_END}
    return words(data) if words else str(data.get("text") or data.get("message") or event.kind)


def event_line(event: EventRow, at_ns: int, wall_ns: int) -> Line:
    """An event with the wall-clock time at which it began; `wall_ns` is that of `at_ns`."""
    began = time.strftime("%H:%M:%S", time.localtime((wall_ns - at_ns + event.started_ns) / 1e9))
    mark = ""
    if event.kind == "stall":
        mark = "stall" if lasts(event, at_ns) else "worse"
    elif event.kind in ("drift", "gap", "probe_gap", "server_error", "lock_wait", "clock_step"):
        mark = "warning"
    glyph = {"stall": "! ", "worse": "! ", "warning": "? "}.get(mark, "")
    return line((f" {began} ", "dim"), (glyph + event_words(event, at_ns), mark))


def _checkpoint(data: dict[str, Any]) -> str:
    if "total_s" not in data:
        return f"checkpoint begins: {data.get('cause', '')}"
    return (
        f"checkpoint ({data.get('cause', '')}) wrote {short(data.get('buffers'))} buffers"
        f" in {data['total_s']}s, sync {data.get('sync_s', 0)}s"
    )


def _autovacuum(data: dict[str, Any]) -> str:
    what = f"auto{data.get('operation', 'vacuum')} {data.get('relation', '')}"
    if "elapsed_s" not in data:
        return what
    removed = f", {short(data['tuples_removed'])} tuples removed" if "tuples_removed" in data else ""
    return f"{what} {data['elapsed_s']}s{removed}"


_AT_END = ("total_s", "elapsed_s")  # by which events are told that are over
_WORDS: dict[str, Callable[[dict[str, Any]], str]] = {
    "checkpoint": _checkpoint,
    "autovacuum": _autovacuum,
    "autovacuum_cancelled": lambda data: f"autovacuum of {data.get('relation', '')} was cancelled",
    "mark": lambda data: f"mark: {data.get('text', '')}",
    "probe_gap": lambda data: f"{data.get('probe')} has no figures: {data.get('text', '')}",
}

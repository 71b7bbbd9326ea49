"""The place where a stalled backend hung, in words, from the snapshot in the record of a stall."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

STATES = {
    "R": "running or ready to",
    "S": "asleep",
    "D": "in an uninterruptible wait",
    "T": "stopped by a signal",
    "t": "stopped by a debugger",
    "Z": "ended",
    "": "gone",
    "?": "not visible",
}
FRAMES_SHOWN = 8


def lines(role: str, snapshot: Mapping[str, Any] | None) -> list[str]:
    """Lines for the backend, its lock's holders, its stacks (innermost first), its client, and unknown facts."""
    if not snapshot:
        return []
    wait = snapshot.get("wait")
    lines_of = [f"{role} backend {_place(snapshot)}{f'; waits for {wait}' if wait else ''}"]
    for holder in snapshot.get("blocked_by") or ():
        what = holder.get("what")
        lines_of.append(f"blocked by {holder.get('pid')}{f': {what}' if what else ''}")
    for title, name in (("stack", "user"), ("in the kernel", "kernel")):
        if snapshot.get(name):
            lines_of.append(f"{title}: {_stack(snapshot[name])}")
    client = snapshot.get("client")
    if client and client.get("state") not in (None, ""):
        lines_of.append(f"its client {_place(client)}")
    return lines_of + [f"({note})" for note in snapshot.get("notes") or ()]


def _place(process: Mapping[str, Any]) -> str:
    """Such as `asleep in epoll_wait`."""
    state = str(process.get("state") or "")
    words = STATES.get(state, f"in state {state}")
    call = process.get("syscall") or process.get("wchan")
    return words if not call or call == "running" else f"{words} in {call}"


def _stack(frames: Iterable[str]) -> str:
    names = list(frames)
    more = f" < {len(names) - FRAMES_SHOWN} more" if len(names) > FRAMES_SHOWN else ""
    return " < ".join(names[:FRAMES_SHOWN]) + more

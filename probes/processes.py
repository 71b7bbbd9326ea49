"""Which threads are to be watched: a server's, the clients', and those that start clients."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from probes.render import CLIENT, LAUNCHER, SERVER

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def parents() -> dict[int, int]:
    """Every process and its parent."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                data = (folder / "stat").read_bytes()
                found[int(folder.name)] = int(data[data.rindex(b")") + 2 :].split()[1])
    return found


def descendants(pid: int, parent_of: dict[int, int]) -> set[int]:
    """The process, its children, their children, and so on."""
    children: dict[int, list[int]] = {}
    for child, parent in parent_of.items():
        children.setdefault(parent, []).append(child)
    found, left = set(), [pid]
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left += children.get(one, [])
    return found


def threads(pid: int) -> set[int]:
    """The threads of a process; empty once it is gone."""
    try:
        return {int(folder.name) for folder in Path(f"/proc/{pid}/task").iterdir()}
    except OSError:
        return set()


def groups(server: int, clients: Iterable[int], launchers: Iterable[int]) -> dict[int, int]:
    """All threads to begin with: tid -> group. A launcher's present children are not taken along."""
    parent_of = parents()
    found: dict[int, int] = {tid: LAUNCHER for pid in launchers for tid in threads(pid)}
    for pid in clients:
        found |= {tid: CLIENT for one in descendants(pid, parent_of) for tid in threads(one)}
    found |= {tid: SERVER for one in descendants(server, parent_of) for tid in threads(one)}
    return found


def started_ns(pid: int) -> int | None:
    """When the process began, on CLOCK_BOOTTIME, cut to ticks (10 ms); None once it is gone."""
    try:
        data = Path(f"/proc/{pid}/stat").read_bytes()
        return int(data[data.rindex(b")") + 2 :].split()[19]) * 1_000_000_000 // TICKS_PER_S
    except (OSError, ValueError, IndexError):
        return None


def process_of(tid: int) -> int:
    """The process that a thread belongs to; the thread itself when it is gone."""
    with suppress(OSError, ValueError):
        status = Path(f"/proc/{tid}/status").read_bytes()
        start = status.index(b"\nTgid:") + 6
        return int(status[start : status.index(b"\n", start)])
    return tid

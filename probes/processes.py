"""Threads to watch: a server's, its clients', and those of the programs that start clients."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from probes.script_text import CLIENT, LAUNCHER, SERVER

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def parents() -> dict[int, int]:
    parent_of = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                data = (folder / "stat").read_bytes()
                parent_of[int(folder.name)] = int(data[data.rindex(b")") + 2 :].split()[1])
    return parent_of


def descendants(pid: int, parent_of: dict[int, int]) -> set[int]:
    children: dict[int, list[int]] = {}
    for child, parent in parent_of.items():
        children.setdefault(parent, []).append(child)
    pids, left = set(), [pid]
    while left:
        one = left.pop()
        if one not in pids:
            pids.add(one)
            left += children.get(one, [])
    return pids


def threads(pid: int) -> set[int]:
    try:
        return {int(folder.name) for folder in Path(f"/proc/{pid}/task").iterdir()}
    except OSError:
        return set()


def owner(tid: int) -> int | None:
    """The user of a thread, root for setuid programs; None once it has exited."""
    try:
        return Path(f"/proc/{tid}").stat().st_uid
    except OSError:
        return None


def groups(server: int, clients: Iterable[int], launchers: Iterable[int]) -> dict[int, int]:
    """All initial threads: tid -> group. A launcher's present children are left out."""
    parent_of = parents()
    group_of: dict[int, int] = {tid: LAUNCHER for pid in launchers for tid in threads(pid)}
    for pid in clients:
        group_of |= {tid: CLIENT for one in descendants(pid, parent_of) for tid in threads(one)}
    group_of |= {tid: SERVER for one in descendants(server, parent_of) for tid in threads(one)}
    return group_of


def started_ns(pid: int) -> int | None:
    """Start time on CLOCK_BOOTTIME, rounded down to ticks (10 ms); None once it has exited."""
    try:
        data = Path(f"/proc/{pid}/stat").read_bytes()
        return int(data[data.rindex(b")") + 2 :].split()[19]) * 1_000_000_000 // TICKS_PER_S
    except (OSError, ValueError, IndexError):
        return None


@dataclass(frozen=True, slots=True)
class CpuUse:
    """CPU use of processes by `at_ns`: ns on a CPU, ns waiting for one, whether any is runnable now."""

    at_ns: int
    on_ns: int
    waited_ns: int
    runnable: bool

    def starved(self, before: CpuUse) -> bool:
        """Whether the processes have since `before` been kept from running, rather than asleep, stopped or at work.

        The kernel counts a wait when it ends; only the state reveals one that lasts.
        """
        elapsed_ns = self.at_ns - before.at_ns
        lasting = self.runnable and 2 * (self.on_ns - before.on_ns) < elapsed_ns
        return lasting or 5 * (self.waited_ns - before.waited_ns) > elapsed_ns


def cpu_use(pid: int) -> CpuUse:
    on_ns, waited_ns, runnable = 0, 0, False
    for one in descendants(pid, parents()):
        for tid in threads(one):
            with suppress(OSError, ValueError, IndexError):
                folder = Path(f"/proc/{one}/task/{tid}")
                on, waited, _ = (folder / "schedstat").read_bytes().split()
                data = (folder / "stat").read_bytes()
                on_ns, waited_ns = on_ns + int(on), waited_ns + int(waited)
                runnable = runnable or data[data.rindex(b")") + 2 :].startswith(b"R")
    return CpuUse(time.monotonic_ns(), on_ns, waited_ns, runnable)


def process_of(tid: int) -> int:
    """The process of a thread; the thread itself once it has exited."""
    with suppress(OSError, ValueError):
        status = Path(f"/proc/{tid}/status").read_bytes()
        start = status.index(b"\nTgid:") + 6
        return int(status[start : status.index(b"\n", start)])
    return tid

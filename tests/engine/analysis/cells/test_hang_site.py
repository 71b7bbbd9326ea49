"""The place where a stalled backend hung, in words, and its place in a comparison."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from engine.analysis.answer.compare import compare
from engine.analysis.cells import hang_site
from engine.core.model import Cell
from engine.observe.stalls import Stall
from engine.report import render
from tests.support.journal import make_run
from tests.support.totals import SECOND_NS

SNAPSHOT: dict[str, Any] = {
    "taken_ns": 1,
    "state": "S",
    "wchan": "ep_poll",
    "syscall": "epoll_wait",
    "kernel": ["ep_poll", "do_epoll_wait"],
    "user": [
        "epoll_wait", "WaitEventSetWait", "WaitLatch", "ProcSleep", "WaitOnLock", "LockAcquireExtended",
        "LockRelationOid", "relation_openrv", "table_openrv",
    ],
    "wait": "Lock:relation",
    "blocked_by": [{"pid": 4711, "what": "someone: idle in transaction: LOCK TABLE pi1"}],
    "client": {"state": "S", "wchan": "", "syscall": "poll", "kernel": []},
    "notes": ["client: stack may not be read: only root may"],
}  # fmt: skip


def test_a_snapshot_is_told_from_the_backend_outwards() -> None:
    assert hang_site.lines("insert", SNAPSHOT) == [
        "insert backend asleep in epoll_wait; waits for Lock:relation",
        "blocked by 4711: someone: idle in transaction: LOCK TABLE pi1",
        "stack: epoll_wait < WaitEventSetWait < WaitLatch < ProcSleep < WaitOnLock < LockAcquireExtended"
        " < LockRelationOid < relation_openrv < 1 more",
        "in the kernel: ep_poll < do_epoll_wait",
        "its client asleep in poll",
        "(client: stack may not be read: only root may)",
    ]


def test_what_is_not_there_is_not_told() -> None:
    assert hang_site.lines("insert", None) == []
    stopped = {"state": "T", "wchan": "do_signal_stop", "syscall": "", "kernel": [], "user": [], "notes": []}
    assert hang_site.lines("delete", stopped) == ["delete backend stopped by a signal in do_signal_stop"]
    assert hang_site.lines("delete", {"state": ""}) == ["delete backend gone"]


class Snapped(Stall):
    """A stall with a snapshot in its record, as the sampler writes it."""

    def record(self) -> dict[str, Any]:
        return super().record() | {"snapshot": SNAPSHOT}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    def stalled(cell: Cell, step: str, started_ns: int) -> list[Stall]:
        if step != "l.i1" or cell.subject.build != "17.0":
            return []
        ended_ns = started_ns + 14 * SECOND_NS
        longest = Snapped("insert", 1, started_ns, ended_ns, "rate", 0.01, 14.0, 0, 280_000, 20_000.0)
        shorter = Stall("delete", 1, started_ns, started_ns + SECOND_NS, "rate", 0.01, 1.0, 0, 10, 20_000.0)
        return [shorter, replace(longest)]

    return make_run(tmp_path / "r", repeats=1, stalls=stalled)


def test_the_place_of_the_longest_stalls_is_in_every_output(run: Path) -> None:
    comparison = compare([run])
    out = StringIO()
    render.print_comparison(comparison, Console(file=out, width=80))
    text = out.getvalue()
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "Where the longest stalls were blocked" in text
    flat = " ".join(text.split())
    assert "insert backend asleep in epoll_wait; waits for Lock:relation" in flat
    assert "ProcSleep < WaitOnLock" in flat
    (row,) = (line for line in render.to_markdown(comparison).splitlines() if line.startswith("| 17.0 | insert"))
    assert row == "| 17.0 | insert backend asleep in epoll_wait; waits for Lock:relation |"
    stalls = [stall for cell in comparison.cells for stall in cell.stalls]
    assert [stall.snapshot for stall in stalls if stall.snapshot] == [SNAPSHOT]

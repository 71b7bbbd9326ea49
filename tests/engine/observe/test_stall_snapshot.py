"""Records of the moment in which a stall began, in real runs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from engine.core.model import Build
from engine.journal.reader import JournalReader
from engine.journal.rows import EventRow, StepRow
from engine.postgres.server import SUPERUSER
from tests.support.benchcall import LONG, Bench, stalls, wait_for

WARM_UP_S = 7.0


@pytest.fixture
def step(bench: Bench, build: Callable[[int | str], Build]) -> StepRow:
    """A long step, past its warm-up."""
    bench.detached("--pg", build(16).label, "--repeats", "1", *LONG)
    step = bench.await_step("l.i1")
    time.sleep(WARM_UP_S)
    return step


def lasting(bench: Bench, step: StepRow, role: str) -> list[EventRow]:
    """The stalls of a role that last."""
    return [stall for stall in stalls(bench, step, role) if stall.ended_ns is None]


def logged(bench: Bench) -> list[dict[str, Any]]:
    """Lock waits in the server's log."""
    with JournalReader(bench.run) as reader:
        return [event.data for event in reader.events(kinds=("lock_wait",))]


def ended(bench: Bench, event: int) -> dict[str, Any]:
    """The record of a stall when it is over."""

    def data() -> dict[str, Any] | None:
        with JournalReader(bench.run) as reader:
            stall = reader.event(event)
        return stall.data if stall.ended_ns is not None else None

    return wait_for(data, "the stall to end")


def test_a_signalled_backend_is_seen_stopped_and_left_alone(bench: Bench, step: StepRow) -> None:
    backend = bench.backend(step, "insert")
    os.kill(backend, signal.SIGSTOP)
    try:
        stall = wait_for(lambda: lasting(bench, step, "insert"), "the stall to be seen")[-1]
        snapshot = stall.data["snapshot"]
        assert stall.started_ns <= snapshot["taken_ns"] < stall.started_ns + 10e9
        assert snapshot["state"] == "T"
        assert snapshot["user"] == []
        assert any("stopped" in note for note in snapshot["notes"])
        assert snapshot["client"]["state"] == "S"
        time.sleep(1.5)
        assert Path(f"/proc/{backend}/stat").read_text().split(") ")[1][0] == "T", "the engine let it run"
    finally:
        os.kill(backend, signal.SIGCONT)
    assert ended(bench, stall.id)["snapshot"]["taken_ns"] == snapshot["taken_ns"]


@pytest.mark.outside
def test_a_backend_behind_a_lock_is_seen_with_the_holder(bench: Bench, step: StepRow) -> None:
    (socket,) = bench.run.glob("cells/*/socket")
    host = str(socket.resolve())
    with psycopg.connect(host=host, user=SUPERUSER, dbname="ib", application_name="someone") as connection:
        connection.execute("LOCK TABLE pi1 IN ACCESS EXCLUSIVE MODE")
        holder = connection.info.backend_pid
        stall = wait_for(lambda: lasting(bench, step, "insert"), "the stall to be seen")[-1]

        def with_user_stack() -> dict[str, Any] | None:
            with JournalReader(bench.run) as reader:
                snapshot: dict[str, Any] = reader.event(stall.id).data["snapshot"]
            return snapshot if snapshot["user"] else None

        snapshot = wait_for(with_user_stack, "the user stack")
        with JournalReader(bench.run) as reader:
            cause = reader.event(stall.id).data["causes"][0]["text"]
        wait_for(lambda: [row for row in logged(bench) if "relation pi1" in row["target"]], "the log's name of it")
        connection.rollback()
    assert f"held by pid {holder} (someone: LOCK TABLE pi1 IN ACCESS EXCLUSIVE MODE) for 100%" in cause
    assert snapshot["wait"] == "Lock:relation"
    assert snapshot["syscall"] in ("epoll_wait", "epoll_pwait")
    assert any("epoll" in frame or "ep_poll" in frame for frame in snapshot["kernel"])
    assert "ProcSleep" in snapshot["user"] and "LockAcquireExtended" in snapshot["user"], snapshot
    ((pid, what),) = [(holder["pid"], holder["what"]) for holder in snapshot["blocked_by"]]
    assert pid == holder
    assert "someone" in what and "idle in transaction" in what and "LOCK TABLE pi1" in what
    assert ended(bench, stall.id)["snapshot"]["user"] == snapshot["user"]

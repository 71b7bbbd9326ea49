"""Attributions of a stall: a stopped backend, a lock and its holder."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from engine.journal.reader import JournalReader
from engine.journal.rows import EventRow, RoleSecond, StepRow
from tests.support.benchcall import CELLS, LONG, Bench, connect, ended_stalls, nothing_left, stalls, wait_for

LIMITED = (
    "--rows", "2000", "--rows-written", "1000", "--set", "shared_buffers=32MB", "--interleave", "slices",
    "--query-seconds", "600", "--steps", "l.i0,qp500",
)  # fmt: skip
WARM_SECONDS = 8  # of a step's record, before which nothing counts as a stall


def seconds_of(bench: Bench, step: StepRow, name: str = "insert") -> list[RoleSecond]:
    """The seconds of a role so far."""
    with JournalReader(bench.run) as reader:
        (role,) = (role for role in reader.roles(step.id) if role.name == name)
        return reader.role_seconds(role.id)


def await_warm(bench: Bench, name: str = "l.i1") -> StepRow:
    """Waits for a step that has been recorded for longer than its warm-up."""
    step = bench.await_step(name)
    wait_for(lambda: len(seconds_of(bench, step)) >= WARM_SECONDS, "the warm-up to pass")
    return step


def hangs(bench: Bench, step: StepRow, age_s: float, after_ns: int = 0, role: str = "insert") -> bool:
    """Whether a statement of the role has been seen to take so long, after a time."""
    seconds = [second for second in seconds_of(bench, step, role) if second.t_ns > after_ns]
    return any(second.in_flight_ns > age_s * 1e9 for second in seconds)


def test_a_stall_is_recorded_while_its_statement_runs(bench: Bench, label: str) -> None:
    bench.detached("--pg", label, "--repeats", "1", *LONG)
    step = await_warm(bench)
    backend = bench.backend(step, "insert")
    stopped_ns = time.monotonic_ns()
    os.kill(backend, signal.SIGSTOP)

    def seen() -> list[EventRow]:
        """Stalls since then; a busy machine may have had others before."""
        return [stall for stall in stalls(bench, step, "insert") if stall.started_ns > stopped_ns - 1_000_000_000]

    try:
        last = wait_for(seen, "the stall to be seen")[-1]
        assert last.ended_ns is None
        assert "STALL insert" in bench("watch", "--once").stdout
        wait_for(lambda: hangs(bench, step, 2.2), "a statement to hang")
        # Asked while it lasts: on a busy machine its end may be long in coming, and then there was more to it.
        assert next(stall for stall in seen() if stall.id == last.id).data["causes"][0]["name"] == "stopped"
    finally:
        os.kill(backend, signal.SIGCONT)
    (stall,) = wait_for(lambda: [stall for stall in ended_stalls(bench, step) if stall.id == last.id], "its end")
    assert "stopped" in [cause["name"] for cause in stall.data["causes"]]
    assert stall.data["missed_rows"] > 0
    assert stall.data["max_in_flight_ns"] > 2_000_000_000
    bench("stop")
    nothing_left(bench)


def test_a_lock_in_a_limited_sliced_step_is_a_stall(bench: Bench, label: str) -> None:
    """Every role's stall has the holder as its cause; the step goes on for long after it."""
    bench.detached("--pg", label, "--aa", "--repeats", "1", *LIMITED)
    step = await_warm(bench, "qp500")
    # Not in a burst a second, which is several seconds of the clock: then no rate shows whether a role works.
    idle = [second.statements == 0 for second in seconds_of(bench, step)[3:]]
    assert sum(idle) <= len(idle) / 4
    with connect(bench) as connection:
        connection.autocommit = False
        asked_ns = time.monotonic_ns()
        connection.execute("LOCK TABLE pi1 IN EXCLUSIVE MODE")  # reading goes on
        holder = connection.info.backend_pid

        def stalled() -> bool:
            """One may wait alone: it keeps its slice from ending, at whose end the other one sends nothing."""
            lasting = {stall.role for stall in stalls(bench, step) if stall.ended_ns is None}
            waiting = any(hangs(bench, step, 3, asked_ns, role) for role in ("insert", "delete"))
            return waiting and {"insert", "delete"} <= lasting

        wait_for(stalled, "an insert or a deletion to wait for the lock, and stalls of both")
        connection.rollback()
        released_ns = time.monotonic_ns()

    def over() -> list[EventRow]:
        ended = [stall for stall in ended_stalls(bench, step) if (stall.ended_ns or 0) > asked_ns]
        return ended if {"insert", "delete"} <= {stall.role for stall in ended} else []

    ended = wait_for(over, "the stalls of the limited roles to end")
    locked = [stall for stall in ended if stall.data["causes"][0]["name"] == "lock"]
    assert any(str(holder) in stall.data["causes"][0]["text"] for stall in locked)
    assert not [cause for stall in ended for cause in stall.data["causes"] if "limiter" in cause["text"]]
    late_ns = [(stall.ended_ns or 0) - released_ns for stall in locked]
    longest_ns = max(second.dt_ns for second in seconds_of(bench, step))
    assert min(late_ns) < 2 * longest_ns, "no part of it is after the lock"
    bench("stop")


def test_a_slow_statement_stalls_if_blocked_not_if_asleep(
    bench: Bench, label: str, new_folder: Callable[[], Path]
) -> None:
    (data := new_folder() / "data.sql").write_text("CREATE TABLE t AS SELECT 1 AS id;")
    (statements := data.parent / "statements.sql").write_text("-- name: nap\nSELECT pg_sleep(3) FROM t;")
    words = ("--workload", "own", "--dump", str(data), "--statements", str(statements), "--seconds", "600", *CELLS)
    bench.detached("--pg", label, "--repeats", "1", *words)
    step = bench.await_step("nap")

    def executed() -> bool:
        with JournalReader(bench.run) as reader:
            (role,) = reader.roles(step.id)
            return any(second.statements for second in reader.role_seconds(role.id))

    wait_for(executed, "a statement to end")
    assert not stalls(bench, step)
    backend, stopped_ns = bench.backend(step, "statement"), time.monotonic_ns()
    os.kill(backend, signal.SIGSTOP)
    try:
        wait_for(lambda: len(stalls(bench, step)) == 1, "the first stall to be seen")
    finally:
        went_on_ns = time.monotonic_ns()
        os.kill(backend, signal.SIGCONT)
    (first,) = wait_for(lambda: ended_stalls(bench, step), "its end")
    assert first.data["trigger"] == "blocked" and first.data["causes"][0]["name"] == "stopped"
    assert first.started_ns <= stopped_ns and (first.ended_ns or 0) >= went_on_ns
    with connect(bench) as connection:
        connection.autocommit = False
        connection.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        wait_for(lambda: len(stalls(bench, step)) == 2, "the second stall to be seen")
        connection.rollback()
        holder = connection.info.backend_pid
    _, second = wait_for(lambda: both if len(both := ended_stalls(bench, step)) == 2 else [], "its end")
    assert second.data["causes"][0]["name"] == "lock" and f"held by pid {holder}" in second.data["causes"][0]["text"]
    bench("stop")

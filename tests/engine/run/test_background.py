"""Vacuums that go on beside a step (generation g22): their sessions end with them, and their errors are told."""

from __future__ import annotations

from engine.journal.reader import JournalReader
from tests.support.benchcall import Bench, connect, wait_for

G22 = (
    "--generation", "g22", "--rows", "2000", "--steps", "q500.1", "--repeats", "1", "--set", "shared_buffers=32MB",
    "--query-seconds", "600",
)  # fmt: skip


def finished(bench: Bench, name: str) -> bool:
    attempts = bench.attempts()
    steps = bench.steps(attempts[-1]) if attempts else []
    return any(step.name == name and step.state == "finished" for step in steps)


def test_their_sessions_are_gone_when_they_are_done(bench: Bench, label: str) -> None:
    bench.detached("--pg", label, *G22)
    step = bench.await_step("q500.1")
    with JournalReader(bench.run) as reader:
        roles = {role.backend_pid for role in reader.roles(step.id)}
    with connect(bench) as connection:

        def others() -> list[str]:
            rows = connection.execute(
                "SELECT pid, query FROM pg_stat_activity WHERE backend_type = 'client backend'"
                " AND datname = current_database() AND pid <> pg_backend_pid() AND query LIKE 'VACUUM%'"
            ).fetchall()
            return [str(query) for pid, query in rows if pid not in roles]

        wait_for(lambda: not others(), "the vacuums' sessions to end")
    (log,) = bench.run.glob("cells/*/maintenance.log")
    assert log.read_text().count("VACUUM (VERBOSE) pi1") == 2
    bench("stop")


def test_one_that_fails_fails_the_cell_and_says_why(bench: Bench, label: str) -> None:
    bench.detached("--pg", label, *G22)
    wait_for(lambda: finished(bench, "l.x"), "the index build")
    waiting = "FROM pg_stat_activity WHERE query LIKE 'VACUUM%' AND wait_event_type = 'Lock'"
    with connect(bench) as connection, connect(bench) as other:
        connection.execute("BEGIN")
        # Inserts and queries go on; a vacuum waits. There are two, five seconds apart.
        connection.execute("LOCK TABLE pi1 IN SHARE UPDATE EXCLUSIVE MODE")
        wait_for(lambda: other.execute(f"SELECT pg_cancel_backend(pid) {waiting}").fetchone(), "a vacuum that waits")
        connection.execute("ROLLBACK")
    bench.await_end()
    (attempt,) = bench.attempts()
    assert attempt.state == "failed"
    assert "VACUUM (VERBOSE) pi1" in str(attempt.reason) and "canceling statement" in str(attempt.reason)

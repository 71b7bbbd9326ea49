"""Events from server logs: texts recorded from real servers of five versions, and logs of running ones.

`serverlogs/VERSION.log` were written by servers with `log_lock_waits`, `log_checkpoints`, a `deadlock_timeout` of
200 ms and an `autovacuum_naptime` of 1 s, through the same story: a load, vacuums, a vacuum cancelled by ALTER
TABLE, a lock wait that ends, one that times out, four SQL errors and a full tablespace, checkpoints, a backend
killed with SIGKILL, a shutdown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.postgres.server import Server
from engine.postgres.serverlog import LogEvent, ServerLog, log_settings, relation_name
from tests.support.benchcall import wait_for
from tests.support.compiled import MAJORS

Servers = Callable[[int | str], Server]
RECORDED = Path(__file__).parent / "serverlogs"
VERSIONS = ("12.11", "14.10", "15", "16.3", "17.0")
SECOND_NS = 1_000_000_000


def events(version: str, anchor: tuple[int, int] = (0, 0)) -> list[LogEvent]:
    with ServerLog(RECORDED / f"{version}.log", anchor) as log:
        return [*log.poll(), *log.poll()]


def of_kind(kind: str, logged: list[LogEvent]) -> list[LogEvent]:
    return [event for event in logged if event.kind == kind]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_checkpoint_begins_and_ends(version: str) -> None:
    checkpoints = of_kind("checkpoint", events(version))
    began = [event for event in checkpoints if event.ended_ns is None]
    ended = [event for event in checkpoints if event.ended_ns is not None]
    assert [event.started_ns for event in began] == [event.started_ns for event in ended]
    assert {"wal", "immediate force wait"} <= {event.data["cause"] for event in began}
    complete = [event for event in ended if "aborted" not in event.data]
    for event in complete:
        assert event.data["total_s"] >= event.data["write_s"]
        # total is measured from the checkpoint's start, which is logged a little later on some versions
        assert event.ended_ns is not None
        assert (event.ended_ns - event.started_ns) / SECOND_NS == pytest.approx(event.data["total_s"], abs=0.3)
    wrote = max(complete, key=lambda event: event.data["buffers"]).data
    assert wrote["buffers"] > 1000 and wrote["distance_kb"] > 0 and wrote["sync_files"] > 0
    assert {"percent", "sync_s", "longest_s", "average_s", "estimate_kb", "wal_added", "wal_recycled"} <= wrote.keys()


@pytest.mark.parametrize("version", ("12.11", "17.0"))
def test_a_checkpoint_that_a_crash_interrupts_is_aborted(version: str) -> None:
    assert [event.data.get("aborted") for event in of_kind("checkpoint", events(version))].count(True) == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_a_vacuum_has_its_length_and_its_work(version: str) -> None:
    logged = [event for event in of_kind("autovacuum", events(version)) if event.data["relation"] == "pi1"]
    vacuums = [event for event in logged if event.data["operation"] == "vacuum" and event.data["index_scans"] > 0]
    data = vacuums[0].data
    assert data["tuples_removed"] >= 20_000 and data["tuples_remain"] >= 39_000 and data["tuples_dead"] == 0
    assert data["pages_remain"] == 2858 and data["hits"] > 10_000 and data["dirtied"] > 6000
    assert data["elapsed_s"] > 1
    assert vacuums[0].ended_ns is not None
    assert vacuums[0].ended_ns - vacuums[0].started_ns == round(data["elapsed_s"] * SECOND_NS)
    assert ("wal_bytes" in data, data.get("index_scan")) == ((False, None) if version == "12.11" else (True, "needed"))
    assert any(event.data["operation"] == "analyze" and event.data["elapsed_s"] > 0 for event in logged)


def test_a_vacuum_that_leaves_the_indexes_alone_says_so() -> None:
    vacuums = of_kind("autovacuum", events("16.3"))
    assert {event.data.get("index_scan") for event in vacuums} >= {"needed", "not needed", "bypassed"}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_cancelled_vacuum_is_no_error(version: str) -> None:
    logged = events(version)
    (cancelled,) = of_kind("autovacuum_cancelled", logged)
    assert cancelled.data["relation"] == "pi1" and cancelled.ended_ns == cancelled.started_ns
    assert not any("autovacuum" in event.data["message"] for event in of_kind("server_error", logged))


@pytest.mark.parametrize("version", VERSIONS)
def test_lock_waits_have_holders_and_ends(version: str) -> None:
    waits = of_kind("lock_wait", events(version))
    began = [event for event in waits if event.ended_ns is None]
    ended = [event for event in waits if event.ended_ns is not None]
    assert len(began) == len(ended) == 3
    assert [event.started_ns for event in began] == [event.started_ns for event in ended]
    by_vacuum, waited, timed_out = ended
    assert by_vacuum.data["lock"] == "ShareUpdateExclusiveLock" and "relation" in by_vacuum.data["target"]
    assert by_vacuum.data["holders"] == [of_kind("autovacuum_cancelled", events(version))[0].data["pid"]]
    assert waited.data["waited_ms"] > 500 and "failed" not in waited.data
    assert timed_out.data["failed"] and timed_out.data["holders"] == waited.data["holders"]


@pytest.mark.parametrize("version", VERSIONS)
def test_errors_have_their_statement_and_their_severity(version: str) -> None:
    errors = of_kind("server_error", events(version))
    messages = [event.data["message"] for event in errors]
    assert [event.data.get("statement") for event in errors if "division" in event.data["message"]] == ["select 1/0"]
    full = next(event for event in errors if "No space left on device" in event.data["message"])
    assert full.data["severity"] == "ERROR" and full.data["hint"] == "Check free disk space."
    killed = next(event for event in errors if "terminated by signal 9" in event.data["message"])
    assert killed.data["severity"] == "LOG" and "commit" in killed.data["detail"]
    assert len(messages) == 6, messages
    kind = "" if version == "12.11" else "client backend"
    assert full.data["backend_type"] == kind


def test_times_are_on_the_engines_clock() -> None:
    wall_ns = 1_795_169_790_000_000_000
    plain, moved = events("16.3"), events("16.3", (7 * SECOND_NS, wall_ns))
    assert [event.started_ns - other.started_ns for event, other in zip(plain, moved, strict=True)] == [
        wall_ns - 7 * SECOND_NS
    ] * len(plain)


@pytest.mark.slow
@settings(deadline=None)
@given(version=st.sampled_from(VERSIONS), sizes=st.lists(st.integers(1, 3000), min_size=1, max_size=20))
def test_events_do_not_depend_on_when_one_looks(
    tmp_path_factory: pytest.TempPathFactory, version: str, sizes: list[int]
) -> None:
    data = (RECORDED / f"{version}.log").read_bytes()
    path = tmp_path_factory.getbasetemp() / f"{time.monotonic_ns()}.log"
    polled: list[LogEvent] = []
    try:
        path.write_bytes(b"")
        with ServerLog(path, (0, 0)) as log, path.open("ab", buffering=0) as file:
            position = turn = 0
            while position < len(data):
                size = sizes[turn % len(sizes)]
                file.write(data[position : position + size])
                polled += log.poll()
                position, turn = position + size, turn + 1
            polled += log.poll()
    finally:
        path.unlink()
    assert polled == events(version)


LINE = "1795169790.000|7|client backend|ERROR:  {0}\n"


def messages(log: ServerLog) -> list[str]:
    """Two looks: the second finds nothing new, so that the last message is known to be whole."""
    return [event.data["message"] for event in [*log.poll(), *log.poll()]]


def test_a_log_may_come_late_be_cut_or_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    with ServerLog(path, (0, 0)) as log:
        assert log.poll() == []
        path.write_text(LINE.format("one") + LINE.format("two")[:30])
        assert messages(log) == ["one"]
        with path.open("a") as file:
            file.write(LINE.format("two")[30:])
        assert messages(log) == ["two"]
        path.write_text(LINE.format("cut"))
        assert messages(log) == ["cut"]
        path.rename(tmp_path / "server.log.1")
        assert messages(log) == []
        path.write_text(LINE.format("a new file"))
        assert messages(log) == ["a new file"]
        path.unlink()
        assert messages(log) == []


def test_any_bytes_are_survived(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(
        b"\xff\xfe\x00\n\tcontinued of nothing\n" + LINE.format("caf\u00e9").encode("latin-1") + b"sh: oops\n"
    )
    with ServerLog(path, (0, 0)) as log:
        assert messages(log) == ["caf\ufffd"]


@given(data=st.binary(max_size=300))
def test_no_bytes_raise(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / f"{time.monotonic_ns()}.log"
    try:
        path.write_bytes(data.replace(b"X", b"1795169790.000|7|checkpointer|LOG:  automatic vacuum of table "))
        with ServerLog(path, (0, 0)) as log:
            log.poll()
            log.poll()
    finally:
        path.unlink()


def test_a_failed_assertion_is_an_error_though_it_has_no_prefix(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text('TRAP: failed Assert("x > 0"), File: "nbtree.c", Line: 1, PID: 7\n')
    with ServerLog(path, (0, 0)) as log:
        assert messages(log)[0].startswith("TRAP: failed Assert")


def test_refusals_while_the_server_starts_are_not_errors(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(LINE.replace("ERROR", "FATAL").format("the database system is starting up"))
    with ServerLog(path, (0, 0)) as log:
        assert messages(log) == []


def test_relations_are_named_as_everywhere_else() -> None:
    assert relation_name("ib.public.pi1") == "pi1"
    assert relation_name("ib.pg_catalog.pg_class") == "pg_catalog.pg_class"


@pytest.fixture
def talkative(server: Servers) -> Iterator[Callable[[int], tuple[Server, psycopg.Connection[object]]]]:
    """A server that logs the events read here, set back afterwards."""
    used: list[psycopg.Connection[object]] = []
    wanted = {
        "log_checkpoints": "on",
        "log_lock_waits": "on",
        "deadlock_timeout": "'100ms'",
        "log_autovacuum_min_duration": "0",
        "autovacuum_naptime": "'1s'",
    }

    def of(major: int) -> tuple[Server, psycopg.Connection[object]]:
        running = server(major)
        connection = running.connect()
        used.append(connection)
        for name, value in wanted.items():
            connection.execute(f"ALTER SYSTEM SET {name} = {value}".encode())
        connection.execute("SELECT pg_reload_conf()")
        return running, connection

    yield of
    for connection in used:
        for name in wanted:
            connection.execute(f"ALTER SYSTEM RESET {name}".encode())
        connection.execute("DROP TABLE IF EXISTS log_test")
        connection.execute("SELECT pg_reload_conf()")
        connection.close()


def test_analyzes_are_logged_where_vacuums_are() -> None:
    usual = {"log_checkpoints": "on", "log_autovacuum_min_duration": "0", "log_lock_waits": "on"}
    analyzes, quiet = "log_autoanalyze_min_duration", {"log_autovacuum_min_duration": "-1"}
    assert log_settings(18, {}, tuple) == usual
    assert log_settings(19, {}, lambda: (analyzes,)) == usual | {analyzes: "0"}
    assert log_settings(19, quiet, lambda: (analyzes,))[analyzes] == "-1"
    assert log_settings(20, {analyzes: "5s"}, lambda: (analyzes,)) == usual
    assert log_settings(20, {}, tuple) == usual, "a later version may have another name for it"


@pytest.mark.parametrize("major", MAJORS)
def test_a_running_server_is_followed(
    major: int, talkative: Callable[[int], tuple[Server, psycopg.Connection[object]]]
) -> None:
    running, connection = talkative(major)
    logged: list[LogEvent] = []
    with ServerLog(running.log_path, (time.monotonic_ns(), time.time_ns())) as log:

        def await_event(condition: Callable[[LogEvent], bool]) -> None:
            wait_for(lambda: logged.extend(log.poll()) or any(map(condition, logged)), "the event")  # type: ignore[func-returns-value]

        def fails() -> None:
            """An error that no other test has made."""
            mark = str(time.monotonic_ns())
            with pytest.raises(psycopg.errors.UndefinedTable):
                connection.execute(f'SELECT FROM "{mark}"'.encode())
            await_event(lambda event: event.kind == "server_error" and mark in event.data["message"])

        fails()  # what other tests have done stands before it in the log, which is read in parts
        logged.clear()
        began_ns = time.monotonic_ns()
        connection.execute(
            "CREATE TABLE log_test AS SELECT g AS a, repeat('x', 200) AS b FROM generate_series(1, 20000) g"
        )
        connection.execute(
            "ALTER TABLE log_test SET (autovacuum_vacuum_threshold = 0, autovacuum_vacuum_scale_factor = 0)"
        )
        connection.execute("CHECKPOINT")
        await_event(lambda event: event.kind == "checkpoint" and event.ended_ns is not None)
        # A vacuum so slow that the next statement finds it at work and throws it out.
        connection.execute(
            "ALTER TABLE log_test SET (autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1)"
        )
        connection.execute("DELETE FROM log_test WHERE a % 2 = 0")
        at_work = b"SELECT 1 FROM pg_stat_progress_vacuum WHERE relid = 'log_test'::regclass"
        wait_for(lambda: connection.execute(at_work).fetchone(), "the vacuum")
        connection.execute("ALTER TABLE log_test RESET (autovacuum_vacuum_cost_delay, autovacuum_vacuum_cost_limit)")
        await_event(lambda event: event.kind == "autovacuum_cancelled" and event.data["relation"] == "log_test")
        await_event(lambda event: event.kind == "lock_wait" and event.ended_ns is not None)
        await_event(lambda event: event.data.get("relation") == "log_test" and event.data.get("operation") == "vacuum")
        await_event(lambda event: event.data.get("relation") == "log_test" and event.data.get("operation") == "analyze")
        fails()
    assert [event for event in logged if not began_ns - SECOND_NS <= event.started_ns <= time.monotonic_ns()] == []

"""The bounded lead on a real server, and the clients' reaction to faults."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.support.ibdatabase import Database
from tests.support.steprun import SETTLED, StepRun, running
from workloads.client.counter_page import Control, State, Word
from workloads.insert.steps import InsertStep

Databases = Callable[[int | str], Database]


def write_step(rows: int = 500_000) -> InsertStep:
    """An l.i1 that does not end by itself while a test looks on."""
    return InsertStep("l.i1", "write", rows, 50, deletes=True)


@contextmanager
def started(target: Database, step: InsertStep, clients: int = 2) -> Iterator[StepRun]:
    """A step that is running, every role of it having done something."""
    with running(target.dsn, step, "g24b", clients=clients) as run:
        run.start()
        run.until(lambda: all(run.page.word(slot, Word.STATEMENTS) > 20 for slot in range(len(run.roles))))
        yield run


def stays(run: StepRun, client: int, name: str, word: Word) -> int:
    """A counter's value once it has not moved for a while."""
    value = -1
    while value != (value := run.word(client, name, word)):
        time.sleep(0.3)
    return value


def test_the_insert_stream_leads_by_a_queue_and_one_in_flight(loaded: Database) -> None:
    with psycopg.connect(loaded.dsn) as blocker, running(loaded.dsn, write_step(), "g24b") as run:
        blocker.execute("SELECT 1 FROM pi1 ORDER BY transactionid LIMIT 1 FOR UPDATE")
        run.start()
        run.until(lambda: run.word(1, "insert", Word.STATEMENTS) == 10)
        assert stays(run, 1, "insert", Word.ROUNDS_STARTED) == 10
        assert run.word(1, "delete", Word.ROUNDS_STARTED) == 1
        run.until(lambda: run.word(1, "delete", Word.IN_FLIGHT_NS) > 0)
        blocker.rollback()
        run.until(lambda: run.word(1, "insert", Word.STATEMENTS) > 100)
        assert run.word(1, "insert", Word.COUPLED_NS) > 0


def test_the_delete_stream_leads_by_a_queue(loaded: Database) -> None:
    loaded.run(
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END'"
    )
    loaded.run("CREATE TRIGGER wait BEFORE INSERT ON pi1 FOR EACH STATEMENT EXECUTE FUNCTION wait()")
    with psycopg.connect(loaded.dsn) as blocker, running(loaded.dsn, write_step(), "g24b") as run:
        blocker.execute("SELECT pg_advisory_xact_lock(1)")
        run.start()
        run.until(lambda: run.word(1, "insert", Word.ROUNDS_STARTED) == 1)
        # The lookup of the first low key is collected by the insert role, so that the deletes wait for round 0 here.
        started_deletes = stays(run, 1, "delete", Word.STATEMENTS)
        assert started_deletes <= 9
        assert run.word(1, "insert", Word.ROUNDS_STARTED) == 1
        blocker.rollback()
        run.until(lambda: run.word(1, "delete", Word.STATEMENTS) > 100)


def test_an_sql_error_in_one_role_stops_all_clients(loaded: Database) -> None:
    loaded.run(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN IF OLD.transactionid > 500 THEN RAISE EXCEPTION ''no more''; END IF; RETURN OLD; END'"
    )
    loaded.run("CREATE TRIGGER refuse BEFORE DELETE ON pi2 FOR EACH ROW EXECUTE FUNCTION refuse()")
    with running(loaded.dsn, write_step(), "g24b", clients=2) as run:
        run.start()
        result = run.finish()
    assert result.exit_code == 1
    assert result[2, "delete"].state == State.FAILED
    assert result[2, "delete"].error == "P0001 no more (client 2 delete)"
    assert {outcome.state for role, outcome in result.roles.items() if role != (2, "delete")} == {State.STOPPED}


def test_a_missing_table_is_reported_before_the_start(database: Databases) -> None:
    target = database(16)
    with running(target.dsn, InsertStep("qr100", "query", 100, 50, 100, True, "range"), "g24b") as run:
        run.start()
        result = run.finish()
    assert result.exit_code == 1
    failed = [outcome for outcome in result.roles.values() if outcome.state == State.FAILED]
    assert failed
    assert all(outcome.error.startswith('42P01 relation "pi1" does not exist') for outcome in failed)


def test_no_server_is_a_failed_role(tmp_path: Path) -> None:
    with running(f"host={tmp_path} dbname=ib", write_step(), "g24b") as run:
        result = run.finish()
    assert result.exit_code == 1
    assert "08001" in "".join(outcome.error for outcome in result.roles.values())


@pytest.mark.parametrize("name", ["insert", "delete"])
def test_a_killed_role_is_noticed_and_the_others_stop(loaded: Database, name: str) -> None:
    with started(loaded, write_step()) as run:
        os.kill(run.word(1, name, Word.CLIENT_PID), signal.SIGKILL)
        result = run.finish()
    assert result.exit_code == 1
    assert result[1, name].state == State.FAILED
    assert result[1, name].error == f"client process ended: signal 9 (client 1 {name})"
    assert result[1, name][Word.IN_FLIGHT_NS] == 0
    assert {outcome.state for role, outcome in result.roles.items() if role != (1, name)} == {State.STOPPED}


def test_a_terminated_backend_is_an_error_of_its_role(loaded: Database) -> None:
    with started(loaded, write_step()) as run:
        loaded.run(f"SELECT pg_terminate_backend({run.word(2, 'insert', Word.BACKEND_PID)})")
        result = run.finish()
    assert result[2, "insert"].state == State.FAILED
    # The first thing that libpq saw: the server's farewell, or a connection that was gone.
    assert result[2, "insert"].error[:5] in ("57P01", "08006")


def test_stop_ends_all_roles_between_statements(loaded: Database) -> None:
    with started(loaded, write_step()) as run:
        run.page.words[Control.STOP] = 1
        result = run.finish()
    assert result.exit_code == 2
    assert {outcome.state for outcome in result.roles.values()} == {State.STOPPED}
    for table in ("pi1", "pi2"):
        assert loaded.one(f"SELECT count(*) FROM {table}") > 0


def test_stop_ends_sleeping_and_waiting_roles(loaded: Database) -> None:
    with running(loaded.dsn, InsertStep("qr1", "query", 1000, 50, 50, True, "range"), "g24b") as run:
        run.start()
        run.until(lambda: run.word(1, "query", Word.STATEMENTS) > 100)
        run.page.words[Control.STOP] = 1
        result = run.finish()
    assert result.exit_code == 2
    assert result[1, "insert"][Word.STATEMENTS] < 20


def test_stop_at_the_barrier(loaded: Database) -> None:
    with running(loaded.dsn, write_step(), "g24b") as run:
        run.until(lambda: run.all_in(State.READY))
        run.page.words[Control.STOP] = 1
        assert run.finish().exit_code == 2


def test_a_statement_that_waits_for_ever_is_cancelled_after_stop(loaded: Database) -> None:
    with psycopg.connect(loaded.dsn) as blocker, running(loaded.dsn, write_step(), "g24b") as run:
        blocker.execute("LOCK TABLE pi1 IN EXCLUSIVE MODE")
        run.start()
        run.until(lambda: run.word(1, "insert", Word.IN_FLIGHT_NS) > 0)
        run.page.words[Control.STOP] = 1
        result = run.finish()
    assert result.exit_code == 2
    assert {outcome.state for outcome in result.roles.values()} == {State.STOPPED}


def test_sigterm_of_the_launcher_is_stop(loaded: Database) -> None:
    with started(loaded, write_step()) as run:
        run.launcher.send_signal(signal.SIGTERM)
        assert run.finish().exit_code == 2


def test_no_role_outlives_a_killed_launcher(loaded: Database) -> None:
    with started(loaded, write_step()) as run:
        pids = [run.page.word(slot, Word.CLIENT_PID) for slot in range(len(run.roles))]
        run.launcher.kill()
        run.launcher.wait()
        run.until(lambda: not any(alive(pid) for pid in pids))


def alive(pid: int) -> bool:
    """Whether a process still runs; one that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_roles_stay_connected_until_released_under_their_names(loaded: Database) -> None:
    with running(loaded.dsn, write_step(500), "g24b") as run:
        run.start()
        run.until(lambda: run.all_in(*SETTLED))
        for slot, role in enumerate(run.roles):
            pid, backend = run.page.word(slot, Word.CLIENT_PID), run.page.word(slot, Word.BACKEND_PID)
            assert Path(f"/proc/{pid}/comm").read_text().strip() == f"ib {role.name} {role.client}"
            assert loaded.one(f"SELECT count(*) FROM pg_stat_activity WHERE pid = {backend}") == 1
            assert run.page.word(slot, Word.STARTED_NS) <= run.page.word(slot, Word.ENDED_NS)
        assert run.finish().exit_code == 0

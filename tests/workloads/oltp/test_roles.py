"""Loads and clients on real servers: the data, the counts, and errors after which a client goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.ibdatabase import Database
from tests.support.oltprun import run_step, running, steps
from workloads.client import client_gate
from workloads.client.counter_page import Control, State, Word
from workloads.oltp.options import Options

Databases = Callable[[int | str], Database]
SUM = "SELECT md5(string_agg(t::text, ',' ORDER BY id)) FROM sbtest2 t"


def test_tables_hold_the_same_bytes_on_every_server(database: Databases) -> None:
    options = Options(rows=2500, tables=3, clients=2)
    sums = []
    for major in (12, 16):
        target = database(major)
        done = run_step(target.dsn, steps(options)["load"], options)
        assert done.exit_code == 0 and len(done.roles) == 2
        assert sum(role[Word.ROWS] for role in done.roles.values()) == 7500
        sums.append(target.one(SUM))
        assert target.one(SUM.replace("sbtest2", "sbtest1")) != sums[-1], "tables differ"
        shape = (
            "SELECT count(*), min(id), max(id), count(DISTINCT k) > 1400, min(k) >= 1, max(k) <= 2500, "
            "bool_and(c ~ '^([0-9]{11}-){9}[0-9]{11} $' AND pad ~ '^([0-9]{11}-){4}[0-9]{11} $') FROM sbtest2"
        )
        assert target.run(shape) == [(2500, 1, 2500, True, True, True, True)]
        target.run("INSERT INTO sbtest2 (k, c, pad) VALUES (1, '', '')")
        assert target.one("SELECT max(id) FROM sbtest2") == 2501, "the next id is free"
        indexes = target.run("SELECT indexname::text FROM pg_indexes WHERE tablename = 'sbtest3' ORDER BY 1")
        assert indexes == [("sbtest3_k",), ("sbtest3_pkey",)]
    assert sums[0] == sums[1]
    other = database(16)
    run_step(other.dsn, steps(options)["load"], options, seed=2)
    assert other.one(SUM) != sums[0]


@pytest.fixture
def loaded(database: Databases) -> Database:
    target = database(16)
    options = Options(rows=1000)
    assert run_step(target.dsn, steps(options)["load"], options).exit_code == 0
    return target


def test_clients_do_what_is_counted_until_the_step_ends(loaded: Database) -> None:
    options = Options(rows=1000, clients=2, seconds=1)
    with running(loaded.dsn, steps(options)["update-index"], options) as run:
        before = loaded.one("SELECT sum(k) FROM sbtest1")
        run.start()
        done = run.finish()
    assert done.exit_code == 0 and 1 <= done.seconds < 5
    counted = sum(role[Word.STATEMENTS] for role in done.roles.values())
    assert counted == loaded.one("SELECT sum(k) FROM sbtest1") - before > 20
    assert all(sum(role.service.values()) == sum(role.reference) == role[Word.STATEMENTS] > 0
               for role in done.roles.values())  # fmt: skip


def test_a_client_waits_at_the_gate_with_all_counted(loaded: Database) -> None:
    options = Options(rows=1000, seconds=1000)
    with running(loaded.dsn, steps(options)["update-index"], options) as run:
        before = loaded.one("SELECT sum(k) FROM sbtest1")
        run.start()
        for number in range(1, 6):  # the counts lag behind between two gates, and by chance not
            run.until(lambda number=number: run.word(1, "query", Word.STATEMENTS) > 50 * number)  # type: ignore[misc]
            run.page.words[Control.GATE] = 0
            run.until(lambda: not run.word(1, "query", Word.IN_FLIGHT_NS))
            assert run.word(1, "query", Word.STATEMENTS) == loaded.one("SELECT sum(k) FROM sbtest1") - before
            client_gate.open_now(run.page)
        run.page.words[Control.STOP] = 1
        assert run.finish().roles.popitem()[1].state == State.STOPPED


def test_client_conflicts_count_and_other_errors_end_the_step(loaded: Database) -> None:
    loaded.run("CREATE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS "
               "$$BEGIN IF random() < 0.3 THEN RAISE unique_violation; END IF; RETURN new; END$$")  # fmt: skip
    loaded.run("CREATE TRIGGER t BEFORE INSERT ON sbtest1 FOR EACH ROW EXECUTE FUNCTION conflict()")
    options = Options(rows=1000, seconds=1000)
    with running(loaded.dsn, steps(options)["write-only"], options) as run:
        run.start()
        run.until(lambda: run.word(1, "query", Word.FAILED) > 2 and run.word(1, "query", Word.STATEMENTS) > 20)
        loaded.run("DROP TABLE sbtest1")
        done = run.finish()
    (role,) = done.roles.values()
    assert done.exit_code == 1 and role.state == State.FAILED
    assert role.error.startswith("42P01 relation") and role.error.endswith("does not exist (client 1 query)")

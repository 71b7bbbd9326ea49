"""Statements as pg_stat_statements counts them, whatever its version."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.core.model import Build, Config
from engine.postgres.pgstat import Monitor, MonitorError
from engine.postgres.server import Server
from engine.postgres.statement_counts import MOST_QUERIES, Counted, StatementCounts, Statements

SETTINGS = (("shared_buffers", "32MB"), ("shared_preload_libraries", "pg_stat_statements"))


@pytest.mark.parametrize("major", [12, 18])
def test_statements_are_counted_in_all_by_user_and_by_query(
    build: Callable[[int], Build], new_folder: Callable[[], Path], major: int
) -> None:
    with Server(build(major), Config("counted", SETTINGS, "built in"), new_folder()) as server:
        with Monitor(server.dsn("postgres")) as monitor, pytest.raises(MonitorError, match="not in this database"):
            Statements(monitor, "user")
        with server.connect("postgres") as connection, Monitor(server.dsn("postgres")) as monitor:
            connection.execute('CREATE SCHEMA "odd\'one"; CREATE EXTENSION pg_stat_statements SCHEMA "odd\'one"')
            connection.execute("CREATE ROLE shopper LOGIN PASSWORD 'open sesame'; SET ROLE shopper")
            by_user = Statements(monitor, "user")
            before = by_user.read()
            for number in range(7):
                connection.execute(f"SELECT {number} AS goods FROM generate_series(1, 3)")
            more = by_user.read().total.since(before.total)
            assert more is not None and 7 <= more.calls <= 10 and more.rows >= 21
            assert by_user.read().roles["shopper"].calls in (7, 8)  # SET ROLE may be one
            monitor.ask("DEALLOCATE ALL")
            by_query = Statements(monitor, "query")
            (id,) = [id for id, counted in by_query.read().roles.items() if counted.calls == 7 and counted.rows == 21]
            texts = by_query.texts(by_query.read().roles)
            assert texts[id] == "SELECT $1 AS goods FROM generate_series($2, $3)"
            assert not any("sesame" in text or "CREATE" in text for text in texts.values())
            monitor.ask("DEALLOCATE ALL")
            assert Statements(monitor, "application").read().roles == {}


def test_counts_that_went_back_say_nothing() -> None:
    before = Counted(10, 20, 1.0)
    assert Counted(12, 30, 1.5).since(before) == Counted(2, 10, 0.5)
    assert Counted(3, 30, 0.5).since(before) is None


def test_a_query_that_comes_among_those_counted_is_not_said_to_have_executed_all_it_ever_did_just_now() -> None:
    def counts(**roles: int) -> StatementCounts:
        full = {str(number): Counted(100, 0, 1.0) for number in range(MOST_QUERIES - 1)}
        return StatementCounts(Counted(10**6, 0, 1.0), full | {name: Counted(n, 0, 1.0) for name, n in roles.items()})

    assert dict(counts(other=9000).since(counts(one=8000))) == {}
    assert dict(counts(one=8007).since(counts(one=8000)))["one"].calls == 7
    assert dict(counts(new=3).since(counts()))["new"].calls == 3


def test_a_library_that_is_not_loaded_is_a_reason(server: Callable[[int], Server]) -> None:
    running = server(17)
    with running.connect("ib") as connection, Monitor(running.dsn("ib")) as monitor:
        connection.execute("CREATE EXTENSION pg_stat_statements")
        try:
            with pytest.raises(MonitorError, match="shared_preload_libraries"):
                Statements(monitor, "user")
        finally:
            connection.execute("DROP EXTENSION pg_stat_statements")

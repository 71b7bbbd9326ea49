"""What a server tells of its connections: to a role that may see all, and to one that may not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import psycopg
import pytest

from engine.postgres.pgstat import MonitorError, Row
from engine.postgres.server import Server
from engine.postgres.server_activity import MOST_ROLES, OTHERS, ServerActivity, seen_of


@pytest.fixture(params=(12, 17))
def watched(request: pytest.FixtureRequest, server: Callable[[int], Server]) -> Iterator[Server]:
    running = server(request.param)
    with running.connect("ib") as connection:
        connection.execute("CREATE ROLE stranger LOGIN")
        yield running
        connection.execute("DROP ROLE stranger")


def test_connections_are_counted_by_application_with_their_states_and_waits(watched: Server) -> None:
    with ExitStack() as opened:
        holder, waiter, idle = (
            opened.enter_context(closing(psycopg.connect(watched.dsn("ib"), application_name=name, autocommit=True)))
            for name in ("holder", "waiter", "waiter")
        )
        holder.execute("BEGIN; SELECT pg_advisory_xact_lock(4711)")
        waiter.pgconn.send_query(b"SELECT pg_advisory_xact_lock(4711)")
        idle.execute("SELECT 1")
        activity = opened.enter_context(ServerActivity(watched.dsn("ib"), "application"))
        seen = activity.look()
        roles = {role.name: role for role in seen.roles}
        assert (roles["holder"].connections, roles["holder"].idle_in_transaction) == (1, 1)
        assert (roles["waiter"].connections, roles["waiter"].active, roles["waiter"].waiting) == (2, 1, 1)
        assert dict(roles["waiter"].waits) == {"Lock:advisory": 1}
        (waiting,) = [waiter for waiter in seen.waiters if waiter.role == "waiter"]
        ((pid, doing),) = activity.blockers((waiting.pid,))[waiting.pid]
        assert pid == holder.info.backend_pid
        assert doing.what.startswith("holder, user ") and "idle in transaction for" in doing.what
        assert "4711" not in doing.what  # no text of a statement


def test_a_role_without_rights_is_told_who_is_there_and_that_more_is_not_visible(watched: Server) -> None:
    dsn = psycopg.conninfo.make_conninfo(watched.dsn("ib"), user="stranger")
    with psycopg.connect(watched.dsn("ib"), application_name="shop"), ServerActivity(dsn, "application") as activity:
        shop = next(role for role in activity.look().roles if role.name == "shop")
        assert (shop.connections, shop.unseen, shop.active) == (1, 1, 0)
        assert any("no member of pg_monitor" in note for note in activity.notes)
        assert any("the extension pg_stat_statements is not in this database" in note for note in activity.notes)


def test_nothing_can_be_changed_over_the_connection(watched: Server) -> None:
    with ServerActivity(watched.dsn("ib"), "user") as activity:
        with pytest.raises(MonitorError, match="read-only transaction"):
            activity.monitor.ask("CREATE TABLE made (i int)")
        assert activity.monitor.ask("SHOW lock_timeout") == [("100ms",)]


def test_what_is_counted_is_of_all_databases(watched: Server) -> None:
    with ServerActivity(watched.dsn("postgres"), "user") as activity:
        before = activity.totals()
        with watched.connect("ib") as connection:
            connection.execute("CREATE TABLE counted_rows AS SELECT g FROM generate_series(1, 1000) g")
        for _ in range(50):
            now = activity.totals()
            if now.inserted - before.inserted >= 1000:
                break
            activity.monitor.ask("SELECT pg_sleep(0.1)")
        assert now.inserted - before.inserted >= 1000 and now.transactions > before.transactions
        with watched.connect("ib") as connection:
            connection.execute("DROP TABLE counted_rows")


def test_names_are_made_visible_and_merged_and_the_least_busy_are_added_up() -> None:
    rows: list[Row] = [("role", f"app{number}", "active", "", "1", "5") for number in range(MOST_ROLES)]
    rows += [("role", "quiet\x1b", "idle", "", "3", "7"), ("role", "silent", None, None, "2", None)]
    rows += [("role", "untold", "disabled", "", "4", None)]  # its track_activities is off
    seen = seen_of([*rows, ("role", "", "idle", "", "40", "7"), ("role", "server", "idle", "", "50", "7")])
    names = [role.name for role in seen.roles]
    assert len(names) == MOST_ROLES + 1 and names[-1] == OTHERS
    assert seen.roles[-1].connections == 99 and seen.roles[-1].unseen == 6 and seen.roles[-1].active == 0
    assert seen.total.connections == MOST_ROLES + 99 and seen.total.active == MOST_ROLES
    few = seen_of([("role", "quiet\x1b", "idle", "", "3", "7"), ("role", "server", "idle", "", "1", "7")])
    assert [role.name for role in few.roles] == ["quiet\\x1b", "server "]
    (long,) = seen_of([("role", "n" * 62 + "\x1b", "idle", "", "1", "7")]).roles
    assert long.name == "n" * 62 + "\\x1b", "a name is never cut within an escape"


def test_an_odd_answer_is_an_error_in_words(watched: Server) -> None:
    with ServerActivity(watched.dsn("ib"), "user") as activity:
        activity.monitor.ask("DEALLOCATE totals")
        activity.monitor.prepare("totals", "SELECT 'many'")
        with pytest.raises(MonitorError, match="not one of PostgreSQL"):
            activity.totals()

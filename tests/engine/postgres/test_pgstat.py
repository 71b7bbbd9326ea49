"""Statistics, settings, sizes and waits, asked of real servers of several versions."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import cast

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.postgres import pgstat
from engine.postgres.activity import Activity, Observed, Wait
from engine.postgres.pgstat import VIEWS, Monitor, MonitorError, Snapshot, question
from engine.postgres.server import Server
from engine.postgres.waiting import NOBODY
from tests.support.benchcall import wait_for
from tests.support.compiled import MAJORS

Servers = Callable[[int | str], Server]
ROWS = Path(__file__).parent / "rows"
VIEWS_OF = {
    12: {"bgwriter", "database", "user_tables", "user_indexes"},
    14: {"bgwriter", "wal", "database", "user_tables", "user_indexes"},
    16: {"bgwriter", "wal", "io", "database", "user_tables", "user_indexes"},
    17: {"bgwriter", "checkpointer", "wal", "io", "database", "user_tables", "user_indexes"},
    19: {"bgwriter", "checkpointer", "wal", "io", "lock", "database", "user_tables", "user_indexes"},
}


def views_of(major: int) -> set[str]:
    return VIEWS_OF[max(first for first in VIEWS_OF if first <= major)]


@pytest.mark.parametrize("major", MAJORS)
def test_what_a_session_did_is_in_the_difference_once_it_ended(major: int, server: Servers) -> None:
    running = server(major)
    with Monitor(running.dsn()) as monitor:
        with running.connect() as connection:
            connection.execute("DROP TABLE IF EXISTS counted")
            connection.execute("CREATE TABLE counted (a int PRIMARY KEY, b text)")
        before, lsn = pgstat.snapshot(monitor), pgstat.wal_lsn(monitor)
        with running.connect() as connection:
            connection.execute("INSERT INTO counted SELECT g, repeat('x', 100) FROM generate_series(1, 10000) g")
            connection.execute("DELETE FROM counted WHERE a <= 500")
            connection.execute("SELECT * FROM counted WHERE a = 600")
            connection.execute("SET enable_seqscan = off")
            connection.execute("SELECT * FROM counted WHERE a = 700")
        assert pgstat.settle(monitor)
        change = pgstat.difference(before, pgstat.snapshot(monitor))
        wal_bytes = pgstat.wal_lsn(monitor) - lsn
        sizes = {(size.relation, size.kind): size.bytes for size in pgstat.sizes(monitor)}
        with running.connect() as connection:
            connection.execute("DROP TABLE counted")
    assert change.keys() == views_of(major)
    table = change["user_tables"]["counted"]
    assert (table["n_tup_ins"], table["n_tup_del"], table["n_live_tup_now"]) == (10_000, 500, 9_500)
    assert table["heap_blks_hit"] + table["heap_blks_read"] > 10_000
    assert change["user_indexes"]["counted_pkey"]["idx_scan"] >= 1
    assert change["database"][""]["tup_inserted"] >= 10_000
    assert 1_000_000 < wal_bytes < 10_000_000
    assert sizes["counted", "heap"] > 1_000_000 and sizes["counted", "toast"] > 0
    assert sizes["counted_pkey", "index"] > 200_000
    if "wal" in change:
        assert change["wal"][""]["wal_records"] > 20_000 and change["wal"][""]["wal_bytes"] > 1_000_000
    if major >= 19:
        assert 0 <= change["wal"][""]["wal_fpi_bytes"] < change["wal"][""]["wal_bytes"]
    if "io" in change:
        io = change["io"]["client backend/relation/normal"]
        assert io["hits"] > 10_000 and io["extend_bytes"] >= io["extends"] * 8192 > 1_000_000
        assert all(any(value for value in counters.values()) for counters in change["io"].values())


@pytest.mark.parametrize("major", MAJORS)
def test_a_checkpoint_is_counted_where_the_version_counts_it(major: int, server: Servers) -> None:
    running = server(major)
    with Monitor(running.dsn()) as monitor, running.connect() as connection:
        before = pgstat.snapshot(monitor)
        connection.execute("CHECKPOINT")
        view, key = ("checkpointer", "num_requested") if major >= 17 else ("bgwriter", "checkpoints_req")
        counted = wait_for(lambda: pgstat.difference(before, pgstat.snapshot(monitor))[view][""][key], "its count")
        assert counted >= 1


@pytest.mark.parametrize("major", MAJORS)
def test_counters_that_were_reset_count_from_zero(major: int, server: Servers) -> None:
    running = server(major)
    with Monitor(running.dsn()) as monitor, running.connect() as connection:
        first = pgstat.snapshot(monitor)
        assert first.views["database"][""]["xact_commit"] > 0
        connection.execute("SELECT pg_stat_reset()")

        def reset() -> pgstat.Snapshot | None:
            last, place = pgstat.snapshot(monitor), ("database", "")
            return last if last.resets.get(place) != first.resets.get(place) else None

        assert pgstat.difference(first, wait_for(reset, "the reset"))["database"][""]["xact_commit"] >= 0


counters = st.dictionaries(st.sampled_from(("reads", "writes", "hits")), st.integers(0, 10**12), min_size=1)


@given(counters, counters)
def test_a_difference_is_never_negative(before: dict[str, int], after: dict[str, int]) -> None:
    change = pgstat.difference(Snapshot({"io": {"x": dict(before)}}), Snapshot({"io": {"x": dict(after)}}))
    assert all(value >= 0 for objects in change["io"].values() for value in objects.values())


def test_a_new_object_counts_from_zero_and_states_are_kept() -> None:
    before = Snapshot({"user_tables": {}})
    after = Snapshot({"user_tables": {"pi1": {"n_tup_ins": 5, "n_dead_tup_now": 3}, "idle": {"n_dead_tup_now": 9}}})
    assert pgstat.difference(before, after) == {"user_tables": {"pi1": {"n_tup_ins": 5, "n_dead_tup_now": 3}}}


def test_a_later_reset_is_seen_although_the_counters_caught_up() -> None:
    before = Snapshot({"wal": {"": {"wal_records": 5}}}, {("wal", ""): "100.5"})
    after = Snapshot({"wal": {"": {"wal_records": 8}}}, {("wal", ""): "200.5"})
    assert pgstat.difference(before, after)["wal"][""] == {"wal_records": 8}


@pytest.mark.parametrize("version", (120000, 130000, 140000, 150000, 160000, 170000, 180000, 190000))
def test_each_version_gets_the_newest_question_that_is_not_newer(version: int) -> None:
    have = {view for view in VIEWS if question(view, version)}
    assert have == views_of(version // 10000)
    assert ("op_bytes" in (question("io", version) or "")) == (160000 <= version < 180000)
    assert ("wal_sync" in (question("wal", version) or "")) == (140000 <= version < 180000)
    assert ("wal_fpi_bytes" in (question("wal", version) or "")) == (version >= 190000)
    assert ("generic_plan_calls" in (question("planstats", version) or "")) == (version >= 190000)
    assert ("n_ins_since_vacuum" in (question("user_tables", version) or "")) == (version >= 130000)


class Recorded:
    """Answers of a server of 19."""

    version = 190000

    def __init__(self) -> None:
        self.undefined: dict[str, str] = {}
        self._rows = json.loads((ROWS / "190000.json").read_text())
        self._views = {question(view, self.version): view for view in VIEWS}

    def ask_named(self, sql: str) -> list[dict[str, str | None]]:
        return [dict(row) for row in self._rows[self._views[sql]]]


def test_the_recorded_rows_of_19_are_counted() -> None:
    snapshot = pgstat.snapshot(cast("Monitor", Recorded()))
    assert snapshot.views.keys() == views_of(19)
    wal = snapshot.views["wal"][""]
    assert 0 < wal["wal_fpi_bytes"] < wal["wal_bytes"]
    assert snapshot.views["lock"]["relation"].keys() == {"waits", "wait_ms", "fastpath_exceeded"}
    asked = (ROWS / "190000.json").read_text()
    assert all(f'"{name}"' in asked for name in re.findall(r"AS (\w+)", question("user_tables", 190000) or ""))


@pytest.mark.parametrize("major", MAJORS)
def test_non_default_settings_have_the_servers_value(major: int, server: Servers) -> None:
    running = server(major)
    with Monitor(running.dsn()) as monitor:
        settings = {setting.name: setting for setting in pgstat.settings(monitor)}
        assert settings["shared_buffers"].value == "64MB"
        assert settings["shared_buffers"].source == "configuration file"
        assert settings["wal_buffers"].value.endswith("MB")
        # The monitor's own settings are not the server's.
        assert "statement_timeout" not in settings and "application_name" not in settings
        assert "data_directory" not in settings
        with running.connect() as connection:
            connection.execute("ALTER SYSTEM SET geqo = off")
            connection.execute("ALTER SYSTEM SET statement_timeout = '77s'")
            connection.execute("SELECT pg_reload_conf()")
            try:
                wait_for(lambda: "geqo" in {setting.name for setting in pgstat.settings(monitor)}, "the settings")
                settings = {setting.name: setting for setting in pgstat.settings(monitor)}
                assert settings["geqo"].value == "off" and settings["statement_timeout"].value == "77000 x ms"
            finally:
                connection.execute("ALTER SYSTEM RESET geqo")
                connection.execute("ALTER SYSTEM RESET statement_timeout")
                connection.execute("SELECT pg_reload_conf()")
        assert pgstat.database_bytes(monitor) > 5_000_000


def observe(activity: Activity, wanted: Callable[[Observed], bool], least_age_s: float = 0.0) -> Observed:
    """The first sample that is as wanted; on a busy machine the monitor gives up some of its questions."""

    def sample() -> Observed | None:
        with suppress(MonitorError):
            observed = activity.sample(least_age_s)
            return observed if wanted(observed) else None
        return None

    return wait_for(sample, "the sample that is wanted")


@pytest.mark.parametrize("major", MAJORS)
def test_waits_name_the_event_and_who_blocks(major: int, server: Servers) -> None:
    running = server(major)
    with Monitor(running.dsn()) as monitor, running.connect() as holder, running.connect() as waiter:
        activity = Activity(monitor)
        holder.execute("DROP TABLE IF EXISTS fought_over")
        holder.execute("CREATE TABLE fought_over (a int)")
        holder.execute("BEGIN")
        holder.execute(f"LOCK TABLE fought_over -- {'x' * 60}")
        thread = threading.Thread(target=waiter.execute, args=("SELECT * FROM fought_over",))
        thread.start()
        blocked = Wait("Lock:relation", "active", (holder.info.backend_pid,))
        resting = Wait("Client:ClientRead", "idle in transaction")
        try:
            waits = observe(
                activity,
                lambda observed: (
                    observed.waits.get(waiter.info.backend_pid) == blocked
                    and observed.waits.get(holder.info.backend_pid) == resting
                ),
            ).waits
            said = activity.doing(blocked.blocked_by)
            ((oid,),) = monitor.ask("SELECT 'public.fought_over'::regclass::oid")
            ((database,),) = monitor.ask("SELECT oid FROM pg_database WHERE datname = current_database()")
            of = [activity.with_name(f"relation {oid} of database {database_oid}") for database_oid in (database, 7)]
            pids = [waiter.info.backend_pid, holder.info.backend_pid, monitor.backend_pid, 1]
            looked = activity.waits([*pids, holder.info.backend_pid], (0, 1, 2, 2, 0))
        finally:
            holder.rollback()
            thread.join()
        assert monitor.backend_pid not in waits
        both = {(0, "Client:ClientRead"): 1, (0, "Lock:relation"): 1}
        assert looked.counts == {**both, (1, "Client:ClientRead"): 1, (2, ""): 1}, "by role, all that are there"
        assert not looked.old.waits
        assert said.keys() == {holder.info.backend_pid}
        who, what = said[holder.info.backend_pid]
        assert who.endswith(f": LOCK TABLE fought_over -- {'x' * 34}..."), "first what it is called, cut"
        assert "idle in transaction for " in what and what.endswith(
            f"waits for Client:ClientRead, LOCK TABLE fought_over -- {'x' * 60}"
        )
        assert of == ["relation fought_over", f"relation {oid} of database 7"]
        holder.execute("DROP TABLE fought_over")


@pytest.mark.parametrize("major", MAJORS)
def test_a_session_has_an_age_since_its_statement_began_or_ended(major: int, server: Servers) -> None:
    running = server(major)
    with Monitor(running.dsn()) as monitor, running.connect() as connection:
        activity, pid = Activity(monitor), connection.info.backend_pid
        connection.execute("SELECT 1")
        before_ns = observe(activity, lambda observed: pid in observed.waits).ages_ns[pid]
        observe(activity, lambda observed: observed.ages_ns[pid] > before_ns + 300_000_000)
        observe(activity, lambda observed: pid in observed.waits, least_age_s=0.25)
        observe(activity, lambda observed: pid not in observed.waits, least_age_s=1000.0)
        old = activity.waits([pid, monitor.backend_pid], (0, 0), 0.25).old
        assert old.waits == {pid: Wait("Client:ClientRead", "idle")} and old.ages_ns[pid] > 250_000_000
        assert not activity.waits([pid], (0,), 1000.0).old.waits
        connection.execute("SELECT 1")
        observe(activity, lambda observed: observed.ages_ns[pid] < before_ns + 300_000_000)


@pytest.mark.parametrize("major", MAJORS)
def test_a_vacuum_at_work_is_seen(major: int, server: Servers) -> None:
    running = server(major)
    with Monitor(running.dsn()) as monitor, running.connect() as connection:
        connection.execute("CREATE TABLE dusty AS SELECT g AS a FROM generate_series(1, 100000) g")
        connection.execute("DELETE FROM dusty WHERE a % 2 = 0")
        connection.execute("SET vacuum_cost_delay = 100")
        connection.execute("SET vacuum_cost_limit = 1")
        connection.execute("CREATE ROLE plain LOGIN")

        def vacuum() -> None:
            with suppress(psycopg.errors.QueryCanceled):
                connection.execute("VACUUM dusty")

        thread = threading.Thread(target=vacuum)
        thread.start()
        activity = Activity(monitor)
        seen: set[tuple[str, str]] = set()
        with Monitor(running.dsn() + " user=plain") as stranger:
            watcher = Activity(stranger)
            unnamed: set[str] = set()
            while thread.is_alive() and not (seen and unnamed):
                with suppress(MonitorError):
                    seen |= {(vacuum.relation, vacuum.phase) for vacuum in activity.sample().vacuums}
                    unnamed |= {vacuum.relation for vacuum in watcher.sample().vacuums}
        connection.cancel()
        thread.join()
        connection.execute("DROP TABLE dusty; DROP ROLE plain")
    assert seen and {relation for relation, _ in seen} == {"dusty"}
    assert unnamed == {""}, "who may not see more is told that there is one"


def test_functions_of_the_databases_owner_are_not_executed(server: Servers) -> None:
    running = server(16)
    with running.connect() as connection:
        connection.execute("CREATE SCHEMA theirs")
        connection.execute("CREATE TABLE theirs.executed (by text)")
        for name, left, right in (("times", "float8", "int4"), ("times", "int8", "interval")):
            connection.execute(
                f"CREATE FUNCTION public.{name}({left}, {right}) RETURNS {right} LANGUAGE plpgsql AS "
                f"'BEGIN INSERT INTO theirs.executed VALUES (current_user); RETURN $2; END'".encode()
            )
            connection.execute(
                f"CREATE OPERATOR public.* (LEFTARG = {left}, RIGHTARG = {right}, FUNCTION = public.{name})".encode()
            )
        try:
            with Monitor(running.dsn()) as monitor:
                activity = Activity(monitor)
                activity.sample(0.001)
                activity.waits([connection.info.backend_pid], [1], 0.001)
                pgstat.snapshot(monitor)
            assert connection.execute("SELECT * FROM theirs.executed").fetchall() == []
        finally:
            connection.execute("DROP SCHEMA theirs CASCADE")
            connection.execute("DROP FUNCTION public.times(float8, int4) CASCADE")
            connection.execute("DROP FUNCTION public.times(int8, interval) CASCADE")


def test_a_frozen_server_cannot_freeze_the_monitor(server: Servers) -> None:
    with Monitor(server(16).dsn()) as monitor:
        activity = Activity(monitor)
        os.kill(monitor.backend_pid, signal.SIGSTOP)
        try:
            for _ in range(3):
                with pytest.raises(MonitorError, match="did not answer"):
                    activity.sample()
            with pytest.raises(MonitorError, match="did not answer"):
                pgstat.snapshot(monitor)
        finally:
            os.kill(monitor.backend_pid, signal.SIGCONT)

        def answer() -> list[tuple[str | None, ...]]:
            with suppress(MonitorError):
                return monitor.ask("SELECT 42")
            return []

        # The late answer was thrown away: this is the answer to this question.
        assert wait_for(answer, "an answer") == [("42",)]


def test_a_question_that_the_server_gave_up_fails_no_later_one(server: Servers) -> None:
    slow = "SELECT pg_sleep(600)"
    with Monitor(server(16).dsn()) as monitor:
        with pytest.raises(MonitorError, match="did not answer"):
            monitor.ask(slow, patience_s=0.05)
        # The answer to it, when it comes, is that it took longer than statement_timeout.
        with monitor.patient(60, NOBODY):
            assert monitor.ask("SELECT 42") == [("42",)]
        with pytest.raises(MonitorError, match="statement timeout"):
            monitor.ask(slow, patience_s=60)


def test_lost_connections_and_refusals_are_monitor_errors(server: Servers) -> None:
    running = server(16)
    with Monitor(running.dsn()) as monitor:
        with pytest.raises(MonitorError, match="division by zero"):
            monitor.ask("SELECT 1 / 0")
        assert monitor.ask("SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()") == [
            (pgstat.APPLICATION_NAME,)
        ]
        with running.connect() as connection:
            connection.execute("SELECT pg_terminate_backend(%s)", (monitor.backend_pid,))
        with pytest.raises(MonitorError):
            for _ in range(100):
                monitor.ask("SELECT 1")
                time.sleep(0.05)
    with pytest.raises(MonitorError, match="cannot connect the monitor"):
        Monitor(running.dsn("no such database"))


def test_the_monitor_does_not_wait_for_locks(server: Servers) -> None:
    running = server(16)
    with Monitor(running.dsn()) as monitor, running.connect() as holder:
        holder.execute("CREATE TABLE held (a int)")
        holder.execute("BEGIN")
        holder.execute("LOCK TABLE held")
        with pytest.raises(MonitorError, match="lock timeout"):
            pgstat.sizes(monitor)
        holder.rollback()
        assert pgstat.sizes(monitor)
        holder.execute("DROP TABLE held")


def test_settle_says_when_sessions_are_still_there(server: Servers) -> None:
    running = server(17)
    with Monitor(running.dsn()) as monitor, running.connect():
        assert not pgstat.settle(monitor, patience_s=0.1)

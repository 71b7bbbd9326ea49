"""Samples of the waits of connections, and their counts, on a real server."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from engine.core.model import Build
from engine.core.wait_kinds import by_kind, kind_of, shares, versions
from engine.observe.wait_samples import WaitLooks, looks_per_s
from engine.postgres.activity import Activity
from engine.postgres.pgstat import Monitor, MonitorError
from engine.postgres.server import Server
from tests.support.benchcall import wait_for
from tests.support.compiled import from_major, major_at_hand
from workloads.client.counter_page import Control, Page

MS = 1_000_000


def test_many_connections_are_looked_at_less_often() -> None:
    assert [looks_per_s(count) for count in (0, 1, 50, 100, 200, 1000)] == [10, 10, 10, 5, 2.5, 0.5]


def test_waits_have_the_same_kind_in_all_versions() -> None:
    wal = ("LWLock:WALWriteLock", "LWLock:WALWrite", "IO:WALSync", "IO:WalSync", "IO:WalWrite")
    assert {kind_of(event) for event in wal} == {"wal"}
    events = ("", "Lock:tuple", "LWLock:ProcArray", "BufferPin:BufferPin", "IO:DataFileRead", "Client:ClientRead")
    assert [kind_of(event) for event in events] == ["", "lock", "latch", "buffer", "io", "client"]
    locked = ("LWLock:buffer_content", "LWLock:BufferContent", "Buffer:BufferShared", "Buffer:BufferExclusive")
    assert {kind_of(event) for event in locked} == {"buffer"}
    assert {kind_of(event) for event in ("LWLock:buffer_io", "LWLock:BufferIO", "IPC:BufferIO", "IPC:BufferIo")} == {
        "io"
    }
    assert {kind_of(event) for event in ("Timeout:PgSleep", "Extension:x", "InjectionPoint:y")} == {"other"}
    seen = shares({"": 1, "Lock:tuple": 2, "Lock:relation": 1})
    assert list(seen.items()) == [("Lock:tuple", 0.5), ("", 0.25), ("Lock:relation", 0.25)]
    assert by_kind(seen) == {"lock": 0.75, "": 0.25} and shares({}) == {}


def events_of(major: int) -> set[str]:
    return {event for event, majors in versions().items() if major in majors}


def test_what_the_table_does_not_know_is_a_kind_of_its_own() -> None:
    new = ("Cache:CacheShared", "IO:DataFileTeleport", "LWLock:my_extension")
    assert by_kind(dict.fromkeys(new, 0.25)) == {"unknown": 0.75}
    assert "Buffer:BufferShared" in events_of(19) and "LWLock:BufferContent" not in events_of(19)
    assert "Buffer:BufferShared" not in events_of(18) and "LWLock:BufferContent" in events_of(18)


@pytest.mark.parametrize("label", from_major(17))
def test_the_table_has_the_events_that_a_server_lists(label: str, server: Callable[[int | str], Server]) -> None:
    running = server(label)
    with running.connect() as connection:
        rows = connection.execute("SELECT type, name FROM pg_wait_events").fetchall()
    listed = {f"{kind}:{name}" for kind, name in rows if kind not in ("Extension", "InjectionPoint")}
    ours = events_of(running.build.major)
    assert listed <= ours
    # 17 reports its LWLocks by other names than it lists; those of extensions and without a name are not listed.
    apart = {"LWLock:extension", "LWLock:autoprewarm", "LWLock:pg_stat_statements"}
    assert {event for event in ours - listed if running.build.major > 17} <= apart


@pytest.mark.parametrize("major", [12, 14, 16])
def test_a_version_without_a_list_has_the_names_of_the_table(major: int, build: Callable[[int | str], Build]) -> None:
    program = (build(major).bin / "postgres").read_bytes()
    words = set(program.split(b"\0"))
    names = {event.partition(":")[2].encode() for event in events_of(major)} - {b"autoprewarm", b"pg_stat_statements"}
    # The end of one text may stand for another.
    assert [name for name in names - words if name + b"\0" not in program] == []


def test_looks_count_what_is_seen_while_the_server_is_driven(server: Callable[[int | str], Server]) -> None:
    running, page = server(16), Page.create(1)
    with Monitor(running.dsn()) as monitor, running.connect() as holder, running.connect() as waiter:
        backends = [("idle", holder.info.backend_pid), ("stuck", waiter.info.backend_pid)]
        holder.execute("SELECT pg_advisory_lock(4711)")
        thread = threading.Thread(target=waiter.execute, args=("SELECT pg_advisory_lock(4711)",))
        thread.start()
        looks = WaitLooks(Activity(monitor), backends, page, 0.001)
        old: set[int] = set()
        try:
            while monitor.ask("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory'") == [("0",)]:
                pass
            for t_ns in range(1_000 * MS, 11_000 * MS, 10 * MS):
                page.words[Control.PAUSED_SINCE_NS] = 1 if 3_000 * MS <= t_ns < 8_000 * MS else 0
                if sample := looks.look(t_ns):
                    old |= sample.ages_ns.keys()
            seen = looks.take(1, 11_000 * MS, 5_000 * MS)
            assert looks.take(1, 12_000 * MS, 1_000 * MS) == [], "all was taken"
        finally:
            page.words[Control.PAUSED_SINCE_NS] = 0
            holder.execute("SELECT pg_advisory_unlock(4711)")
            thread.join()
    count = looks.looks
    assert old == {pid for _, pid in backends}, "who has waited for longer than a millisecond"
    assert looks.often
    assert 30 <= count <= 70, "ten a second, five of ten seconds, at moments chosen by chance"
    assert [(second.role, second.samples, second.data) for second in seen] == [
        ("idle", count, {"Client:ClientRead": count}),
        ("stuck", count, {"Lock:advisory": count}),
    ]
    assert {name: dict(counts) for name, counts in looks.seen.items()} == {row.role: row.data for row in seen}
    page.close()


# A comparison that sleeps in one session, while its search holds the lock of the index's page.
SLOW_COMPARISON = """
CREATE FUNCTION sleepy(a int, b int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF current_setting('planted.sleeps', true) = 'on' THEN PERFORM pg_sleep(2); END IF;
  RETURN btint4cmp(a, b);
END $$;
CREATE OPERATOR CLASS sleepy_ops FOR TYPE int USING btree AS
  OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 sleepy(int, int);
CREATE TABLE planted (a int);
INSERT INTO planted VALUES (1), (2);
CREATE INDEX ON planted (a sleepy_ops);
"""


@pytest.mark.parametrize("major", [12, 18, major_at_hand(19)])
def test_a_wait_for_a_buffer_lock_is_of_one_kind_everywhere(major: int, server: Callable[[int | str], Server]) -> None:
    running = server(major)
    seen: set[str] = set()
    with Monitor(running.dsn()) as monitor, running.connect() as holder, running.connect() as waiter:
        holder.execute(SLOW_COMPARISON)
        holder.execute("SET planted.sleeps = on")
        holder.execute("SET enable_seqscan = off")
        pids, activity = [waiter.info.backend_pid], Activity(monitor)
        threads = [
            threading.Thread(target=holder.execute, args=("SELECT FROM planted WHERE a = 1",)),
            threading.Thread(target=waiter.execute, args=("INSERT INTO planted VALUES (3)",)),
        ]
        threads[0].start()
        sleeping = f"SELECT 1 FROM pg_stat_activity WHERE pid = {holder.info.backend_pid} AND wait_event = 'PgSleep'"
        wait_for(lambda: waiter.execute(sleeping.encode()).fetchone(), "the holder to sleep with the page's lock")
        threads[1].start()
        while any(thread.is_alive() for thread in threads):
            with suppress(MonitorError):
                seen |= {event for _, event in activity.waits(pids, [0], 0.0).counts}
        holder.execute("DROP TABLE planted; DROP FUNCTION sleepy CASCADE")
    kinds = {kind_of(event): event for event in seen}
    words = {12: "LWLock:buffer_content", 18: "LWLock:BufferContent", 19: "Buffer:BufferExclusive"}
    assert kinds.get("buffer") == words[major]
    assert "unknown" not in kinds

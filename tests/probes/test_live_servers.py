"""Every probe over real servers of every major version at hand: every statement sent is counted."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from engine.core.model import Build, Config
from engine.postgres import pgstat
from engine.postgres.server import Server
from engine.tracing import planstats
from probes import elf, folding
from probes.attach_points import keeps_frame_pointers
from probes.frames import Frame
from probes.session import ProbeSession, Target
from probes.table import PHASES
from tests.support.compiled import at_night, compiled_here
from tests.support.observing import Helper, frames_to_now, total

pytestmark = [pytest.mark.outside, pytest.mark.first]

Servers = Callable[[int | str], Server]
STATEMENTS = 20
STACKED = 3  # queries that take long enough to be sampled
STACK_SQL = "select count(*) from generate_series(1, 400000) as a(x) where x % 7 = 3"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Prebuilt servers by major version, those that were compiled here by label."""
    if "which" in metafunc.fixturenames:
        metafunc.parametrize("which", [12, 16, 18, *compiled_here(), *at_night(14, 17)], scope="module")
    if "which_end" in metafunc.fixturenames:
        metafunc.parametrize("which_end", [12, 18, *at_night(14, 16)])


def target_of(server: Server) -> Target:
    return Target(server.pid, server.build.bin / "postgres", server.build.major, launchers=(os.getpid(),))


@contextmanager
def afresh(running: dict[str, ProbeSession]) -> Iterator[dict[str, ProbeSession]]:
    """Probes that others used, past what these did."""
    for one in running.values():
        frames_to_now(one)
    yield running
    for one in running.values():
        assert not [text for text in one.messages if "s missed" not in text]


@contextmanager
def watched(server: Server, *probes: str, command: Helper, quiet: bool = True) -> Iterator[dict[str, ProbeSession]]:
    """Several probes at once, each past its baseline."""
    with ExitStack() as stack:
        running = {
            probe: stack.enter_context(ProbeSession(target_of(server), probe, command=command)) for probe in probes
        }
        for one in running.values():
            assert one.wait_baseline(), one.messages
        for one in running.values():
            one.poll()  # what others did until now
        yield running
        for one in running.values():
            # A loaded machine may miss a second; that is no fault of the probe, and nothing is lost by it.
            assert not quiet or not [text for text in one.messages if "s missed" not in text]


@pytest.fixture(scope="module")
def attached(which: int | str, server: Servers, helpers: tuple[Helper, ...]) -> Iterator[dict[str, ProbeSession]]:
    """Probes of the planner, the phases and stacks, for all tests of a server: to attach one takes seconds of CPU."""
    with watched(server(which), "planner", "phases", "stacks", command=helpers[-1]) as running:
        yield running


@contextmanager
def client(server: Server, prepare_threshold: int | None = None) -> Iterator[psycopg.Connection[Any]]:
    """A connection in autocommit that has settled."""
    with psycopg.connect(server.dsn(), autocommit=True, prepare_threshold=prepare_threshold) as connection:
        yield connection


def of_phases_us(seen: list[Frame], pid: int) -> int:
    return sum(total(seen, f"{phase}_us", pid) for phase in PHASES)


def test_every_probe_counts_what_was_sent(
    which: int | str, server: Servers, helpers: tuple[Helper, ...], attached: dict[str, ProbeSession]
) -> None:
    for command in helpers:
        there = attached if command == helpers[-1] else {}
        # Those of the scheduler are the same for all servers.
        scheduler = ("runq", "sched") if which == 18 else ()
        others = ("endpoint", "endpoint_proxy", *scheduler, *({"planner", "phases", "stacks"} - {*there}))
        with watched(server(which), *others, command=command) as started:
            running = there | started
            assert running["planner"].origin["attach"] == ("usdt" if isinstance(which, str) else "function")
            with client(server(which)) as connection:
                pid = connection.info.backend_pid
                began = time.monotonic()
                for _ in range(STATEMENTS):
                    connection.execute("select 1")
                for _ in range(STACKED):
                    connection.execute(STACK_SQL)
                    time.sleep(0.4)
                spent_us = (time.monotonic() - began) * 1e6
                seen = {probe: frames_to_now(one) for probe, one in running.items()}
        sent = STATEMENTS + STACKED
        assert total(seen["planner"], "n", pid) == sent
        assert total(seen["endpoint"], "plan_n", pid) == sent
        assert total(seen["endpoint_proxy"], "plan_n", pid) == sent
        for phase in PHASES:
            assert total(seen["phases"], f"{phase}_n", pid) == sent
            assert total(seen["phases"], f"{phase}_us", pid) > 0
        assert total(seen["planner"], "sum_us", pid) < spent_us
        if scheduler:
            assert total(seen["runq"], "n", pid) >= STATEMENTS / 2
            assert total(seen["sched"], "oncpu_us", pid) > 20_000
            slept = sum(total(seen["sched"], kind, pid) for kind in ("slept", "disk", "other"))
            assert abs(total(seen["sched"], "wakeups", pid) - slept) <= 0.02 * slept + 2, "each sleep ends in a wake-up"
        assert total(seen["stacks"], "samples", pid) >= 2
        stacks = [stack for frame in seen["stacks"] for stack in frame.stacks if stack.pid == pid]
        # Samples between print and clear are lost, which is little unless others have the CPU between them.
        assert sum(stack.count for stack in stacks) >= 0.5 * total(seen["stacks"], "samples", pid)


def test_planner_counts_plannings_by_protocol(
    which: int | str, server: Servers, attached: dict[str, ProbeSession]
) -> None:
    with afresh(attached) as running, ExitStack() as stack:
        simple = stack.enter_context(client(server(which)))
        extended = stack.enter_context(client(server(which)))
        prepared = stack.enter_context(client(server(which), prepare_threshold=0))
        failing = stack.enter_context(client(server(which)))
        for _ in range(12):
            simple.execute("select 1")
            extended.execute("select %s::int", (1,))
            prepared.execute("select relname from pg_class where oid = %s::oid", (1259,))
        for _ in range(3):
            with pytest.raises(psycopg.errors.DivisionByZero):
                failing.execute("select 1/0")
        failing.execute("select 2")
        with pytest.raises(psycopg.errors.DivisionByZero):
            failing.execute("select 1/%s::int", (0,))
        failing.execute("select %s::int", (3,))
        seen = frames_to_now(running["planner"])
        phases = frames_to_now(running["phases"])
        pids = [one.info.backend_pid for one in (simple, extended, prepared, failing)]
    # Prepared: 5 plannings with the values, then the generic plan.
    counted = [total(seen, "n", pid) for pid in pids]
    assert counted[:2] == [12, 12]
    assert counted[2] in (5, 6)
    # An error while planning is no planning; one while executing comes after it. Which of the two the statement with
    # a parameter is, depends on whether the value is folded in.
    assert counted[3] == 2
    assert total(seen, "nested") == 0
    assert [total(phases, "parse_n", pid) for pid in pids] == [12, 12, 1, 6]
    assert [total(phases, "analyze_n", pid) for pid in pids][:3] == [12, 12, 1]
    assert total(phases, "execute_n", pids[2]) == 12


def test_a_nested_planning_counts_within_the_outer_time(
    which: int | str, server: Servers, attached: dict[str, ProbeSession]
) -> None:
    with client(server(which)) as connection:
        connection.execute(
            "create or replace function probes_slow() returns int immutable language plpgsql as "
            "$$ begin perform pg_sleep(0.05); return (select 1 from pg_class limit 1); end $$"
        )
    with afresh(attached) as running, client(server(which)) as connection:
        pid = connection.info.backend_pid
        began = time.monotonic()
        connection.execute("select probes_slow()")
        spent_us = (time.monotonic() - began) * 1e6
        seen = frames_to_now(running["planner"])
        phases = frames_to_now(running["phases"])
        connection.execute("drop function probes_slow()")
    # The function's value is asked for once while planning, which plans its own statements; then it is a constant.
    assert total(seen, "n", pid) == 1
    assert total(seen, "nested", pid) >= 2
    assert 50_000 <= total(seen, "sum_us", pid) < spent_us
    (histogram,) = [of[pid] for frame in seen for of in [frame.histograms.get("plan_us", {})] if pid in of]
    assert histogram == {max(histogram): 1} and max(histogram) >= 16
    assert total(phases, "plan_us", pid) >= 50_000
    assert of_phases_us(phases, pid) < spent_us, "what is planned inside is of no other phase"
    assert total(phases, "nested", pid) >= 2


def test_statements_inside_a_statement_belong_to_its_execution(
    which: int | str, server: Servers, attached: dict[str, ProbeSession]
) -> None:
    with afresh(attached) as running, client(server(which)) as connection:
        pid = connection.info.backend_pid
        began = time.monotonic()
        connection.execute(
            "do $$ begin perform count(*) from pg_class; perform pg_sleep(0.05);"
            " begin perform 1/0; exception when division_by_zero then null; end;"
            " execute 'select 2'; perform pg_sleep(0.05); end $$"
        )
        spent_us = (time.monotonic() - began) * 1e6
        seen = frames_to_now(running["phases"])
    assert total(seen, "parse_n", pid) == 1
    assert total(seen, "execute_us", pid) >= 100_000
    assert of_phases_us(seen, pid) < spent_us, "what it did inside is of no other phase"
    assert total(seen, "nested", pid) >= 3


def test_another_server_on_the_same_binary_counts_for_nothing(
    server: Servers, small_config: Callable[[Build], Config], helpers: tuple[Helper, ...], cell_dir: Path
) -> None:
    mine = server(16)
    with (
        Server(mine.build, small_config(mine.build), cell_dir) as foreign,
        watched(mine, "planner", "runq", command=helpers[-1], quiet=False) as running,
    ):
        foreign.create_database()
        with client(foreign) as stranger, client(mine) as connection:
            for _ in range(STATEMENTS):
                stranger.execute("select 1")
            connection.execute("select 1")
            seen = {probe: frames_to_now(one) for probe, one in running.items()}
            pids = (stranger.info.backend_pid, connection.info.backend_pid)
    assert total(seen["planner"], "n") == 1 == total(seen["planner"], "n", pids[1])
    assert all(pids[0] not in frame.records and pids[0] not in frame.groups for frame in seen["runq"])


def test_endpoint_shows_dead_index_entries_until_clean_up(
    which_end: int, server: Servers, helpers: tuple[Helper, ...]
) -> None:
    """Plain VACUUM may leave the dead entries of few pages where they are from 14 on; up to 13 it never does."""
    with (
        watched(server(which_end), "endpoint", command=helpers[-1], quiet=False) as running,
        client(server(which_end)) as connection,
    ):
        pid = connection.info.backend_pid
        connection.execute(
            "drop table if exists probes_end;"
            "create table probes_end (id bigint, filler text) with (autovacuum_enabled = off)"
        )
        # So many that the pages of the deleted ones are less than 2% of all.
        connection.execute(
            "insert into probes_end select g, '' from generate_series(1, 750000) g;"
            "create index on probes_end (id); analyze probes_end"
        )
        connection.execute("vacuum probes_end")

        def leaf_pages() -> tuple[int, int]:
            """Leaf pages of one planning and the look-ups that read them, the second time it is planned."""
            frames_to_now(running["endpoint"])
            connection.execute("explain select * from probes_end where id >= 0 and id < 10")
            seen = frames_to_now(running["endpoint"])
            return total(seen, "leaf_pages", pid), total(seen, "ep_n", pid)

        pages, look_ups = leaf_pages()
        assert look_ups > 0 and pages <= 3 * look_ups
        connection.execute("delete from probes_end where id <= 10000")
        dead, look_ups = leaf_pages()
        assert look_ups > 0 and dead > 25
        connection.execute("vacuum probes_end")
        after_plain, _ = leaf_pages()
        connection.execute("vacuum (index_cleanup on) probes_end")
        cleaned, look_ups = leaf_pages()
        assert cleaned <= 3 * look_ups
        connection.execute("drop table probes_end")
    if which_end <= 13:
        assert after_plain <= 3 * look_ups
    else:
        assert after_plain > 25


def test_stacks_are_as_deep_as_the_binary_allows(
    which: int | str, server: Servers, attached: dict[str, ProbeSession]
) -> None:
    running_server = server(which)
    with afresh(attached) as running, client(running_server) as connection:
        pid = connection.info.backend_pid
        origin = running["stacks"].origin
        known = folding.space(Path(f"/proc/{running_server.pid}/maps").read_text(), complete=origin["frame_pointers"])
        for _ in range(3):
            connection.execute(STACK_SQL)
        seen = frames_to_now(running["stacks"])
    # By now the backend is gone, and still has names.
    stacks = [stack for frame in seen for stack in frame.stacks if stack.pid == pid and stack.user]
    folded = folding.fold(stacks, lambda _: "query", lambda _: known)
    named = sum(count for line, count in folded.items() if folding.UNKNOWN not in line)
    assert named >= 0.9 * sum(folded.values()) > 3
    if origin["frame_pointers"]:
        phases = folding.phase_samples(folded)["query"]
        assert phases["execute"] >= 0.8 * sum(phases.values())
        assert any(";PostgresMain;exec_simple_query;PortalRun;" in line for line in folded)
    else:
        assert all(len([one for one in line.split(";")[1:] if not one.endswith("_[k]")]) == 1 for line in folded)


def test_compiled_servers_keep_frame_pointers(which: int | str, server: Servers) -> None:
    file = elf.read((server(which).build.bin / "postgres").resolve())
    assert keeps_frame_pointers(file) == isinstance(which, str)


@pytest.mark.parametrize("which_stats", [14, 18, *at_night(16, 17)])
def test_planstats_reads_what_was_planned(
    which_stats: int, build: Callable[[int | str], Build], small_config: Callable[[Build], Config], cell_dir: Path
) -> None:
    wanted = build(which_stats)
    config = small_config(wanted)
    config = replace(config, settings=(*config.settings, *planstats.SETTINGS))
    with Server(wanted, config, cell_dir) as running:
        running.create_database()
        with client(running) as connection, pgstat.Monitor(running.dsn()) as monitor:
            planstats.begin(monitor)
            before = pgstat.snapshot(monitor, (planstats.PROBE,))
            for _ in range(7):
                connection.execute("select count(*) from pg_class where relname = 'x'")
            statements = pgstat.difference(before, pgstat.snapshot(monitor, (planstats.PROBE,)))[planstats.PROBE]
    assert [one for one in statements.values() if one["calls"] == 7 == one["plans"] and one["plan_us"] > 0]
    assert planstats.record(statements.values(), 1.0)["calls"] >= 7


def test_12_cannot_track_planning(build: Callable[[int | str], Build]) -> None:
    assert "PostgreSQL 12 cannot track planning time; use the planner probe" in planstats.unavailable(build(12))
    assert planstats.unavailable(build(14)) == ""

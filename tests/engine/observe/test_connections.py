"""Connections read together: each has what it counted, what its processes used, and its own history."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.host.procfs import Task
from engine.journal.rows import RoleSecond
from engine.observe.connections import Connections, Ticked
from engine.observe.stalls import StallRule
from engine.postgres.activity import Observed, Wait
from engine.postgres.server_processes import ServerSample
from workloads.api.base import Role, Step
from workloads.client import histogram
from workloads.client.counter_page import RESPONSE_OFFSET, SERVICE_OFFSET, Control, Page, State, Word

S = 1_000_000_000
STEP = Step("mixed", "query", {}, roles=(Role(1, "query"), Role(2, "query"), Role(1, "select"), Role(2, "select")))
ASKED = replace(STEP, ages="session", threads=2)
BACKENDS = (101, 102, 103, 104)


def server(**cpu_ns: int) -> ServerSample:
    """A server whose backends, as `b101`, used so much CPU time."""
    tasks = {int(name[1:]): Task(int(name[1:]), "S", ns, 2 * ns, 0, 3, 4, 5, 6) for name, ns in cpu_ns.items()}
    return ServerSample({"cpu_ns": 1}, {}, tasks)


@pytest.fixture
def page() -> Iterator[Page]:
    page = Page.create(len(STEP.roles))
    for slot, backend in enumerate(BACKENDS):
        page.set_word(slot, Word.BACKEND_PID, backend)
        page.set_word(slot, Word.CLIENT_PID, os.getpid())  # one process serves all of them
        page.set_word(slot, Word.STATE, State.RUNNING)
    yield page
    page.close()


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def count(page: Page, slot: int, *times_us: int, offset: int = SERVICE_OFFSET) -> None:
    """Statements of a connection ended that took so long."""
    longest = Word.MAX_NS if offset == SERVICE_OFFSET else Word.LATE_MAX_NS
    for time_us in times_us:
        page.counts(slot, offset)[histogram.index(time_us)] += 1
        page.set_word(slot, longest, max(page.word(slot, longest), time_us * 1000))
    if offset == SERVICE_OFFSET:
        page.set_word(slot, Word.STATEMENTS, page.word(slot, Word.STATEMENTS) + len(times_us))


def seconds_of(ticked: Ticked) -> list[RoleSecond]:
    return list(map(RoleSecond._make, ticked.seconds))


def test_each_connection_has_its_own_second(page: Page) -> None:
    connections = Connections(STEP, page, server(b101=10, b103=30))
    connections.begin(lambda connection: 10 + connection.slot, StallRule(), 100 * S)
    began_s = time.process_time()
    while time.process_time() < began_s + 0.02:  # the kernel counts a process that runs at each of its ticks
        pass
    count(page, 0, 100, 100, 5000)
    count(page, 2, 70)
    count(page, 2, 900, offset=RESPONSE_OFFSET)
    page.set_word(2, Word.SKIPPED, 7)
    page.set_word(1, Word.IN_FLIGHT_NS, 101 * S - 300)
    waits = {103: Wait("Client:ClientRead", "idle"), 104: Wait("", "active"), 999: Wait("", "idle")}
    ticked = connections.tick(101 * S, S, server(b101=15, b102=20, b103=31), waits)
    assert [row.role_id for row in seconds_of(ticked)] == [10, 11, 12, 13]
    assert [row.statements for row in seconds_of(ticked)] == [3, 0, 1, 0]
    assert [row.in_flight_ns for row in seconds_of(ticked)] == [0, 300, 0, 0]
    assert [row.max_us for row in seconds_of(ticked)] == [5000, 0, 70, 0], "no longer than the longest"
    assert [histogram.unpack(row.service) for row in seconds_of(ticked)][:2] == [{100: 2, histogram.index(5000): 1}, {}]
    assert [row.response for row in seconds_of(ticked)] == [None, None, histogram.pack({histogram.index(900): 1}), None]
    cpu = [row.backend_cpu_ns for row in seconds_of(ticked)]
    assert cpu == [5, 0, 1, 0], "what it used before it was first seen is not the second's"
    assert [row.wait_event for row in seconds_of(ticked)] == [None, None, "Client:ClientRead", ""]
    assert (seconds_of(ticked)[0].client_cpu_ns or 0) > 0, "a process that serves several is counted with the first"
    assert [row.client_cpu_ns for row in seconds_of(ticked)][1:] == [0, 0, 0]
    assert [(row.slot, counts) for row, counts in ticked.outcomes] == [(2, {"skipped": 7})]

    count(page, 0, 5000)
    page.set_word(3, Word.STATE, State.DONE)
    ticked = connections.tick(102 * S, S, server(b102=26, b103=32), {})
    assert [row.statements for row in seconds_of(ticked)] == [1, 0, 0, 0]
    assert [row.backend_cpu_ns for row in seconds_of(ticked)] == [0, 6, 1, 0], "of one that has gone nothing more"
    assert [row.in_flight_ns for row in seconds_of(ticked)] == [0, S + 300, 0, 0]
    assert [row.response for row in seconds_of(ticked)] == [None, None, b"", None]
    assert not ticked.outcomes

    seen = connections.seconds(connections.all[2])
    assert [(row.t_ns, row.backend_cpu_ns) for row in seen] == [(101 * S, 1), (102 * S, 1)]
    assert seen[0].wait == waits[103]
    assert seen[1].client_cpu_ns == seconds_of(ticked)[0].client_cpu_ns, "that of the process that serves it"
    totals = connections.totals("query", 2.0)
    assert (totals.connections, totals.statements, totals.max_ns, totals.backend_cpu_ns) == (2, 4, 5_000_000, 5)
    assert totals.histogram == ((100, 2), (histogram.index(5000), 2))
    assert connections.totals("select", 2.0).outcomes == {"skipped": 7}
    connections.close()


def test_a_statement_that_is_too_old_is_seen_between_two_ticks(page: Page) -> None:
    connections = Connections(STEP, page, server())
    connections.begin(lambda connection: connection.slot, StallRule(warm_up_s=0.0), 100 * S)
    for second in range(1, 4):
        count(page, 1, *[1000] * 20)
        page.set_word(1, Word.ROWS, second * 200)
        assert not connections.tick((100 + second) * S, S, server(), {}).found
    page.set_word(1, Word.IN_FLIGHT_NS, 103 * S)
    assert not connections.look(104 * S - 1)
    ((stalled, change),) = connections.look(104 * S + 1)
    assert (stalled.slot, change.kind, change.stall.started_ns) == (1, "began", 103 * S)
    assert (change.stall.median_per_s, change.stall.missed_rows) == (20, 20), "queries, not their rows"
    page.set_word(1, Word.IN_FLIGHT_NS, 0)
    assert not connections.look(104 * S + S // 4)
    page.set_word(1, Word.LIMITED_NS, 1000)
    ((stalled, change),) = connections.tick(105 * S, 2 * S, server(), {}).found
    assert (stalled.slot, change.kind, change.stall.ended_ns) == (1, "ended", 104 * S + S // 4)


def test_the_server_is_asked_for_ages_that_no_page_has(page: Page) -> None:
    connections = Connections(ASKED, page, server())
    connections.begin(lambda connection: connection.slot, StallRule(), 100 * S)
    waits = {103: Wait("Client:ClientRead", "idle"), 104: Wait("", "active"), 999: Wait("", "idle")}
    observed = Observed(waits, (), ages_ns={103: 400, 104: 500, 999: 0})
    connections.observe(observed, lambda age_ns: age_ns // 2, 101 * S)
    assert connections.in_flight_ns(101 * S).tolist() == [0, 0, 200, 250], "of the session, in active time"
    page.set_word(3, Word.STATE, State.DONE)
    connections.observe(observed, int, 102 * S)
    assert connections.in_flight_ns(102 * S).tolist() == [0, 0, 400, 0], "who is done has nothing in flight"
    connections.close()


def test_a_stall_begins_by_the_clock_with_ages_in_active_time(page: Page) -> None:
    connections = Connections(ASKED, page, server())
    connections.begin(lambda connection: connection.slot, StallRule(warm_up_s=0.0), 100 * S)
    count(page, 2, *[1000] * 20)
    connections.tick(103 * S, S, server(), {})
    connections.observe(
        Observed({103: Wait("", "active")}, (), ages_ns={103: 3 * S}), lambda age_ns: age_ns // 2, 106 * S
    )
    ((stalled, change),) = connections.look(106 * S)
    assert (stalled.slot, change.stall.started_ns, change.stall.max_in_flight_ns) == (2, 103 * S, 3 * S // 2)


def test_a_stopped_or_locked_backend_is_blocked(page: Page) -> None:
    connections = Connections(STEP, page, server())
    connections.begin(lambda connection: connection.slot, StallRule(), 100 * S)
    locked = Observed({101: Wait("Lock:relation", "active", (9,)), 102: Wait("", "active")}, ())
    page.set_word(0, Word.IN_FLIGHT_NS, 100 * S)

    def look(t_s: float, observed: Observed, *stopped: int) -> list[tuple[int, str, float]]:
        connections.seek_blocked(observed, lambda pid: pid in stopped, int, int(t_s * S))
        return [
            (connection.slot, change.kind, (change.stall.started_ns - 100 * S) / S)
            for connection, change in connections.look(int(t_s * S))
        ]

    assert look(100.4, locked, 101) == [], "it has not lasted: nobody asks"
    assert look(100.9, locked) == []
    assert look(101.1, locked) == [(0, "began", 0)], "in the warm-up, and the first of its role"
    assert look(102.0, Observed({101: Wait("", "active")}, ())) == []
    page.set_word(0, Word.IN_FLIGHT_NS, 0)

    page.set_word(1, Word.IN_FLIGHT_NS, 103 * S)
    assert look(104.0, locked) == []
    assert look(104.2, Observed({}, ()), 102) == []
    assert look(105.1, Observed({}, ())) == [], "it was stopped for less than a second"
    for t_s in (105.3, 106.0):
        assert look(t_s, Observed({}, ()), 102) == []
    assert look(106.2, Observed({}, ()), 102) == [(1, "began", 5.1)], "since the look before"
    ended = {connection.slot: change.stall for connection, change in connections.finish(107 * S)}
    assert [ended[slot].ended_ns for slot in (0, 1)] == [102 * S, 107 * S], "when it went on; or was not seen to"
    assert {stall.trigger for stall in ended.values()} == {"blocked"}


def test_a_wait_for_a_lock_is_none_while_its_role_is_at_work(page: Page) -> None:
    connections = Connections(STEP, page, server())
    connections.begin(lambda connection: connection.slot, StallRule(), 100 * S)
    page.set_word(0, Word.IN_FLIGHT_NS, 100 * S)
    wait = Wait("Lock:transactionid", "active", (102,))

    def look(t_s: float) -> bool:
        observed = Observed({101: wait, 102: Wait("", "active")}, ())
        connections.seek_blocked(observed, lambda _: False, int, int(t_s * S))
        return bool(connections.look(int(t_s * S)))

    for quarter in range(1, 12):  # its partner has a statement of its own
        page.set_word(1, Word.IN_FLIGHT_NS, 100 * S + (quarter - 3) * S // 4)
        assert not look(100 + quarter / 4)
    page.set_word(1, Word.IN_FLIGHT_NS, 0)
    for quarter in range(12, 20):  # or executes short ones
        count(page, 1, *[100] * (quarter % 3))
        assert not look(100 + quarter / 4)
    page.set_word(2, Word.STATEMENTS, 7)
    assert any(look(105 + quarter / 4) for quarter in range(4)), "other roles are none of its"


def test_a_backend_is_blocked_in_its_servers_own_time(page: Page) -> None:
    connections = Connections(STEP, page, server())
    connections.begin(lambda connection: connection.slot, StallRule(), 100 * S)
    page.set_word(0, Word.IN_FLIGHT_NS, 100 * S)
    locked = Observed({101: Wait("Lock:relation", "active", (9,))}, ())

    def seek(t_s: float, share: float) -> None:
        connections.seek_blocked(locked, lambda _: False, lambda age_ns: int(age_ns * share), int(t_s * S))

    seek(100.9, 1.0)
    page.set_word(0, Word.IN_FLIGHT_NS, 0)
    assert connections.look(102 * S) == [], "it has gone on since, unseen"
    page.set_word(0, Word.IN_FLIGHT_NS, 100 * S)
    seek(101.9, 0.5)
    assert connections.look(102 * S) == [], "two servers take turns"
    seek(102.1, 0.5)
    ((_, change),) = connections.look(int(102.1 * S))
    assert (change.kind, change.stall.started_ns) == ("began", 100 * S)


def test_an_uncounted_statement_may_be_blocked_too(page: Page) -> None:
    connections = Connections(STEP, page, server())
    connections.begin(lambda connection: connection.slot, StallRule(), 100 * S)
    page.set_word(0, Word.BUSY, 1)
    for t_s, blocked in ((100.2, 0), (100.4, 0), (101.0, 0), (101.3, 1)):
        connections.seek_blocked(Observed({}, ()), lambda pid: pid == 101, int, int(t_s * S))
        assert len(connections.look(int(t_s * S))) == blocked
    page.set_word(0, Word.BUSY, 0)
    connections.seek_blocked(Observed({}, ()), lambda pid: pid == 101, int, 102 * S)
    connections.look(102 * S)
    ((_, change),) = connections.finish(103 * S)
    assert (change.stall.started_ns, change.stall.ended_ns) == (100 * S + S // 5, 102 * S)


def test_backends_stopped_for_another_slice_have_no_state(page: Page) -> None:
    connections = Connections(STEP, page, server())
    connections.begin(lambda connection: connection.slot, StallRule(), 100 * S)
    stopped = ServerSample({"cpu_ns": 1}, {}, {101: Task(101, "T", 1, 0, 0, 0, 0, 0, 0)})
    for second, halted in ((101, True), (102, False)):
        connections.tick(second * S, S, stopped, {}, halted=halted)
    seen = connections.seconds(connections.all[0])
    assert [(row.backend_state, bool(row.client_state)) for row in seen] == [("", False), ("T", True)]


def test_backends_that_are_not_seen_have_no_figures(page: Page) -> None:
    connections = Connections(STEP, page, ServerSample({}, {}, {}))
    connections.begin(lambda connection: connection.slot, StallRule(), 0)
    assert {row.backend_cpu_ns for row in seconds_of(connections.tick(S, S, ServerSample({}, {}, {}), {}))} == {None}
    assert connections.totals("query", 1.0).backend_cpu_ns is None


def test_a_shared_process_counts_with_the_first_it_serves(page: Page) -> None:
    page.words[Control.ELSEWHERE] = 1
    connections = Connections(STEP, page, server())
    connections.begin(lambda connection: connection.slot, StallRule(), 0)
    for slot in range(len(STEP.roles)):  # each is told the same
        page.set_word(slot, Word.CLIENT_CPU_NS, 700)
        page.set_word(slot, Word.CLIENT_VOLUNTARY, 3)
    ticked = connections.tick(S, S, server(), {})
    assert [(row.client_cpu_ns, row.client_switches) for row in seconds_of(ticked)] == [(700, 3), *[(0, 0)] * 3]
    assert connections.seconds(connections.all[3])[0].client_cpu_ns == 700, "that of the process that serves it"
    assert sum(connections.totals(name, 1.0).client_cpu_ns for name in ("query", "select")) == 700


@pytest.mark.slow
def test_nothing_stays_open_where_a_client_has_gone(page: Page) -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    page.set_word(3, Word.CLIENT_PID, process.pid)
    before = open_files()
    with pytest.raises(OSError):
        Connections(STEP, page, server())
    assert open_files() == before

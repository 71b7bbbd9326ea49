"""Means over a step that has ended, from its totals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.journal.rows import RoleRow, RoleSecond
from engine.view.moment import machine_over, role_means, steady
from engine.view.step_series import SECOND_NS
from engine.view.view_state import machine, role_lines
from tests.support.totals import made_totals
from workloads.client import histogram

TOTALS = replace(made_totals("l.i1", "write", 20_000.0, 1), seconds=20.0)
ROLES = [RoleRow(1, 1, 1, "insert", 41, 42), RoleRow(2, 1, 1, "delete", 43, 44)]


def test_roles_are_means_over_the_step() -> None:
    insert = replace(
        TOTALS.roles["insert"], backend_cpu_ns=5 * SECOND_NS, backend_runq_ns=SECOND_NS, waits={"": 3, "IO:WALSync": 7}
    )
    totals = replace(TOTALS, roles={"delete": TOTALS.roles["delete"], "insert": insert})
    first, second = role_means(totals, ROLES, "insert")
    assert (first.name, first.backend_pid, second.name, second.backend_pid) == ("insert", 41, "delete", 43)
    assert first.rate_per_s == pytest.approx(insert.rows / 20)
    assert (first.cpu_percent, first.runq_percent) == (25.0, 5.0)
    assert first.cpu_us_per_op == pytest.approx(5_000_000 / insert.rows)
    assert first.wait_event == "IO:WALSync" and first.in_flight_s == 0.0


def test_the_machine_is_a_mean_and_states_are_the_newest() -> None:
    last = {"host": (SECOND_NS, {"user_ns": 1, "dirty_bytes_now": 7}), "server": (SECOND_NS, {"processes_now": 9})}
    figures = machine(machine_over(TOTALS, last), 1000.0)
    assert figures.server_cpu_percent == pytest.approx((TOTALS.server_cpu_ns or 0) / 20 / 1e7)
    assert figures.host_busy_percent == pytest.approx(25), "10 of 40 s"
    assert figures.written_kb_per_s == pytest.approx(TOTALS.device["written_kb"] / 20)
    assert (figures.dirty_bytes, figures.server_processes) == (7, 9)


def test_in_slices_the_machine_is_seen_over_the_pauses_too() -> None:
    figures = machine(machine_over(replace(TOTALS, wall_seconds=40.0), {}), 1000.0)
    assert figures.server_cpu_percent == pytest.approx((TOTALS.server_cpu_ns or 0) / 20 / 1e7)
    assert figures.written_kb_per_s == pytest.approx(TOTALS.device["written_kb"] / 40)


def test_a_limited_rate_in_slices_is_over_active_time() -> None:
    roles = {1: RoleRow(1, 1, 1, "insert", 41, 42), 2: RoleRow(2, 1, 1, "query", 43, 44)}
    half_ns, none = SECOND_NS // 2, histogram.pack({})
    ticks = [
        [
            RoleSecond(role, t * SECOND_NS, half_ns, done, 50 * done, 0, 0, none)
            for role, done in ((1, inserts), (2, 100))
        ]
        for t, inserts in ((8, 2), (9, 0))
    ]
    lines = role_lines(roles, ticks[-1], (), "query")
    assert [line.rate_per_s for line in lines] == [0, 200]
    assert [
        line.rate_per_s for line in steady(lines, [second for tick in ticks for second in tick], roles, "query")
    ] == [100, 200]

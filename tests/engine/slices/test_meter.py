"""The meter of stolen time, a real process: what it adds up, when it ends itself; and the tasks of others."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.slices.meter import Machine, Meter, MeterPage, Priority, metered_cpus
from tests.support.benchcall import wait_for

ROOT = Path(__file__).parents[3]
CPU = "0"


@contextmanager
def metering(*command: str) -> Iterator[tuple[MeterPage, subprocess.Popen[bytes]]]:
    page = MeterPage.create()
    process = subprocess.Popen(
        [sys.executable, *command, str(page.fd), CPU],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=[page.fd],
        cwd=ROOT,
    )
    assert process.stdout is not None and process.stdin is not None
    try:
        assert process.stdout.readline() == b"\n"
        yield page, process
        process.stdin.close()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        page.close()


@pytest.mark.slow
def test_time_in_which_it_cannot_run_is_stolen() -> None:
    with metering("-m", "engine.slices.meter") as (page, process):
        machine = Machine(page.fd)
        before_ns = machine.late_ns()
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        process.send_signal(signal.SIGCONT)
        if page.state.priority is Priority.NONE:  # nothing else tells stolen time from a busy server
            assert before_ns is None and machine.stolen_ns(before_ns) is None
            assert "not measured" in page.state.text
            return
        assert page.state.priority.on and before_ns is not None
        wait_for(lambda: (machine.stolen_ns(before_ns) or 0) > 400_000_000, "the time to be added up")
        assert "stolen time is measured at" in page.state.text


@pytest.mark.slow
def test_a_meter_that_costs_too_much_ends_itself_and_says_so() -> None:
    code = """
import sys
from engine.slices import meter
meter.MOST_COST = meter.SETTLED_NS = 0
meter.run(meter.MeterPage(int(sys.argv[1])), [int(sys.argv[2])])
"""
    with metering("-c", code) as (page, _):
        if page.state.priority is Priority.NONE:
            return
        wait_for(lambda: page.state.priority is Priority.TOO_DEAR, "the meter to end itself")
        assert page.late_ns() is None
        assert page.state.text == "stolen time is not measured: the meter cost more than 1% of a CPU"


def test_a_meter_that_never_began_says_nothing() -> None:
    page = MeterPage.create()
    assert page.late_ns() is None and page.state == Meter(Priority.UNKNOWN, 0.0)
    assert Machine(-1).late_ns() is None
    page.close()


@pytest.mark.slow
def test_tasks_of_others_are_counted_and_own_ones_are_not() -> None:
    machine, burners = Machine(-1), [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(3)]
    try:
        wait_for(lambda: (machine.runnable() or 0) >= 3, "three tasks that want a CPU")
        assert machine.runnable(own=10**6) == 0
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def test_only_cpus_to_which_clients_are_bound_are_watched() -> None:
    assert metered_cpus([3, -1, 1, 3]) == [1, 3]
    assert metered_cpus(range(20)) == [0, 1, 2, 3]
    assert metered_cpus([-1]) == []

"""The output of perf stat, of machines with and without a PMU; and real perf over real processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.core.errors import UserError
from engine.core.perf_events import IPC, EventCount, per_op
from engine.features.counters import perf
from engine.features.counters.step_counters import NO_PMU, Counted, StepCounters, believed, lacking, server_roles
from engine.host.procfs import children
from engine.postgres.server import Server
from engine.system.account import Account
from tests.support.benchcall import wait_for
from tests.support.observing import gone


def line(value: str | float | None, event: str, thread: str = "postgres-11", **values: Any) -> str:
    record = {"thread": thread, "counter-value": value, "unit": "", "event": event, "event-runtime": 2_000_000,
              "pcnt-running": 100.00, "metric-value": 1.5, "metric-unit": "insn per cycle"}  # fmt: skip
    return json.dumps(record | {name.replace("_", "-"): value for name, value in values.items()})


def test_counts_of_a_pmu_are_read_by_process_and_event() -> None:
    printed = [
        "",
        line("4000000.000000", "cycles"),
        line("6000000.000000", "instructions"),
        '{"metric-value": "0.1", "metric-unit": "stalled cycles per insn"}',
        line("1200.000000", "branch-misses", pcnt_running=40.0, event_runtime=800_000),
        line("<not supported>", "LLC-load-misses", event_runtime=0),
        line("<not counted>", "dTLB-load-misses", event_runtime=0, pcnt_running=0.0),  # it ran, so that is not none
        line("2.500000", "task-clock", unit="msec"),
        line("7", "instructions", thread='a "b" {c}-d-12', variance=0.0),
    ]
    counts = perf.parse(printed)
    assert counts == {
        11: {
            "cycles": EventCount(4e6, 2_000_000, 2_000_000),
            "instructions": EventCount(6e6, 2_000_000, 2_000_000),
            "branch-misses": EventCount(3000.0, 2_000_000, 800_000),  # it was counted in 40% of the time
            "task-clock": EventCount(2.5e6, 2_000_000, 2_000_000),
        },
        12: {"instructions": EventCount(7.0, 2_000_000, 2_000_000)},
    }
    figures = per_op(counts[11], 1000)
    assert figures == {"cycles": 4000.0, "instructions": 6000.0, "branch_misses": 3.0,
                       "cpu_us": 2.5, IPC: 1.5}  # fmt: skip
    assert per_op(counts[11], 0) == {}


def test_rarely_counted_events_are_withheld() -> None:
    printed = [
        line("100", "instructions", pcnt_running=80.0, event_runtime=1_600_000),
        line("100", "cycles", pcnt_running=100.0),
        line("100", "LLC-load-misses", pcnt_running=40.0, event_runtime=800_000),
        line("0", "major-faults", event_runtime=0),
        line("100", "LLC-load-misses", thread="postgres-12", pcnt_running=90.0, event_runtime=1_800_000),
    ]
    counts = perf.parse(printed)
    kept, notes = believed({"query": counts[11], "insert": counts[12]})
    assert set(kept["query"]) == {"instructions", "cycles", "major-faults"} and set(kept["insert"]) == {
        "LLC-load-misses"
    }
    assert kept["query"]["instructions"].count == 125
    assert notes[0].startswith("LLC-load-misses: withheld, counted in less than half of the time")
    assert notes[1].endswith("the least was counted in 80% of the time") and len(notes) == 2
    assert believed({"query": {"cycles": counts[11]["cycles"]}})[1] == []


def test_cores_of_two_kinds_make_one_count() -> None:
    printed = [
        line("600", "cpu_core/instructions/", pcnt_running=75.0, event_runtime=1_500_000),
        line("100", "cpu_atom/instructions/", pcnt_running=25.0, event_runtime=500_000),
        line("50", "cpu_core/LLC-load-misses/u"),
        line("<not supported>", "cpu_atom/LLC-load-misses/u"),
        line("9", "minor-faults:u"),
        line("0", "context-switches:u"),
    ]
    assert perf.parse(printed) == {
        11: {
            "instructions": EventCount(700.0, 2_000_000, 2_000_000),
            "LLC-load-misses": EventCount(50.0, 2_000_000, 2_000_000),
            "minor-faults": EventCount(9.0, 2_000_000, 2_000_000),
        }
    }


@pytest.mark.parametrize(
    "printed",
    ["# started on Mon Nov 23", "{", "[]", line("12e9", "cycles"), line("-1", "cycles"), line(12, "cycles"),
     line(None, "cycles"), line("1", "cycles", unit="Joules"), line("1", "energy-pkg"), line("1", "cycles", thread="x"),
     line("1", "cycles", pcnt_running=400.0), line("1", "cycles", event_runtime=-1), line("1", "\x1b[31m"),
     line("nan", "cycles"), "[" * 100_000],
)  # fmt: skip
def test_what_perf_does_not_print_is_refused_in_one_line(printed: str) -> None:
    with pytest.raises(UserError, match="perf stat printed unexpected output") as refused:
        perf.parse([printed])
    assert str(refused.value).isprintable() and len(str(refused.value)) < 500


@pytest.mark.slow
def test_a_missing_perf_is_a_sentence_not_a_failure() -> None:
    assert lacking("") == "there is no perf" and "No such file or directory" in lacking("/no/such/perf")
    for program, why in (("/no/such/perf", "No such file or directory"), (shutil.which("false"), "without a word")):
        assert program
        refused = StepCounters(program, lambda: {os.getpid(): "server"})
        refused.finish()
        assert why in refused.counted.note and not refused.counted.roles
        refused.close()


def test_nothing_is_counted_where_there_are_no_hardware_counters() -> None:
    counters = StepCounters("/no/such/perf", lambda: {os.getpid(): "server"}, NO_PMU)
    counters.start()
    counters.finish()
    counters.close()
    assert counters.counted == Counted(note=f"no hardware counters here: {NO_PMU}")


@pytest.fixture
def root_account() -> Account:
    return Account("root", os.geteuid(), os.getegid(), switch=False)


@pytest.fixture
def program() -> str:
    path = perf.find()
    assert path, "perf is missing: ./check installs it"
    return path


@pytest.mark.outside
def test_perf_says_what_can_be_counted_here(program: str, root_account: Account) -> None:
    there = perf.trial(program, root_account)
    assert {"task-clock", "context-switches", "minor-faults"} <= there
    assert ("cycles" in there) == ("instructions" in there)
    with pytest.raises(UserError, match="perf stat:"):
        perf.trial(sys.executable, root_account)


@pytest.mark.outside
def test_planted_faults_and_switches_show_in_their_role(program: str, server: Callable[[int | str], Server]) -> None:
    """Events of the kernel, which perf counts with and without a PMU."""
    running = server(16)
    with running.connect() as faulty, running.connect() as restless, running.connect() as monitor:
        faulty.execute("SET work_mem = '256MB'")
        backends = {faulty.info.backend_pid: "faulty", restless.info.backend_pid: "restless"}
        left_out = monitor.info.backend_pid

        def roles() -> dict[int, str]:
            role_of = server_roles(running.pid, backends, left_out)
            assert left_out not in role_of and role_of[running.pid] == "server"
            return role_of

        counters = StepCounters(program, roles)
        counters.start()
        faulty.execute("SELECT count(*) FROM (SELECT md5(x::text) m FROM generate_series(1, 200000) x ORDER BY 1) t")
        restless.execute("SELECT count(pg_sleep(0.0005)) FROM generate_series(1, 350)")
        with running.connect() as late:  # a process that was not there: counted with the server's others
            late.execute("SELECT 1")
            gone = Path(f"/proc/{late.info.backend_pid}")
        # Of children that have ended, the kernel tells what it has reaped.
        wait_for(lambda: not gone.exists(), "that process to be gone")
        counters.finish()
        counters.close()
    by_role = counters.counted.roles
    assert set(by_role) == {"faulty", "restless", "server"}, counters.counted.note
    faults = {role: counts["minor-faults"].count for role, counts in by_role.items()}
    switches = {role: counts["context-switches"].count for role, counts in by_role.items()}
    assert faults["faulty"] > 2000 and faults["faulty"] > 10 * faults["restless"], faults
    assert switches["restless"] >= 300, switches
    assert faults["server"] > 50, "the one that came later"
    assert 0 < by_role["restless"]["task-clock"].count < by_role["faulty"]["task-clock"].count
    assert all({"cpu-migrations", "major-faults"} <= counts.keys() for counts in by_role.values())
    pmu = any("instructions" in counts for counts in by_role.values())
    assert counters.counted.note == ""
    assert lacking(program) == ("" if pmu else NO_PMU)


ENGINE = """
import os, sys, time
from engine.features.counters.perf import Counting
from engine.host.procfs import children
counting = Counting(sys.argv[1], [int(sys.argv[2])])
counting.start()
print(*children(os.getpid()), flush=True)
time.sleep(60)
"""


@pytest.fixture
def sleeper() -> Iterator[int]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process.pid
        process.kill()


@pytest.mark.outside
def test_perf_ends_with_the_engine_and_reports_a_kill(program: str, sleeper: int) -> None:
    root = Path(__file__).resolve().parents[4]
    with subprocess.Popen(
        [sys.executable, "-c", ENGINE, program, str(sleeper)], stdout=subprocess.PIPE, cwd=root
    ) as engine:
        assert engine.stdout is not None
        pid = int(engine.stdout.readline())
        engine.kill()
    assert gone({pid})
    counters = StepCounters(program, lambda: {sleeper: "server"})
    (perf_pid,) = (pid for pid in children(os.getpid()) if "perf" in Path(f"/proc/{pid}/comm").read_text())
    os.kill(perf_pid, signal.SIGKILL)
    counters.start()
    assert counters.counted.note.startswith("no counters: perf stat")

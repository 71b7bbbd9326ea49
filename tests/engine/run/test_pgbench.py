"""pgbench as a workload, from its plan to the report, on real servers."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.journal.manifest import read_manifest
from engine.journal.reader import JournalReader
from engine.journal.rows import StepRow
from tests.support.benchcall import WAITING, Bench, nothing_left, stalls, wait_for

WARM_TICKS = 8
OLD, NEW = "16.3-prebuilt", "18.6-prebuilt"
PATIENCE_S = 60.0  # for the end of a step whose time is over
SMALL = ("--pgbench-scale", "1", "--warmup-seconds", "0", "--set", "shared_buffers=32MB")


def run(bench: Bench, label: str, workload: str, *words: str) -> dict[str, dict[str, Any]]:
    """A run of one cell; its steps with their totals, as the journal has them."""
    done = bench("run", "--pg", label, "--repeats", "1", "--workload", workload, *SMALL, *words, "--plain")
    assert done.returncode == 0, done.stderr + done.stdout
    with JournalReader(bench.run) as reader:
        (attempt,) = reader.attempts()
        return {step.name: {"row": step, "totals": step.totals} for step in reader.steps(attempt.id)}


def test_a_sweep_is_run_watched_and_compared(bench: Bench, label: str) -> None:
    words = ("--pg", label, "--repeats", "2", "--workload", "pgbench-select", "--clients", "1,3", "--seconds", "1")
    done = bench("run", *words, *SMALL, "--warmup-seconds", "1", "--plain")
    assert done.returncode == 0, done.stderr + done.stdout
    assert "pgbench-select scale 1 simple" in done.stdout and "tx/s" in done.stdout
    with JournalReader(bench.run) as reader:
        orders = [[step.name for step in reader.steps(attempt.id)] for attempt in reader.attempts()]
        assert orders == [["init", "select.c1", "select.c3"], ["init", "select.c3", "select.c1"]]
        totals_of = [reader.steps(attempt.id)[0].totals for attempt in reader.attempts()]
        # Each warm-up finds something; that of the first cell holds for all.
        every = totals_of[0].report["found"]["log_every"] if totals_of[0] is not None else 0
        assert len(totals_of) == 2 and every > 0 and every.bit_count() == 1
        assert {
            step.totals.report["log_every"]
            for attempt in reader.attempts()
            for step in reader.steps(attempt.id)[1:]
            if step.totals is not None
        } == {every}
        for step in reader.steps(reader.attempts()[0].id)[1:]:
            totals = step.totals
            assert totals is not None and totals.report["log_every"] == every
            role, summed = totals.roles["pgbench"], totals.report["pgbench"]
            assert 0 <= summed["processed"] - role.statements < 0.5 * summed["processed"]
            assert 1 <= totals.seconds < 1 + PATIENCE_S and (role.backend_cpu_ns or 0) > 0 and role.client_cpu_ns > 0
            roles = reader.roles(step.id)
            assert len({row.backend_pid for row in roles}) == len(roles) == role.connections
            counted = sum(second.statements for row in roles for second in reader.role_seconds(row.id))
            # Seconds are estimates, as some lines are not yet written: a block of 4 KiB of its log for each client.
            assert counted == pytest.approx(role.statements, rel=0.05, abs=len(roles) * every * 128)
    program = read_manifest(bench.run).workload["programs"]["pgbench"]
    assert program["version"].startswith("pgbench (PostgreSQL)") and len(program["digest"]) == 64
    report = bench("compare", "--all").stdout
    assert "tx/s" in report and "Response time of pgbench statements" in report


def test_writing_scripts_of_fixed_work_are_counted_one_by_one(bench: Bench, label: str) -> None:
    """Each step ends with its last client."""
    settings = "pgbench_partitions=2 fillfactor=50 unlogged=true init_steps=dtGvpf"
    options = [word for option in settings.split() for word in ("-O", option)]
    words = ("--clients", "1,3", "--transactions", "333", "--jobs", "2", "--protocol", "prepared", *options)
    steps = run(bench, label, "pgbench-tpcb", *words)
    counts = {name: step["totals"].report["pgbench"]["processed"] for name, step in steps.items() if name != "init"}
    assert counts == {"tpcb.c1": 333, "tpcb.c3": 999}
    totals = steps["tpcb.c3"]["totals"]
    pgbench_s = totals.report["pgbench"]["processed"] / totals.report["pgbench"]["tps"]
    assert 0 < totals.seconds <= pgbench_s + 0.05, "without pgbench's shutdown"
    assert totals.report["stopped_ms"] > 0
    assert 499 <= totals.roles["pgbench"].statements <= 999  # without those before the step's begin
    assert any("UPDATE pgbench_accounts" in row["statement"] for row in totals.report["statements"])
    assert "UPDATE pgbench_accounts SET abalance" in bench("compare", "--all").stdout
    with JournalReader(bench.run) as reader:
        sizes = {relation: size for relation, kind, size in reader.sizes(steps["init"]["row"].id) if kind == "heap"}
    assert sizes["pgbench_accounts_1"] > 8_000_000 and "pgbench_accounts_2" in sizes  # half full pages
    assert totals.wal_bytes < 1_000_000


def test_own_scripts_have_weights_variables_and_connections(bench: Bench, label: str, tmp_path: Path) -> None:
    one, two = tmp_path / "one.sql", tmp_path / "two.sql"
    one.write_text("SELECT :wanted;\n")
    two.write_text("\\set a random(1, 10)\nSELECT pg_sleep(0.001), :a;\n")
    words = ("--clients", "2", "--transactions", "40", "-D", "wanted=7", "--connect", "-O", "log_every=1")
    steps = run(bench, label, f"pgbench:{one}@3,{two},select-only@2", *words)
    totals = steps["script.c2"]["totals"]
    assert totals.roles["pgbench"].statements == 80
    names = [script["script"] for script in totals.report["pgbench"]["scripts"]]
    assert names == ["one.sql", "two.sql", "<builtin: select only>"]
    record = read_manifest(bench.run).workload
    weights = [(script["name"], script["weight"]) for script in record["scripts"]]
    assert weights == [("one.sql", 3), ("two.sql", 1), ("select-only", 2)]


@pytest.mark.slow
def test_bulk_loads_of_a_preset_are_timed_one_by_one(bench: Bench) -> None:
    words = ("--pg", f"{OLD},{NEW}", "--repeats", "1", "--set", "shared_buffers=32MB", "--plain")
    done = bench("run", "--preset", "copy-ring", *words, "-D", "rows=50000", "--transactions", "5")
    assert done.returncode == 0, done.stderr + done.stdout
    timed = []
    with JournalReader(bench.run) as reader:
        for attempt in reader.attempts():
            _, step = reader.steps(attempt.id)
            totals = step.totals
            assert totals is not None and totals.report["pgbench"]["processed"] == 5
            timed.append(len(totals.report["times_ms"]))
            # One that ended before the step began does not count; one that was under way then counts without its time.
            assert 4 <= totals.roles["pgbench"].statements <= 5
            assert 0 <= totals.roles["pgbench"].statements - timed[-1] <= 1
            assert sum(totals.report["times_ms"]) < totals.seconds * 1000
            assert {name for name, _, bytes in reader.sizes(step.id) if bytes > 100_000} == {"loaded"}
    record: Any = bench.comparison()
    assert [cell["transactions"]["count"] for cell in record["cells"] if cell["step"] != "init"] == timed
    assert "Time of each transaction (ms" in bench("compare", "--all").stdout
    (table,) = (section for section in record["sections"] if section["key"] == "published")
    names = [line["name"].rpartition(" ")[2] for line in table["rows"]]
    assert names == [f"{name}_ms" for name in ("mean", "median", "min", "max", "stddev")]
    nothing_left(bench)


@pytest.mark.parametrize(("text", "reported"), [("SELECT 1;\n", 0), ("\\set a 2\nSELECT 1;\nSELECT :a;\n", 3)])
def test_no_transaction_of_a_script_is_logged_as_taking_no_time(
    bench: Bench, label: str, tmp_path: Path, text: str, reported: int
) -> None:
    script = tmp_path / "quick.sql"
    script.write_text(text)
    words = ("--clients", "1", "--transactions", "8000", "-O", "log_every=1")
    totals = run(bench, label, f"pgbench:{script}", *words)["script.c1"]["totals"]
    histogram = dict(totals.roles["pgbench"].histogram)
    assert sum(histogram.values()) > 2_000 and not [us for us in histogram if us < 3]
    texts = [row["statement"] for row in totals.report.get("statements", [])]
    assert len(texts) == reported and not any("pgbed" in text for text in texts)


def test_under_a_rate_lateness_and_what_was_skipped_are_recorded(bench: Bench, label: str, tmp_path: Path) -> None:
    slow = tmp_path / "slow.sql"
    slow.write_text("SELECT pg_sleep(0.05);\n")
    words = ("--clients", "1", "--seconds", "3", "--rate", "40", "--latency-limit", "60")
    steps = run(bench, label, f"pgbench:{slow}", *words)
    role = steps["script.c1"]["totals"].roles["pgbench"]
    assert role.outcomes["skipped"] > 10 and role.response and role.late_max_ns > 50_000_000
    with JournalReader(bench.run) as reader:
        (row,) = reader.roles(steps["script.c1"]["row"].id)
        assert sum(counts.get("skipped", 0) for _, counts in reader.outcomes(row.id)) == role.outcomes["skipped"]


def test_a_hanging_pgbenchs_work_is_counted_by_its_log(bench: Bench, label: str, tmp_path: Path) -> None:
    script = tmp_path / "hangs.sql"
    script.write_text(
        "UPDATE pgbench_tellers SET tbalance = tbalance + 1 WHERE tid = 1;\n"
        "SELECT pg_sleep(CASE WHEN tbalance > 14 THEN 600 ELSE 0.1 END) FROM pgbench_tellers WHERE tid = 1;\n"
    )
    steps = run(bench, label, f"pgbench:{script}", "--clients", "1", "--seconds", "4")
    totals = steps["script.c1"]["totals"]
    assert totals.report["unended"] is True and totals.report["pgbench"] == {}
    assert 0 < totals.roles["pgbench"].statements == totals.report["log_lines"] <= 14


def test_failures_and_retries_are_recorded_by_kind(bench: Bench, label: str, tmp_path: Path) -> None:
    script = tmp_path / "clash.sql"
    script.write_text(
        "BEGIN ISOLATION LEVEL SERIALIZABLE;\nUPDATE pgbench_branches SET bbalance = bbalance + 1;\n"
        "SELECT pg_sleep(0.01);\nEND;\n"
    )
    steps = run(bench, label, f"pgbench:{script}", "--clients", "3", "--seconds", "2", "--max-tries", "2")
    outcomes = steps["script.c3"]["totals"].roles["pgbench"].outcomes
    assert outcomes["retries"] >= outcomes["retried"] > 0 and outcomes["serialization"] > 0
    assert "Outcomes of transactions" in bench("compare", "--all").stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\\set a random(1,10\n", 'e.sql:1: syntax error in command "set"'),
        ("SELECT 1;\n\\foo\n", 'e.sql:2: invalid command in command "foo"'),
        ("SELECT 1;\n\\if 1\nSELECT 1;\n", "e.sql:2: \\if without matching \\endif"),
    ],
)
def test_a_script_with_an_error_is_refused_before_anything_runs(
    bench: Bench, label: str, tmp_path: Path, text: str, message: str
) -> None:
    script = tmp_path / "e.sql"
    script.write_text(text)
    done = bench("run", "--pg", label, "--workload", f"pgbench:{script}", *SMALL)
    *_, line = done.stderr.strip().splitlines()  # before it, perhaps, that pgbench was made ready
    assert done.returncode == 2 and message in line
    assert not list(bench.out.glob("*/manifest.json"))


def test_an_error_in_a_transaction_ends_the_cell_early(bench: Bench, label: str, tmp_path: Path) -> None:
    script = tmp_path / "e.sql"
    script.write_text("SELECT 1;\n\n\\set a :nosuch + 1\n")
    done = bench("run", "--pg", label, "--repeats", "1", "--workload", f"pgbench:{script}", *SMALL, "--plain")
    assert done.returncode != 0
    (attempt,) = bench.attempts()
    assert attempt.state == "failed"
    assert attempt.reason is not None and 'e.sql:3: undefined variable "nosuch"' in attempt.reason
    assert [step.name for step in bench.steps(attempt)] == ["init"]
    nothing_left(bench)


def test_a_pgbench_that_is_too_old_or_not_there_is_refused(
    bench: Bench, label: str, new_folder: Callable[[], Path]
) -> None:
    folder = new_folder()
    old = folder / "pgbench"
    old.write_text("#!/bin/sh\necho 'pgbench (PostgreSQL) 12.11'\n")
    old.chmod(0o755)
    words = ("run", "--pg", label, "--workload", "pgbench-select", "--dry-run")
    for pgbench, more, message in (
        (str(old), ("--max-tries", "3", "-O", "init_steps=dtgvp"), "--max-tries needs the pgbench of PostgreSQL 15"),
        (str(old), ("-O", "continue_on_error=true"), "--continue-on-error needs the pgbench of PostgreSQL 19"),
        (str(folder / "none"), (), "none: no such program"),
    ):
        done = Bench(bench.out, {"PGBED_PGBENCH": pgbench})(*words, *more)
        (line,) = done.stderr.strip().splitlines()
        assert done.returncode == 2 and message in line


def warm(bench: Bench, step: StepRow) -> bool:
    with JournalReader(bench.run) as reader:
        return len(reader.role_seconds(reader.roles(step.id)[0].id)) >= WARM_TICKS


def test_a_stall_is_seen_and_explained_and_stop_leaves_nothing(bench: Bench, label: str, tmp_path: Path) -> None:
    script = tmp_path / "waits.sql"
    script.write_text("SELECT pg_sleep(0.004);\n")  # it has to go on, not to be fast
    words = ("--repeats", "1", "--workload", f"pgbench:{script}", "--clients", "2", "--seconds", "600", *SMALL)
    bench.detached("--pg", label, *words)
    step = bench.await_step("script.c2")
    wait_for(lambda: warm(bench, step), "some seconds of the step")
    assert "tx/s" in bench("watch", "--once").stdout

    def explained(ended: bool) -> bool:
        """Whether a stall is put down to it; a busy machine may have others, also before."""
        causes = [stall.data["causes"] for stall in stalls(bench, step, "pgbench") if bool(stall.ended_ns) == ended]
        return "stopped" in [cause["name"] for of_one in causes for cause in of_one]

    backend = bench.backend(step, "pgbench")
    os.kill(backend, signal.SIGSTOP)
    try:
        wait_for(lambda: explained(ended=False), "the stall to be explained")
        assert "STALL pgbench" in bench("watch", "--once").stdout
    finally:
        os.kill(backend, signal.SIGCONT)
    wait_for(lambda: explained(ended=True), "its end")
    assert bench("stop").returncode == 0
    bench.await_end()
    nothing_left(bench)


def test_a_dead_process_ends_its_cell_with_a_reason(bench: Bench, label: str) -> None:
    words = ("--repeats", "3", "--workload", "pgbench-tpcb", "--clients", "2", "--seconds", "600", *SMALL, *WAITING)
    bench.detached("--pg", label, *words)
    os.kill(bench.client(bench.await_step("tpcb.c2"), "pgbench"), signal.SIGKILL)
    os.kill(bench.backend(bench.await_step("tpcb.c2", cell=2), "pgbench"), signal.SIGTERM)
    bench.await_step("tpcb.c2", cell=3)
    client, backend, _ = bench.attempts()
    assert client.state == backend.state == "failed" and client.reason is not None and backend.reason is not None
    assert "pgbench ended: signal 9" in client.reason
    # A client may find its connection closed before it has read why.
    assert re.search("terminating connection due to|aborted|backend died", backend.reason), backend.reason
    (link,) = bench.run.glob("cells/003*/socket")
    folder = link.readlink()
    assert list(folder.glob("*/log.*"))
    os.kill(bench.engine_pid(), signal.SIGKILL)
    nothing_left(bench)
    assert not folder.exists()


def test_a_record_of_another_program_or_script_is_refused(
    bench: Bench, label: str, new_folder: Callable[[], Path]
) -> None:
    script = new_folder() / "one.sql"
    script.write_text("SELECT 1;")
    words = ("--repeats", "1", "--workload", f"pgbench:{script}", "--clients", "1", "--seconds", "600", *SMALL)
    bench.planned("--pg", label, *words)
    script.write_text("SELECT 2;")
    done = bench("resume")
    *_, line = done.stderr.strip().splitlines()  # before it, perhaps, that pgbench was made ready
    assert done.returncode == 2 and "script 'one.sql' has changed since the run began" in line, done.stderr

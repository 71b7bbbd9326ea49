"""Several loads on one real server at once, and what one of them costs the other, as a comparison."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.core.model import Build
from engine.journal.manifest import read_manifest
from engine.journal.reader import JournalReader
from tests.support.benchcall import SMALL, STALL_END_S, Bench, nothing_left, wait_for

READER = "pgbench-select"
VARIANTS = ("insert", f"insert+{READER}")
PATIENCE_S = 60.0  # for the end of a step whose time is over
FURTHER = ("--with", "pgbench_scale=1", "--with", "warmup_seconds=0")


@pytest.fixture(scope="module")
def compared(new_folder: Callable[[], Path], build: Callable[[int | str], Build]) -> Bench:
    """A run of two cells: inserts alone, and with two readers beside them."""
    bench = Bench(new_folder() / "runs")
    words = ("--steps", "l.i1,qr100", "--repeats", "1", "--with", "clients=2", *FURTHER, *SMALL)
    done = bench("--pg", build(16).label, "--variants", ",".join(VARIANTS), *words, "--query-seconds", "3", "--plain")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{build(16).label} {VARIANTS[1]} r1" in done.stdout
    return bench


def test_the_reader_is_beside_the_measured_steps_of_its_own_cells(compared: Bench) -> None:
    with JournalReader(compared.run) as reader:
        assert [cell.subject.workload for cell in reader.manifest.cells] == list(VARIANTS)
        # A guest is given the programs of the run, and looks for them in the first workload.
        assert all("pgbench" in own["programs"] for own in reader.manifest.workloads)
        alone, both = ({step.name: step for step in reader.steps(attempt.id)} for attempt in reader.attempts())
        assert list(alone) == ["l.i0", "l.x", "l.i1", "qr100"]
        assert list(both) == [f"init.{READER}", *alone]
        for name in ("l.i1", "qr100"):
            totals, of_base = both[name].totals, alone[name].totals
            assert totals is not None and of_base is not None
            assert set(totals.roles) == {*of_base.roles, READER} and totals.background == {READER: "tx/s"}
            role = totals.roles[READER]
            assert role.connections == 2 and (role.backend_cpu_ns or 0) > 0 and role.client_cpu_ns > 0
            # Counted while the step lasted, of what pgbench itself says it did in all; the log has one of 16.
            (own,) = totals.report["background"].values()
            assert own["log_every"] == 16 and 0 < role.statements <= own["pgbench"]["processed"] + 32
            rows = [row for row in reader.roles(both[name].id) if row.name == READER]
            assert len({row.backend_pid for row in rows}) == 2
            assert abs(totals.roles["insert"].rows - of_base.roles["insert"].rows) <= 100
        qr100 = both["qr100"].totals
        assert qr100 is not None and 3 <= qr100.seconds < 3 + PATIENCE_S
        # Its tables are its own: what is measured of the first load's does not change.
        sizes = {relation for relation, _, _ in reader.sizes(both["qr100"].id)}
        assert "pi1" in sizes and not any(relation.startswith("pgbench") for relation in sizes)


def test_the_comparison_says_what_the_reader_costs(compared: Bench) -> None:
    found: dict[str, Any] = compared.comparison()
    assert found["base"] == "insert" and [subject["workload"] for subject in found["subjects"]] == list(VARIANTS)
    assert {ratio["workload"] for ratio in found["ratios"]} == {VARIANTS[1]}
    assert {ratio["step"] for ratio in found["ratios"] if ratio["metric"] == "rate_per_s"} >= {"l.i1", "qr100"}
    (cell,) = (c for c in found["cells"] if c["step"] == "qr100" and c["workload"] == VARIANTS[1])
    assert cell["background"][READER]["rate_per_s"] > 100 and cell["background"][READER]["p99_us"] > 0
    # All server CPU but that of the reader's backends is the first load's.
    with JournalReader(compared.run) as reader:
        totals = {step.name: step.totals for step in reader.steps(reader.attempts()[1].id)}["qr100"]
    assert totals is not None and totals.server_cpu_ns is not None
    own_s = cell["server_cpu_us_per_op"] * cell["ops"] / 1e6
    assert own_s + cell["roles"][READER]["cpu_s"] == pytest.approx(totals.server_cpu_ns / 1e9)
    assert own_s > cell["roles"]["query"]["cpu_s"] > 0
    told = compared("compare").stdout
    assert "Background workloads" in told and f"{READER} tx/s" in told and f"{READER} p99 us" in told
    assert f"backends and clients of {READER} are left out" in " ".join(told.split())
    (listed,) = json.loads(compared("list", "runs", "--json").stdout)
    assert listed["workload"] == ", ".join(VARIANTS)


def test_a_lock_of_the_other_load_is_named_as_the_cause_of_a_stall(bench: Bench, label: str, tmp_path: Path) -> None:
    script = tmp_path / "locks.sql"
    script.write_text(
        "SELECT pg_sleep(11);\nBEGIN;\nLOCK TABLE public.pgbench_branches IN ACCESS EXCLUSIVE MODE;\n"
        "SELECT pg_sleep(5);\nEND;\n"
    )
    words = ("--clients", "1", "--rate", "40", "--seconds", "600", "--pgbench-scale", "1", "--warmup-seconds", "0")
    small = ("--repeats", "1", "--set", "shared_buffers=32MB", *FURTHER)
    bench.detached("--pg", label, "--workload", f"pgbench-tpcb+pgbench:{script}", *words, *small)
    step = bench.await_step("tpcb.c1")

    def blamed() -> list[str]:
        with JournalReader(bench.run) as reader:
            stalls = [event for event in reader.events(step.id) if event.kind == "stall" and event.role == "pgbench"]
        causes = [cause["text"] for stall in stalls for cause in stall.data["causes"] if cause["name"] == "lock"]
        return [text for text in causes if "pgbench-beside role" in text]

    wait_for(blamed, "a stall whose cause is the other load's lock", STALL_END_S)
    live = json.loads(bench("watch", "--json").stdout)
    assert {role["name"] for role in live["roles"]} == {"pgbench", "pgbench-beside"}
    assert bench("stop").returncode == 0
    bench.await_end()
    nothing_left(bench)
    assert [part["name"] for part in read_manifest(bench.run).workload["parts"]] == ["pgbench-tpcb", "pgbench"]


def test_the_end_of_one_load_ends_the_cell_with_its_reason(bench: Bench, label: str, tmp_path: Path) -> None:
    script = tmp_path / "wrong.sql"
    script.write_text("SELECT 1;\nSELECT * FROM nowhere;\n")
    words = ("--steps", "l.i1", "--repeats", "1", *FURTHER, *SMALL, "--plain")
    done = bench("run", "--pg", label, "--workload", f"insert+pgbench:{script}", *words)
    assert done.returncode == 1
    (attempt,) = bench.attempts()
    assert attempt.state == "failed"
    assert attempt.reason is not None and 'wrong.sql:2: ERROR: relation "nowhere" does not exist' in attempt.reason
    script.write_text("SELECT 1;\n\nSELEC 2;\n")  # which nobody has to wait for
    done = bench("run", "--pg", label, "--workload", f"insert+pgbench:{script}", *words)
    (attempt,) = bench.attempts()
    assert done.returncode == 1 and attempt.reason is not None
    assert 'wrong.sql:3: ERROR: syntax error at or near "SELEC"' in attempt.reason
    assert [step.name for step in bench.steps(attempt)] == ["init.pgbench"]
    nothing_left(bench)

"""Runs that count events: by role and operation, from the server to the tables; and runs that cannot use perf."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from engine.analysis.answer.compare import compare
from engine.core.errors import UserError
from engine.core.model import Build, Cell
from engine.core.perf_events import IPC, EventCount
from engine.features.counters import FEATURE, Options, perf
from engine.features.counters.step_counters import lacking
from engine.journal.totals import StepTotals, ops
from engine.plan import external_servers
from engine.plan.prepare import Draft
from engine.plan.request import request_of
from engine.results.ratio import INSTRUCTIONS
from engine.results.section import Notes, drawn
from tests.support.benchcall import LONG, Bench, nothing_left, processes_of, wait_for
from tests.support.journal import make_run

SLICED = ("--rows", "2000", "--query-seconds", "1", "--set", "shared_buffers=32MB", "--steps", "qr100", "--repeats",
          "1", "--interleave", "slices")  # fmt: skip


def with_pmu(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
    """Counts of a machine with a PMU; of 17.0 a twentieth more instructions in the first role."""
    if step == "l.x":
        return replace(totals, counters_note="no counters: perf stat: Access denied")
    first = next(iter(totals.roles))
    count = ops({"l.i0": "load", "l.i1": "write"}.get(step, "query"), totals)
    more = 1.05 + 0.0005 * cell.repeat if cell.subject.build == "17.0" else 1.0
    counts = {name: EventCount(per_op * count, 2000, 1000) for name, per_op in
           (("instructions", 40_000.0 * more), ("cycles", 20_000.0), ("task-clock", 9000.0))}  # fmt: skip
    others = {"instructions": EventCount(10_000.0 * count, 10, 10), "minor-faults": EventCount(0.5 * count, 10, 10)}
    return replace(totals, counters={first: counts, "server": others}, observers=("counters",))


def test_instructions_per_operation_are_judged_and_shown_by_role(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", repeats=5, change=with_pmu)
    comparison = compare([path])
    ratios = {ratio.step: ratio for ratio in comparison.ratios if ratio.metric == INSTRUCTIONS}
    assert set(ratios) == {"l.i0", "l.i1", "qr100"}
    assert all(ratio.verdict == "slower" and 1.03 < (ratio.ratio or 0) < 1.05 for ratio in ratios.values())
    cell = next(cell for cell in comparison.cells if cell.step == "qr100" and cell.subject == "16.3")
    assert cell.instructions_per_op == pytest.approx(50_000)
    first = cell.counters["insert"]
    assert first == pytest.approx({"instructions": 40_000, "cycles": 20_000, "cpu_us": 9.0, IPC: 2.0})
    (table,) = drawn(FEATURE.sections(comparison), Notes())
    rows = [cells for cells, _ in table.rows]
    of_step = rows[rows.index(("qr100",)) :]
    assert of_step[1] == ("  16.3 insert", "40,000", "20,000", "2.00", "9.00", "-")
    assert of_step[2] == ("  16.3 server", "10,000", "-", "-", "-", "0.500")
    assert of_step[5][0] == "    all of them / base" and "1.04" in of_step[5][1]
    assert ("  16.3 nothing (1)", *"-----") in rows
    assert table.notes == ["(1) no counters: perf stat: Access denied"]


def test_a_run_without_perf_says_so_and_goes_on(
    bench: Bench, label: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(perf.VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    draft = Draft(request_of({"builds": [label]}), tmp_path, print)
    (notice,) = FEATURE.prepare(draft, Options(counters="auto"))
    assert notice.startswith("no hardware counters here: no perf on PATH: install it (Debian: linux-perf), or set perf")
    with pytest.raises(UserError, match="--counters hardware: no perf on PATH"):
        next(FEATURE.prepare(draft, Options(counters="hardware")))
    with pytest.raises(UserError, match="--counters hardware: not with --kernel"):
        FEATURE.check(request_of({"kernels": ["6.12"]}), Options(counters="hardware"))
    external_servers.check(request_of({"builds": ["a=host=/x"], "counters": "auto"}))
    with pytest.raises(UserError, match="--counters cannot be used with a=…, an external server: its processes"):
        external_servers.check(request_of({"builds": ["a=host=/x"], "counters": "hardware"}))


@pytest.fixture
def with_perf(bench: Bench, tmp_path: Path) -> str:
    """Lets runs count by perf on any machine: the machine's own perf, which says at its trial that there is a PMU."""
    path, script = perf.find(), tmp_path / "perf"
    assert path, "perf is missing: ./check installs it"
    trial = f"""{path} "$@" 2>&1 | sed 's/"<not supported>"/"1.0"/; s/"event-runtime" : 0/"event-runtime" : 9/' >&2"""
    script.write_text(f'#!/bin/sh\ncase "$*" in (*"-- true") {trial};; (*) exec {path} "$@";; esac\n')
    script.chmod(0o755)
    bench.environment[perf.VARIABLE] = str(script)
    return str(script)


@pytest.mark.outside
def test_a_run_in_slices_counts_what_each_server_does_in_its_own(
    bench: Bench, build: Callable[[int | str], Build], tmp_path: Path, with_perf: str
) -> None:
    """Events of the kernel, which perf counts with and without a PMU."""
    assert not lacking(with_perf)
    servers = f"old={build(14).prefix},new={build(16).prefix}"
    done = bench("--pg", servers, *SLICED, "--counters", "auto")
    assert done.returncode == 0, done.stdout + done.stderr
    comparison = compare([bench.run])
    cells = {cell.subject: cell for cell in comparison.cells if cell.step == "qr100"}
    for cell in cells.values():
        assert set(cell.counters) == {"insert", "delete", "query", "server"}
        of_roles = {role: figures["cpu_us"] for role, figures in cell.counters.items()}
        assert cell.server_cpu_us_per_op is not None
        assert 0.5 < sum(of_roles.values()) / cell.server_cpu_us_per_op < 1.5, "of the same time"
        assert of_roles["query"] == max(of_roles.values())
        known = cell.roles["query"]["cpu_us_per_op"]
        assert known is not None and 0.5 < of_roles["query"] / known < 1.5
        assert cell.counters["query"]["context_switches"] > 0
        assert cell.counters_notes == () and "counters" in cell.observers
        assert (cell.instructions_per_op is not None) == ("instructions" in cell.counters["query"])
    assert "Counted per operation" in bench("compare", "--all").stdout
    with closing(sqlite3.connect(bench.run / "journal.db")) as journal:
        rows = journal.execute("SELECT step, role, running_s <= enabled_s FROM counters").fetchall()
    assert {("qr100", "query", 1), ("qr100", "server", 1)} <= set(rows) and all(within for *_, within in rows)


@pytest.mark.outside
def test_a_run_without_hardware_counters_is_compared_and_says_so(bench: Bench, label: str) -> None:
    bench.environment[perf.VARIABLE] = "/no/such/perf"
    done = bench("--pg", label, "--rows", "2000", "--query-seconds", "1", "--set", "shared_buffers=32MB", "--steps",
                 "qr100", "--repeats", "1", "--counters", "auto")  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    cell = next(cell for cell in compare([bench.run]).cells if cell.step == "qr100")
    assert not cell.counters and "counters" not in cell.observers
    assert cell.counters_notes == ("no hardware counters here: there is no perf",)
    assert "no hardware counters here" in bench("compare", "--all").stdout


@pytest.mark.outside
def test_no_perf_outlives_a_killed_engine(bench: Bench, label: str, with_perf: str) -> None:
    assert not lacking(with_perf)
    bench.detached("--pg", label, "--repeats", "1", "--counters", "auto", *LONG)
    step = bench.await_step("l.i1")
    backend = bench.backend(step, "insert")

    def counting_it() -> list[int]:
        pids = []
        for entry in Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            except OSError:
                continue
            if b"--per-thread" in words and str(backend).encode() in words[words.index(b"-p") + 1].split(b","):
                pids.append(int(entry.name))
        return pids

    assert len(counting_it()) == 1
    os.kill(bench.engine_pid(), signal.SIGKILL)
    wait_for(lambda: not counting_it(), "perf to go")
    nothing_left(bench)
    assert not list(processes_of(bench.out))

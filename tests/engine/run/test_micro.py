"""One-shot timings on real servers, from the plan to the report; and that nothing outlives them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.analysis.answer.compare import compare
from engine.core.model import Build
from engine.journal.manifest import read_manifest
from engine.journal.reader import JournalReader
from engine.journal.totals import StepTotals
from engine.view.player import Player
from tests.support.attributions import attributions_of
from tests.support.benchcall import Bench, children_of, nothing_left, processes_of, wait_for
from tui.live import text as live

OLD, NEW = 12, 17
SMALL = ("--pgbench-scale", "1", "-O", "table_rows=100000", "-O", "recovery_wal=1", "-O", "dump_tables=2",
         "-O", "plans=20", "-O", "no_sync=true", "--set", "shared_buffers=32MB",
         "--set", "full_page_writes=off")  # WAL of a step is then the same wherever a checkpoint falls  # fmt: skip
OF_BOTH = ["initdb.libc", "start", "recovery", "init", "index", "vacuum", "dump", "plan"]
APART = {"initdb.libc", "initdb.icu", "initdb.builtin", "start", "recovery"}


@pytest.fixture(scope="module")
def labels(build: Callable[[int | str], Build]) -> tuple[str, str]:
    return build(OLD).label, build(NEW).label


@pytest.fixture(scope="module")
def measured(new_folder: Callable[[], Path], labels: tuple[str, str]) -> Iterator[tuple[Bench, str]]:
    """A run of all tasks on an old and a new server, once each, and its output."""
    bench = Bench(new_folder() / "runs")
    done = bench("run", "--pg", ",".join(labels), "--repeats", "1", "--workload", "micro", *SMALL, "--plain")
    assert done.returncode == 0, done.stderr + done.stdout + str([attempt.reason for attempt in bench.attempts()])
    yield bench, done.stdout
    bench.stop()


def totals_of(bench: Bench) -> list[dict[str, StepTotals]]:
    """The steps of each cell."""
    steps = []
    for attempt in bench.attempts():
        assert attempt.state == "finished", attempt.reason
        steps.append({step.name: step.totals for step in bench.steps(attempt) if step.totals is not None})
    return steps


def test_each_build_does_what_it_has_and_what_it_lacks_is_said(
    measured: tuple[Bench, str], labels: tuple[str, str]
) -> None:
    bench, output = measured
    old, new = totals_of(bench)
    assert list(old) == OF_BOTH
    assert [step for step in new if step not in ("initdb.icu", "initdb.builtin")] == OF_BOTH and "initdb.builtin" in new
    sentence = f"left out: step initdb.builtin: {labels[0]}: the builtin locale provider came with PostgreSQL 17"
    assert sentence in output and sentence in " ".join(bench("compare", "--all").stdout.split())
    assert "cells: one-shot timings cannot be interleaved" in output
    assert read_manifest(bench.run).workload["lacking"][labels[0]].keys() == {"initdb.icu", "initdb.builtin"}


def test_a_time_is_taken_apart_into_what_is_known_of_it(measured: tuple[Bench, str]) -> None:
    comparison = compare([measured[0].run])
    parts = attributions_of(measured[0].run)
    assert set(parts) >= {"index", "vacuum", "initdb.libc"} and parts["index"].reason == "one pair"
    for step, one in parts.items():
        cells = [cell.time_s for cell in comparison.cells if cell.step == step]
        assert sorted((one.base_us, one.us)) == pytest.approx(sorted(1e6 * time for time in cells if time is not None))
        assert sum(part.us for part in one.parts) == pytest.approx(one.us)
        names = [part.name for part in one.parts]
        assert names == ["server_cpu", "rest"] if step in APART else ["server_cpu", "server_runq", "client_cpu", "rest"]
        assert one.parts[0].us > 0


def test_hyperfines_result_is_kept_with_times_of_programs(measured: tuple[Bench, str]) -> None:
    bench, _ = measured
    for steps in totals_of(bench):
        for name, totals in steps.items():
            assert totals.apart == (name in APART)
            if name == "plan":
                role = totals.roles["plan"]
                assert role.statements == 20 and 0 < role.service_ns < 20 * 1e9 and (role.backend_cpu_ns or 0) > 0
                continue
            role, timing = totals.roles["task"], totals.report["timing"]
            ((result,),) = (result["results"] for result in totals.report["hyperfine"])
            assert role.statements == 1 and 0 < role.service_ns < 120e9 and "command" in result
            assert timing["user_s"] >= 0 and 0 < timing["floor_s"] < 10
            assert (timing["server_cpu_s"] or 0) > (0 if name in APART else -1)
            assert totals.seconds >= role.service_ns / 1e9 - 0.05
        replayed = steps["recovery"].report["work"]["WAL bytes to replay"]
        assert 1 << 20 <= replayed < 1.2 * (1 << 20)
        wal = {name: totals.wal_bytes or 0 for name, totals in steps.items()}
        assert wal["init"] > 1_000_000 and wal["index"] > 0 and wal["vacuum"] > 0
        assert (steps["init"].server_cpu_ns or 0) > 0


def test_it_is_told_as_times(measured: tuple[Bench, str], labels: tuple[str, str]) -> None:
    bench, output = measured
    assert "Time (mean of cells" in output and "Throughput" not in output and "micro 1 MB of WAL, scale 1" in output
    output = bench("compare", "--all").stdout
    assert "Times of programs" in output and "recovery" in output
    comparison: Any = bench.comparison()
    cells = {(cell["build"], cell["step"]): cell for cell in comparison["cells"]}
    assert comparison["units"] == dict.fromkeys(["initdb.libc", *comparison["units"]], "s")
    assert all(cell["rate_per_s"] is None and cell["time_s"] > 0 for cell in cells.values())
    initdb = cells[labels[1], "initdb.libc"]
    assert initdb["server_cpu_us_per_op"] == pytest.approx(1e6 * (initdb["user_s"] + initdb["system_s"]))
    assert initdb["wal_bytes_per_op"] is None and cells[labels[1], "index"]["wal_bytes_per_op"] > 0
    ratios = {(row["step"], row["metric"]) for row in comparison["ratios"]}
    assert ("start", "time_s") in ratios and ("initdb.builtin", "time_s") not in ratios
    with Player(bench.run) as player:
        view = player.look()
        assert view.timed and view.time_s is not None and view.rate_per_s is None and view.relative is None
        said = "".join(text for text, _ in live.rates(view, view.primary_role, ""))
        assert said.startswith(" time ") and said.rstrip().endswith(("ms", "us", " s"))


def test_runs_of_a_cell_are_one_sample(
    new_folder: Callable[[], Path], labels: tuple[str, str], measured: tuple[Bench, str]
) -> None:
    once = totals_of(measured[0])[1]
    bench = Bench(new_folder() / "runs")
    words = ("--pg", labels[1], "--repeats", "1", "--workload", "micro", "--tasks", "start,init,index,vacuum")
    done = bench("run", *words, "-O", "runs=2", *SMALL, "--plain")
    assert done.returncode == 0, done.stderr + done.stdout + str([attempt.reason for attempt in bench.attempts()])
    (steps,) = totals_of(bench)
    for name, totals in steps.items():
        role, timing = totals.roles["task"], totals.report["timing"]
        assert role.statements == len(timing["times_s"]) == len(totals.report["hyperfine"]) == 2
        assert sum(timing["times_s"]) == pytest.approx(role.service_ns / 1e9, abs=1e-6)
        if name != "start":  # all of the preparation was done before, so WAL is that of two runs
            assert (totals.wal_bytes or 0) < 2.5 * (once[name].wal_bytes or 0)
    comparison: Any = bench.comparison()
    (cell,) = (cell for cell in comparison["cells"] if cell["step"] == "start")
    assert cell["ops"] == 2 and cell["time_s"] == pytest.approx(sum(cell["times_s"]) / 2)
    assert "fastest" in bench("compare", "--all").stdout
    nothing_left(bench)
    with JournalReader(bench.run) as reader:
        assert not [event for event in reader.events() if event.kind in ("stall", "server_error")]


def test_a_kill_on_purpose_is_not_a_stall_or_an_error(measured: tuple[Bench, str]) -> None:
    bench, _ = measured
    nothing_left(bench)
    assert not list(bench.run.glob("cells/*/clusters"))
    with JournalReader(bench.run) as reader:
        assert not [event for event in reader.events() if event.kind in ("stall", "server_error")]


def test_a_launcher_or_engine_that_is_killed_leaves_nothing(bench: Bench, labels: tuple[str, str]) -> None:
    words = ("--pg", labels[1], "--workload", "micro", "--tasks", "recovery", "--repeats", "2")
    bench.detached(*words, *SMALL, "-O", "recovery_wal=2000")

    def own_servers() -> dict[int, str]:
        return {
            pid: line for pid, line in processes_of(bench.out) if "clusters/recovery" in line and "postgres -D" in line
        }

    wait_for(own_servers, "a server of the task's own")
    os.kill(launcher(bench), signal.SIGKILL)
    wait_for(lambda: len(bench.attempts()) == 2, "the next cell")
    failed = bench.attempts()[0]
    assert failed.state == "failed" and "the client launcher ended with exit code -9" in (failed.reason or "")
    assert not list(bench.run.glob("cells/001-*/clusters")) and not list(bench.run.glob("cells/001-*/data"))
    wait_for(own_servers, "a server of the task's own")
    os.kill(bench.engine_pid(), signal.SIGKILL)
    nothing_left_of_all(bench)


def launcher(bench: Bench) -> int:
    """The one that runs."""
    return children_of(bench.engine_pid(), b"micro.launch")[0]


def test_statements_run_in_slices_by_themselves(bench: Bench, labels: tuple[str, str]) -> None:
    words = ("--workload", "micro", "--tasks", "index,vacuum", "-O", "table_rows=60000", "--slice-ms", "20")
    done = bench("run", "--pg", ",".join(labels), *words, "--repeats", "1", "--set", "shared_buffers=32MB", "--plain")
    assert done.returncode == 0, done.stderr + done.stdout
    nothing_left(bench)
    compared = bench.comparison()
    assert compared["design"] == "slices of 20 ms"
    for cell in compared["cells"]:  # type: ignore[attr-defined]
        assert len(cell["times_s"]) == 4 and cell["slices"] > 0 and cell["user_s"] is None
        assert cell["time_s"] == pytest.approx(sum(cell["times_s"]) / 4)
    assert bench.bound("index") == [1, 1], "the servers have the same CPU"
    (ratio,) = (ratio for ratio in bench.ratios() if (ratio["step"], ratio["metric"]) == ("index", "time_s"))
    old, new = (cell["times_s"] for cell in compared["cells"] if cell["step"] == "index")  # type: ignore[attr-defined]
    assert ratio["ratio"] == pytest.approx(sum(new) / sum(old))


def nothing_left_of_all(bench: Bench) -> None:
    wait_for(lambda: not bench.descendants(), "all processes to go")
    wait_for(lambda: not list(bench.run.glob("cells/*/clusters")), "the clusters to go")
    wait_for(lambda: not list(bench.run.glob("cells/*/data")), "the cell's cluster to go")


@pytest.mark.parametrize(
    ("words", "environment", "message"),
    [
        (("--tasks", "start,initdb.builtin"), {}, "step initdb.builtin: "),
        (("--tasks", "start"), {"PGBED_HYPERFINE": "/none"}, "/none: no such program"),
        (("--tasks", "dump"), {"PGBED_PG_DUMP": "/none"}, "step dump: "),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    bench: Bench, labels: tuple[str, str], words: tuple[str, ...], environment: dict[str, str], message: str
) -> None:
    done = Bench(bench.out, environment)("run", "--pg", labels[0], "--workload", "micro", *words, "--dry-run")
    *_, line = done.stderr.splitlines()  # below the progress of a slow machine
    assert done.returncode == 2 and message in line


def test_without_a_pg_dump_its_task_is_left_out_and_named(bench: Bench, labels: tuple[str, str]) -> None:
    words = ("--pg", labels[1], "--workload", "micro", "--dry-run")
    done = Bench(bench.out, {"PGBED_PG_DUMP": "/none"})("run", *words)
    assert done.returncode == 0, done.stderr
    assert f"left out: step dump: {labels[1]}: /none: no such program" in done.stdout
    first = done.stdout.splitlines()[0]
    assert (
        first.startswith("micro 128 MB of WAL, scale 10, 500,000 rows, 1 client: initdb.libc") and " dump" not in first
    )
    assert "of disk in" in done.stdout and "cells of about" in done.stdout

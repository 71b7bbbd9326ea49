"""pgbench in slices: servers side by side, their clients and backends stopped in turns, on real servers."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest

from engine.core.model import Build
from engine.journal.reader import JournalReader
from engine.journal.rows import StepRow
from tests.support.benchcall import WAITING, Bench, conductor_of, nothing_left, stopped, wait_for

SMALL = ("--pgbench-scale", "1", "--set", "shared_buffers=32MB", "--repeats", "1")
CLIENTS = 3
LATE_NS = 200e6  # by which a launcher may see a step's end too late, on a machine that does other things


@pytest.fixture(scope="module")
def pair(build: Callable[[int | str], Build]) -> str:
    return f"{build(14).label},{build(16).label}"


@pytest.fixture(scope="module")
def done(new_folder: Callable[[], Path], pair: str) -> Iterator[Bench]:
    """A run of two builds, as it is without a word about slices."""
    bench = Bench(new_folder() / "runs")
    read, script = (bench.out.parent / name for name in ("read.sql", "two.sql"))
    read.write_text("\\set aid random(1, 100000)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n")
    script.write_text("SELECT count(*) FROM generate_series(1, 100000);\nSELECT 1;\n")
    load = f"pgbench:{read}@99,{script}"
    # Of few logged transactions none may have been in flight at a stop.
    words = ("--workload", load, "--clients", "3", "--jobs", "2", "--seconds", "2", "-O", "log_every=4", *SMALL)
    finished = bench("run", "--pg", pair, *words, "--warmup-seconds", "1", "--plain")
    assert finished.returncode == 0, finished.stderr + finished.stdout
    assert "slices: 2 servers fit side by side, 1 of 2 steps can be sliced" in finished.stdout
    assert "tx/s" in finished.stdout
    yield bench
    bench.stop()


def steps(bench: Bench, name: str) -> list[StepRow]:
    """The step of that name of each cell."""
    with JournalReader(bench.run) as reader:
        attempts = reader.attempts()
        return [step for attempt in attempts for step in reader.steps(attempt.id) if step.name == name]


def client_states(bench: Bench) -> list[str]:
    """The states of the pgbenchs that still are, of all steps of the newest run."""
    with JournalReader(bench.run) as reader:
        all_steps = [step for attempt in reader.attempts() for step in reader.steps(attempt.id)]
        pids = {row.client_pid for step in all_steps for row in reader.roles(step.id) if row.name == "pgbench"}
    states = []
    for pid in pids:
        with suppress(OSError):
            if b"pgbench" in Path(f"/proc/{pid}/cmdline").read_bytes():
                states.append(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0])
    return states


def test_what_was_done_in_each_slice_is_known_of_whole_blocks(done: Bench) -> None:
    nothing_left(done)
    assert not client_states(done)
    both = steps(done, "script.c3")
    with JournalReader(done.run) as reader:
        sides = [reader.slices(step.id) for step in both]
    assert len(sides[0]) == len(sides[1]) >= 20
    rows = sorted((*sides[0], *sides[1]), key=lambda row: row.opened_ns)
    for earlier, later in pairwise(rows):
        assert later.opened_ns >= earlier.counted_from_ns + earlier.counted_ns, "one ran while the other did"
    for step, slices in zip(both, sides, strict=True):
        totals = step.totals
        assert totals is not None
        role = totals.roles["pgbench"]
        counted, active_ns = sum(row.ops for row in slices), sum(row.counted_ns for row in slices)
        assert all(row.ops == row.cpu_ops and row.stopped > CLIENTS for row in slices)
        assert 0 < counted <= role.statements and active_ns < totals.seconds * 1e9
        # Slices are reported to the last, but for the first block and one that was begun.
        assert active_ns > totals.seconds * 1e9 - 5 * 1.2 * 50e6 - LATE_NS
        assert counted / active_ns * 1e9 == pytest.approx(role.statements / totals.seconds, rel=0.15)
        assert totals.wall_seconds > 1.5 * totals.seconds
        # As many were in flight at each stop as there are clients; of one in so many a line is in the log.
        stops, every = len(slices) + 4, totals.report["log_every"]
        assert 0 < role.outcomes["dropped"] <= 2 * CLIENTS * stops + 20 * every
        assert totals.report["pgbench"]["processed"] >= role.statements


def test_statements_have_times_without_stops_and_their_error(done: Bench) -> None:
    for step in steps(done, "script.c3"):
        totals = step.totals
        assert totals is not None
        statements, scripts = totals.report["statements"], totals.report["pgbench"]["scripts"]
        assert [row["script"] for row in statements if "SELECT" in row["statement"]] == [1, 2, 2]
        spent_ms = sum(row["mean_ms"] * scripts[row["script"] - 1]["transactions"] for row in statements)
        assert spent_ms / CLIENTS == pytest.approx(1000 * totals.seconds, rel=0.25)
        by_clock_ms = sum(row["clock_ms"] * scripts[row["script"] - 1]["transactions"] for row in statements)
        assert by_clock_ms / CLIENTS > 1000 * totals.wall_seconds * 0.9
        _, counted, one = (row for row in statements if "SELECT" in row["statement"])
        assert counted["mean_ms"] > one["mean_ms"] and counted["error_ms"] > 0
    assert "Time of each statement" in done("compare", "--all").stdout


def test_comparison_and_blocks_have_it(done: Bench) -> None:
    text = done("compare", "--all").stdout
    mark = re.search(r"dropped (\(\d\))", text)  # on a busy machine there are other remarks before it
    assert "interleaved in slices of 50 ms" in text and mark and f"{mark.group(1)} dropped: in flight when" in text, (
        text
    )
    rates = [ratio for ratio in done.ratios() if ratio["metric"] == "rate_per_s"]
    assert {ratio["step"] for ratio in rates} == {"script.c3"}
    assert all(0.2 < ratio["ratio"] < 5 for ratio in rates if ratio["ratio"] is not None)
    blocks = json.loads(done("compare", "--slices", "script.c3", "--json").stdout)
    (pair,) = blocks["pairs"]
    assert blocks["unit"] == "tx/s" and len(pair["blocks"]) >= 10
    assert all(sorted(block["order"]) == ["A", "A", "B", "B"] for block in pair["blocks"])
    assert all(block["base"]["rate_per_s"] is not None for block in pair["blocks"])
    assert "tx/s" in done("compare", "--slices", "script.c3").stdout


@pytest.mark.parametrize("victim", ["both", "client"])
def test_whatever_dies_nothing_stays_stopped_or_behind(bench: Bench, pair: str, victim: str) -> None:
    words = ("--workload", "pgbench-tpcb", "--clients", "3", "--seconds", "600", *SMALL, *WAITING)
    bench.detached("--pg", pair, *words, "--warmup-seconds", "0")
    wait_for(lambda: list(bench.out.glob("*/manifest.json")) and len(steps(bench, "tpcb.c3")) == 2, "the step")

    def in_slices() -> bool:
        with JournalReader(bench.run) as reader:
            return all(len(reader.slices(step.id)) > 8 for step in steps(bench, "tpcb.c3"))

    wait_for(in_slices, "slices")
    assert "tx/s" in bench("watch", "--once").stdout
    engine = bench.engine_pid()
    (conductor,) = conductor_of(engine)
    pgbench = bench.client(steps(bench, "tpcb.c3")[0], "pgbench")
    for pid in {"both": [engine, conductor], "client": [pgbench]}[victim]:
        os.kill(pid, signal.SIGKILL)
    if victim == "client":
        wait_for(lambda: any(attempt.state == "failed" for attempt in bench.attempts()), "the cell to end")
        wait_for(lambda: not stopped(bench.out) and "T" not in client_states(bench), "all to go on")
        assert [attempt.state for attempt in bench.attempts()].count("running") == 1  # unsliced from now on
        assert bench("stop").returncode == 0
    bench.await_end()
    nothing_left(bench)
    wait_for(lambda: not client_states(bench), "pgbench to go")

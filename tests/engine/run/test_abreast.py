"""Runs whose cells are abreast, as a user starts them: slices of query steps, what ends them, what is refused."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.core.model import Build
from engine.journal.reader import JournalReader, SliceRow, chosen_attempts
from tests.support.benchcall import Bench, nothing_left, wait_for

SMALL = ("--rows", "2000", "--rows-written", "1000", "--set", "shared_buffers=32MB", "--interleave", "slices")


@pytest.fixture
def pair(build: Callable[[int | str], Build]) -> str:
    return f"{build(14).label},{build(16).label}"


def slices_of(bench: Bench, step: str) -> dict[tuple[int, str], list[SliceRow]]:
    """The slices of a step by repeat and build."""
    found = {}
    with JournalReader(bench.run) as reader:
        attempts = chosen_attempts(reader.attempts())
        for cell in reader.manifest.cells:
            for row in reader.steps(attempts[cell.id].id):
                if row.name == step:
                    found[cell.repeat, cell.subject.build] = reader.slices(row.id)
    return found


def stopped(bench: Bench) -> list[int]:
    """Processes of the run that are stopped."""
    states = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            inside = str((entry.parent / "cwd").readlink()).startswith(str(bench.out))
            states[int(entry.parent.name)] = entry.read_text().rpartition(")")[2].split()[0] if inside else ""
        except OSError:
            continue
    return [pid for pid, state in states.items() if state == "T"]


def all_slices(bench: Bench) -> int:
    """How many slices there are of all attempts."""
    with JournalReader(bench.run) as reader:
        steps = [step for attempt in reader.attempts() for step in reader.steps(attempt.id)]
        return sum(len(reader.slices(step.id)) for step in steps)


def await_slices(bench: Bench, count: int = 4) -> None:
    """Waits until so many slices are recorded."""
    wait_for(lambda: list(bench.out.glob("*/manifest.json")) and all_slices(bench) >= count, "slices")


def test_query_steps_are_driven_in_slices_and_judged_by_them(bench: Bench, pair: str) -> None:
    done = bench("--pg", pair, *SMALL, "--query-seconds", "4", "--steps", "l.i0,l.x,qr100", "--repeats", "3")
    assert done.returncode == 0, done.stderr
    nothing_left(bench)
    found = slices_of(bench, "qr100")
    builds = pair.split(",")
    assert set(found) == {(repeat, build) for repeat in (1, 2, 3) for build in builds}
    for repeat in (1, 2, 3):
        both = sorted((row for build in builds for row in found[repeat, build]), key=lambda row: row.opened_ns)
        assert [(row.block, row.place) for row in both] == sorted((row.block, row.place) for row in both)
        whole = [row for row in both if row.block < both[-1].block]
        assert len(whole) == 4 * (both[-1].block - 1) > 20  # the first block is not counted
    orders = [tuple(row.place for row in found[repeat, builds[0]]) for repeat in (1, 2, 3)]
    assert len(set(orders)) > 1, "every repeat draws its own orders"
    assert not any(slices_of(bench, "l.i0").values())
    comparison = bench.comparison()
    assert comparison["design"] == "slices of 50 ms"
    assert "servers side by side, query steps in slices of 50 ms" in bench("compare").stdout
    (rate,) = (r for r in bench.ratios() if (r["step"], r["metric"]) == ("qr100", "rate_per_s"))
    counted = bench.undrifted_pairs(3)
    assert rate["pairs"] == counted and (counted == 1 or rate["low"] < rate["ratio"] < rate["high"])
    # Active time is what rates are over: neither server seems half as fast as it is.
    with JournalReader(bench.run) as reader:
        for attempt in reader.attempts():
            (step,) = (row for row in reader.steps(attempt.id) if row.name == "qr100")
            assert step.totals is not None and step.ended_ns is not None
            assert 3.5 < step.totals.seconds < 0.7 * (step.ended_ns - step.started_ns) / 1e9
    assert (bench.run / "cells").exists()
    cells = ("--interleave", "cells", "--query-seconds", "1", "--steps", "l.i0,l.x,qr100", "--repeats", "1")
    unsliced = bench("--pg", pair, *SMALL[:-2], *cells)
    assert unsliced.returncode == 0, unsliced.stderr
    runs = sorted(path.parent.name for path in bench.out.glob("*/manifest.json"))
    unlike = bench("compare", *runs)
    assert unlike.returncode == 2 and "slices of 50 ms" in unlike.stderr


def test_what_is_stopped_between_slices_is_what_was_asked_for(bench: Bench, pair: str) -> None:
    for stop in ("all", "none"):
        options = ("--query-seconds", "1", "--steps", "l.i0,l.x,qr100", "--repeats", "1", "--stop", stop)
        assert bench("--pg", pair, *SMALL, *options).returncode == 0
        rows = [row for rows in slices_of(bench, "qr100").values() for row in rows]
        assert rows and all((row.stopped > 0) == (stop == "all") for row in rows)
    nothing_left(bench)
    runs = sorted(path.parent.name for path in bench.out.glob("*/manifest.json"))
    unlike = bench("compare", *runs)
    assert unlike.returncode == 2 and "--stop all" in unlike.stderr and "--stop none" in unlike.stderr


@pytest.mark.parametrize("victim", ["server", "conductor", "engine"])
def test_whatever_dies_nothing_stays_stopped_or_behind(bench: Bench, pair: str, victim: str) -> None:
    options = (*SMALL, "--query-seconds", "60", "--steps", "l.i0,l.x,qr100", "--repeats", "1")
    bench.detached("--pg", pair, *options)
    await_slices(bench)
    engine = bench.engine_pid()
    if victim == "engine":
        os.kill(engine, signal.SIGKILL)
    elif victim == "conductor":
        os.kill(conductor_of(engine), signal.SIGKILL)
    else:
        first, *_ = sorted(bench.run.glob("cells/*/data/postmaster.pid"))
        os.kill(int(first.read_text().splitlines()[0]), signal.SIGKILL)
        wait_for(lambda: any(attempt.state == "failed" for attempt in bench.attempts()), "the cell to end")
        assert [attempt.state for attempt in bench.attempts()].count("running") == 1  # unsliced from now on
        assert bench("stop").returncode == 0
    bench.await_end()
    assert not stopped(bench)
    nothing_left(bench)
    states = [attempt.state for attempt in bench.attempts()]
    if victim == "conductor":
        assert states == ["failed", "failed"]
        assert all("the conductor ended with code -9" in (attempt.reason or "") for attempt in bench.attempts())


def conductor_of(engine: int) -> int:
    children = Path(f"/proc/{engine}/task/{engine}/children").read_text().split()
    (found,) = (pid for pid in children if b"engine.run.conductor" in Path(f"/proc/{pid}/cmdline").read_bytes())
    return int(found)


def test_a_stopped_run_goes_on_with_whole_repeats(bench: Bench, pair: str) -> None:
    options = (*SMALL, "--query-seconds", "2", "--steps", "l.i0,l.x,qr100", "--repeats", "2")
    bench.detached("--pg", pair, *options)
    await_slices(bench)
    assert bench("stop").returncode == 0
    bench.await_end()
    assert [attempt.state for attempt in bench.attempts()] == ["interrupted", "interrupted"]
    resumed = bench("resume")
    assert resumed.returncode == 0, resumed.stderr
    assert [attempt.state for attempt in bench.attempts()][2:] == ["finished"] * 4
    assert len(slices_of(bench, "qr100")) == 4 and all(slices_of(bench, "qr100").values())


def test_cells_that_never_finished_together_are_run_again(bench: Bench, pair: str) -> None:
    """Each finishes once, in a start of the engine in which the other fails: no pair has come of that."""
    options = (*SMALL, "--query-seconds", "4", "--steps", "l.i0,l.x,qr100", "--repeats", "1")
    bench.detached("--pg", pair, *options)
    for turn in (0, 1):
        await_slices(bench, 4 + all_slices(bench))
        os.kill(bench.client(bench.steps(bench.attempts()[-2:][turn])[-1], "query"), signal.SIGKILL)
        bench.await_end()
        states = [attempt.state for attempt in bench.attempts()[-2:]]
        assert states[turn] == "failed" and states[1 - turn] == "finished", bench.attempts()
        (row,) = json.loads(bench("list", "runs", "--json").stdout)
        assert (row["state"], row["cells_done"]) == ("1 failed" if turn == 0 else "2 failed", 0), row
        if turn == 0:
            assert bench("resume", "--detach").returncode == 0
    resumed = bench("resume")
    assert resumed.returncode == 0, resumed.stderr
    assert [attempt.state for attempt in bench.attempts()[-2:]] == ["finished"] * 2
    (row,) = json.loads(bench("list", "runs", "--json").stdout)
    assert (row["state"], row["cells_done"]) == ("finished", 2)
    begun = len(bench.attempts())
    assert bench("resume").returncode == 0 and len(bench.attempts()) == begun


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--placement", "free"), "--placement free: in slices both servers must have the same CPUs"),
        (("--steps", "l.i0,l.x"), "none of these steps can be driven in slices"),
        (("--config", "auto,cx9a2_c8r32"), "one config, not several"),
        (("--slice-ms", "5"), "--slice-ms"),
        (("--set", "Statement_Timeout=5s"), "statement_timeout=5s would end statements of a server that is paused"),
        (("--set", "shared_buffers=100GB"), "side by side, 0 would"),
    ],
)
def test_what_cannot_be_sliced_is_refused(bench: Bench, pair: str, options: tuple[str, ...], said: str) -> None:
    refused = bench("--pg", pair, *SMALL, *options, "--dry-run")
    assert refused.returncode == 2 and said in refused.stderr, refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1 or "Usage" in refused.stderr


def test_one_build_has_nothing_to_be_beside(bench: Bench, label: str) -> None:
    refused = bench("--pg", label, *SMALL, "--dry-run")
    assert refused.returncode == 2 and "2 to 4 builds side by side" in refused.stderr, refused.stderr


def test_what_a_server_does_at_intervals_it_does_half_as_often(bench: Bench, pair: str) -> None:
    planned = bench("--pg", pair, *SMALL, "--set", "checkpoint_timeout=30min", "--dry-run", "--json")
    for config in json.loads(planned.stdout)["manifest"]["configs"].values():
        settings = dict(config["settings"])
        assert (settings["checkpoint_timeout"], settings["autovacuum_naptime"]) == ("3600000ms", "20000ms")


def test_each_server_is_given_its_share_of_the_memory(bench: Bench, pair: str) -> None:
    def buffers(*options: str) -> int:
        planned = bench("--pg", pair, "--rows", "2000", *options, "--dry-run", "--json")
        config = next(iter(json.loads(planned.stdout)["manifest"]["configs"].values()))
        return int(dict(config["settings"])["shared_buffers"].removesuffix("MB"))

    assert buffers("--interleave", "slices") < 0.6 * buffers("--interleave", "cells")

"""Runs whose cells are interleaved, as a user starts them: slices of their steps, their ends, refusals."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable

import pytest

from engine.core.model import Build
from engine.journal.reader import JournalReader, chosen_attempts
from engine.journal.rows import SliceRow
from engine.observe.sampler import LEAST_WORKED_NS
from tests.support.benchcall import WAITING, Bench, conductor_of, nothing_left, stopped, wait_for

SMALL = ("--rows", "2000", "--rows-written", "1000", "--set", "shared_buffers=32MB", "--interleave", "slices")


@pytest.fixture
def pair(build: Callable[[int | str], Build]) -> str:
    return f"{build(14).label},{build(16).label}"


def slices_of(bench: Bench, step: str) -> dict[tuple[int, str], list[SliceRow]]:
    """The slices of a step by repeat and build."""
    slices = {}
    with JournalReader(bench.run) as reader:
        attempts = chosen_attempts(reader.attempts())
        for cell in reader.manifest.cells:
            for row in reader.steps(attempts[cell.id].id):
                if row.name == step:
                    slices[cell.repeat, cell.subject.build] = reader.slices(row.id)
    return slices


def all_slices(bench: Bench, name: str = "") -> int:
    """The number of slices of a step, or of all, in all attempts."""
    with JournalReader(bench.run) as reader:
        steps = [step for attempt in reader.attempts() for step in reader.steps(attempt.id)]
        return sum(len(reader.slices(step.id)) for step in steps if name in ("", step.name))


def await_slices(bench: Bench, count: int = 4, name: str = "") -> None:
    """Waits until so many slices of a step, or all, are recorded."""
    wait_for(lambda: list(bench.out.glob("*/manifest.json")) and all_slices(bench, name) >= count, "slices")


def test_query_steps_are_driven_in_slices_and_judged_by_them(bench: Bench, pair: str) -> None:
    done = bench("--pg", pair, *SMALL, "--query-seconds", "3", "--steps", "l.i0,l.x,qr100", "--repeats", "2")
    assert done.returncode == 0, done.stderr
    nothing_left(bench)
    slices = slices_of(bench, "qr100")
    builds = pair.split(",")
    assert set(slices) == {(repeat, build) for repeat in (1, 2) for build in builds}
    for repeat in (1, 2):
        both = sorted((row for build in builds for row in slices[repeat, build]), key=lambda row: row.opened_ns)
        assert [(row.block, row.place) for row in both] == sorted((row.block, row.place) for row in both)
        complete = [row for row in both if row.block < both[-1].block]
        assert len(complete) == 4 * (both[-1].block - 1) > 20  # the first block is not counted
    orders = [tuple(row.place for row in slices[repeat, builds[0]]) for repeat in (1, 2)]
    assert len(set(orders)) > 1, "every repeat draws its own orders"
    comparison = bench.comparison()
    assert comparison["design"] == "slices of 20 ms"
    assert "servers side by side, interleaved in slices of 20 ms" in bench("compare", "--all").stdout
    (rate,) = (r for r in bench.ratios() if (r["step"], r["metric"]) == ("qr100", "rate_per_s"))
    counted = bench.undrifted_pairs(2, "qr100")
    assert rate["pairs"] == counted and (counted == 1 or rate["low"] < rate["ratio"] < rate["high"])
    # Active time is what rates are over: neither server seems half as fast as it is.
    with JournalReader(bench.run) as reader:
        for attempt in reader.attempts():
            step, index = (
                next(row for row in reader.steps(attempt.id) if row.name == name) for name in ("qr100", "l.x")
            )
            assert step.totals is not None and step.ended_ns is not None and index.totals is not None
            roles = [*step.totals.roles.values(), *index.totals.roles.values()]
            assert all(role.paired == role.connections for role in roles), "both servers have the same CPUs"
            assert 2.5 < step.totals.seconds < 0.7 * step.totals.wall_seconds
            assert step.totals.wall_seconds <= (step.ended_ns - step.started_ns) / 1e9
            times_s = index.totals.report["timing"]["times_s"]
            assert len(times_s) == 4 and index.totals.seconds == pytest.approx(sum(times_s))
            assert index.totals.seconds < index.totals.wall_seconds and index.totals.rows_indexed == 4 * 2100
            assert index.totals.spill_over_ns is None and reader.slices(index.id)
            # Waits are looked at while it is the server's turn, so about half the looks of a step that is not sliced.
            for name, role in step.totals.roles.items():
                seen = [second for second in reader.wait_seconds(step.id) if second.role == name]
                assert 10 <= role.wait_samples <= 20 * step.totals.seconds, "ten a second, at most every 50 ms"
                assert sum(role.waits.values()) == role.wait_samples == sum(second.samples for second in seen)
            assert step.totals.roles["insert"].waits["Client:ClientRead"] > 5, "it works 100 times a second only"
    shares = next(cell["waits"] for cell in bench.comparison()["cells"] if cell["waits"])  # type: ignore[attr-defined]
    assert all(abs(sum(of_role.values()) - 1) < 1e-9 for of_role in shares.values())


def test_servers_of_a_pair_start_begin_to_write_and_rest_at_once(bench: Bench, pair: str) -> None:
    """A launcher of autovacuum wakes at fixed times after the start; it finds tables without dead rows."""
    steps = ("--set", "log_statement=all", "--steps", "l.i0,l.x,l.i1,pause", "--repeats", "1", "--keep")
    done = bench("--pg", pair, *SMALL, *steps)
    assert done.returncode == 0, done.stderr
    cells = list((bench.run / "cells").iterdir())
    made_s = [(cell / "data" / "PG_VERSION").stat().st_mtime for cell in cells]
    form = re.compile(
        rb"^([0-9.]+)\|.*(starting PostgreSQL|statement: (?:CREATE INDEX|ALTER TABLE pi1 RESET|VACUUM|DELETE))",
        re.MULTILINE,
    )
    logs = [form.findall((cell / "server.log").read_bytes()) for cell in cells]
    times_s = [{kind.split(b": ")[-1]: float(at_s) for at_s, kind in reversed(log)} for log in logs]
    assert max(made_s) < min(log[b"starting PostgreSQL"] for log in times_s)
    last_build_s = max(float(at_s) for log in logs for at_s, kind in log if kind.endswith(b"CREATE INDEX"))
    back_s = [log[b"ALTER TABLE pi1 RESET"] for log in times_s]
    assert last_build_s < min(back_s) and max(back_s) - min(back_s) < 0.25
    assert all(log[b"ALTER TABLE pi1 RESET"] < log[b"VACUUM"] < log[b"DELETE"] for log in times_s)
    with JournalReader(bench.run) as reader:
        rests = [row for attempt in reader.attempts() for row in reader.steps(attempt.id) if row.name == "pause"]
    ends_ns = [row.ended_ns or 0 for row in rests]
    assert abs(ends_ns[0] - ends_ns[1]) < 0.25e9
    assert min(ends_ns) - max(row.started_ns for row in rests) > 2.5e9, "the last to rest does so for as long as alone"


def written(bench: Bench) -> set[tuple[str, int, int]]:
    """Statistics of the newest run's servers: step, rows inserted, rows deleted, one for each cell."""
    steps = set()
    for attempt in bench.attempts():
        with JournalReader(bench.run) as reader:
            for step in reader.steps(attempt.id):
                tables = reader.differences(step.id)["user_tables"].values()
                inserted, deleted = (sum(table[name] for table in tables) for name in ("n_tup_ins", "n_tup_del"))
                steps.add((step.name, inserted, deleted))
    return steps


def test_load_and_writes_have_equal_work_in_each_block(bench: Bench, pair: str) -> None:
    plan = ("--rows", "10000", "--rows-written", "10000", "--clients", "2", "--set", "shared_buffers=64MB")
    options = ("--steps", "l.i0,l.x,l.i1", "--repeats", "1", "--interleave", "slices", "--slice-ms", "20")
    done = bench("--pg", pair, *plan, *options, *WAITING, "--set", "commit_delay=5000")
    assert done.returncode == 0, done.stderr
    nothing_left(bench)
    for step in ("l.i0", "l.i1"):
        rows = slices_of(bench, step)
        sides = [rows[1, build] for build in pair.split(",")]
        assert len(sides[0]) == len(sides[1]) >= 4
        blocks: dict[int, list[SliceRow]] = {}
        for row in (*sides[0], *sides[1]):
            blocks.setdefault(row.block, []).append(row)
        for slices in blocks.values():
            assert sorted(row.place for row in slices) == [0, 1, 2, 3]
            assert len({row.cpu_ops for row in slices}) == 1 and slices[0].cpu_ops % 2 == 0
            assert all(row.rows == row.ops * (100 if step == "l.i0" else 50) for row in slices)
        assert any(row.imbalance_ns for row in (*sides[0], *sides[1])), "two clients never end together"
    assert {("l.i0", 20_000, 0), ("l.i1", 16_000, 16_000)} <= written(bench)


def test_fully_paused_seconds_have_no_roles(bench: Bench, pair: str) -> None:
    options = ("--query-seconds", "3", "--steps", "l.i0,l.x,qr100", "--repeats", "1", "--slice-ms", "1000")
    done = bench("--pg", pair, *SMALL, *options)
    assert done.returncode == 0, done.stderr
    with JournalReader(bench.run) as reader:
        for attempt in reader.attempts():
            (step,) = (row for row in reader.steps(attempt.id) if row.name == "qr100")
            assert step.totals is not None
            for role in reader.roles(step.id):
                seconds = reader.role_seconds(role.id)
                assert min(second.dt_ns for second in seconds[:-1]) >= LEAST_WORKED_NS
                assert sum(second.dt_ns for second in seconds) == pytest.approx(step.totals.seconds * 1e9, rel=0.01)
                assert sum(second.statements for second in seconds) == step.totals.roles[role.name].statements


@pytest.mark.nightly("a difference is planted in eight cells; that builds are cut in slices is seen in shorter runs")
def test_a_slower_index_build_is_found_in_cut_statements(bench: Bench, label: str) -> None:
    """The other one compresses the pages that it writes to its WAL."""
    plan = ("--rows", "40000", "--steps", "l.i0,l.x", "--repeats", "4", "--set", "shared_buffers=32MB")
    planted = ("--set-each", "wal_compression=off,on", "--slice-ms", "20")
    done = bench("--pg", label, *plan, *planted, "--interleave", "slices")
    assert done.returncode == 0, done.stderr
    rate = next(ratio for ratio in bench.ratios() if (ratio["step"], ratio["metric"]) == ("l.x", "rate_per_s"))
    assert rate["verdict"] == "slower" and rate["high"] < 0.95, rate
    shown = bench("compare", "--slices", "l.x")
    assert shown.returncode == 0 and "the ratio is of their times" in shown.stdout
    (step,) = {cell["step"] for cell in bench.comparison()["cells"] if cell["times_s"]}  # type: ignore[attr-defined]
    assert step == "l.x"


QUERIES = ("--query-seconds", "60", "--steps", "l.i0,l.x,qr100")
WRITES = ("--rows-written", "50000000", *WAITING, "--steps", "l.i0,l.x,l.i1")
INDEXES = ("--rows", "20000", "-O", "index_builds=100", "--steps", "l.i0,l.x")


@pytest.mark.parametrize(("victim", "steps"), [("server", QUERIES), ("engine", WRITES), ("conductor", INDEXES)])
def test_whatever_dies_nothing_stays_stopped_or_behind(
    bench: Bench, pair: str, victim: str, steps: tuple[str, ...]
) -> None:
    bench.detached("--pg", pair, *SMALL, *steps, "--repeats", "1")
    await_slices(bench, 12)
    last = steps[-1].rpartition(",")[2]
    wait_for(lambda: all(bench.steps(attempt)[-1].name == last for attempt in bench.attempts()), last)
    engine = bench.engine_pid()
    if victim == "engine":
        os.kill(engine, signal.SIGKILL)
    elif victim == "conductor":
        (conductor,) = conductor_of(engine)
        os.kill(conductor, signal.SIGKILL)
    else:
        first, *_ = sorted(bench.run.glob("cells/*/data/postmaster.pid"))
        os.kill(int(first.read_text().splitlines()[0]), signal.SIGKILL)
        wait_for(lambda: any(attempt.state == "failed" for attempt in bench.attempts()), "the cell to end")
        assert [attempt.state for attempt in bench.attempts()].count("running") == 1  # unsliced from now on
        assert bench("stop").returncode == 0
    bench.await_end()
    assert not stopped(bench.out)
    nothing_left(bench)
    states = [attempt.state for attempt in bench.attempts()]
    if victim == "conductor":
        assert states == ["failed", "failed"]
        assert all("the conductor ended with code -9" in (attempt.reason or "") for attempt in bench.attempts())


def test_cells_that_never_finished_together_are_run_again(bench: Bench, pair: str) -> None:
    """Each finishes once, in a start of the engine in which the other fails: no pair has come of that."""
    options = (*SMALL, "--rows-written", "5000", *WAITING, "--steps", "l.i1", "--repeats", "1")
    bench.detached("--pg", pair, *options)
    for turn in (0, 1):
        await_slices(bench, 4 + all_slices(bench, "l.i1"), "l.i1")
        os.kill(bench.client(bench.steps(bench.attempts()[-2:][turn])[-1], "insert"), signal.SIGKILL)
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


def test_each_server_is_given_its_share_of_the_memory(bench: Bench, pair: str) -> None:
    def buffers(*options: str) -> int:
        planned = bench("--pg", pair, "--rows", "2000", *options, "--dry-run", "--json")
        config = next(iter(json.loads(planned.stdout)["manifest"]["configs"].values()))
        return int(dict(config["settings"])["shared_buffers"].removesuffix("MB"))

    assert buffers("--interleave", "slices") < 0.6 * buffers("--interleave", "cells")

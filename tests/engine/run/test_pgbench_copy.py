"""Bulk loads on real servers."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.journal.manifest import read_manifest
from engine.journal.reader import JournalReader
from engine.view.player import Player
from tests.support.benchcall import Bench, nothing_left

OLD, NEW = "12.11-prebuilt", "18.6-prebuilt"
SMALL = ("--set", "shared_buffers=32MB", "-o", "copy_rows=3000")


@pytest.fixture(scope="module")
def loads(new_folder: Callable[[], Path]) -> Iterator[Bench]:
    """A run of the oldest and the newest server, with one client and with two."""
    bench = Bench(new_folder())
    words = ("--pg", f"{OLD},{NEW}", "--repeats", "1", "--workload", "pgbench-copy", *SMALL)
    done = bench("run", *words, "--clients", "1,2", "--transactions", "5", "--plain")
    assert done.returncode == 0, done.stderr + done.stdout
    assert "pgbench-copy 3,000 rows" in done.stdout and "a COPY takes longer than a slice" in done.stdout
    yield bench
    bench.stop()


def test_every_transaction_is_counted_and_timed(loads: Bench) -> None:
    assert read_manifest(loads.run).interleave == "cells"
    digests = set()
    with JournalReader(loads.run) as reader:
        for attempt in reader.attempts():
            for step in reader.steps(attempt.id)[1:]:
                totals, clients = step.totals, int(step.plan["clients"])
                assert totals is not None and totals.report["pgbench"]["processed"] == 5 * clients
                assert totals.roles["pgbench"].statements == 5 * clients
                timed = reader.transactions(step.id)
                assert len(timed) == 5 * clients and {each.client for each in timed} == set(range(1, clients + 1))
                for each in timed:
                    assert step.started_ns < each.ended_ns - each.time_ns + 2_000 and each.ended_ns <= (
                        step.ended_ns or 0
                    )
                # A client has one transaction after the other from the begin of the step on: it never waits.
                of_first = sum(each.time_ns for each in timed if each.client == 1)
                assert of_first <= totals.seconds * 1e9 and totals.seconds * 1e9 < 3 * of_first + 1e9
                roles = reader.roles(step.id)
                assert len({role.backend_pid for role in roles}) == clients and all(role.backend_pid for role in roles)
                told = [each["statement"] for each in totals.report["statements"]]
                assert told[0] == "BEGIN;" and told[1].startswith("TRUNCATE") and told[2].startswith("COPY")
                stops = [each["stop_ms"] > 0 for each in totals.report["statements"]]
                assert stops == [False, True, False, False]  # by the lock until the step begins
                assert totals.report["load"]["rows"] == 3000
                digests.add(totals.report["load"]["sha256"])
                assert not [event for event in reader.events(step.id) if event.kind in ("lock_wait", "stall")]
    assert len(digests) == 1
    nothing_left(loads)
    assert not list(loads.run.glob("cells/*/files"))


def test_its_times_are_compared_shown_and_exported(loads: Bench, tmp_path: Path) -> None:
    told = loads("compare").stdout
    assert (
        "Time of each transaction (ms" in told and "Each transaction by its end" in told and "only counted" not in told
    )
    assert "COPY pgbench_copy_:client_id FROM" in told
    record = json.loads(loads("compare", "--json").stdout)
    timed = {(cell["subject"], cell["step"]): cell["transactions"] for cell in record["cells"]}
    found = timed[NEW, "copy.c2"]
    assert found["count"] == len(found["each"]) == 10 and found["file_rows"] == 3000 and timed[NEW, "init"] is None
    rate = next(cell["rate_per_s"] for cell in record["cells"] if (cell["subject"], cell["step"]) == (NEW, "copy.c2"))
    assert found["rows_per_s"] == pytest.approx(3000 * rate)
    assert found["mb_per_s"] == pytest.approx(found["file_bytes"] * rate / 1e6)
    assert {ratio["step"] for ratio in record["ratios"] if ratio["metric"] == "rate_per_s"} == {"copy.c1", "copy.c2"}
    exported = loads("export", "--to", str(tmp_path / "export"))
    assert exported.returncode == 0, exported.stderr
    written = (tmp_path / "export" / "transactions.csv").read_text()
    assert len(re.findall(r",copy\.c2,2,", written)) == 2 * 5
    cell = read_manifest(loads.run).cells[0].id
    with Player(loads.run, cell=cell, step="copy.c2") as player:
        step = player.look().step
        assert step is not None and step.ended_ns is not None
        player.seek(step.ended_ns)
        view = player.look()
        assert view.series is not None and (view.series.timed(view.at_ns) or (0,))[0] == 10 and view.fraction == 1


def test_without_a_number_of_transactions_those_under_way_at_the_end_are_whole(bench: Bench) -> None:
    words = ("--pg", NEW, "--repeats", "1", "--workload", "pgbench-copy", "--set", "shared_buffers=32MB")
    more = (
        "--clients",
        "2",
        "--seconds",
        "1",
        "-o",
        "copy_rows=100000",
        "-o",
        "copy_truncate=never",
        "-o",
        "unlogged=true",
    )
    done = bench("run", *words, *more, "--jobs", "2", "--plain")
    assert done.returncode == 0, done.stderr + done.stdout
    with JournalReader(bench.run) as reader:
        (attempt,) = reader.attempts()
        _, step = reader.steps(attempt.id)
        totals, timed = step.totals, reader.transactions(step.id)
        assert totals is not None and totals.seconds > 1
        assert len(timed) == totals.report["pgbench"]["processed"] == totals.roles["pgbench"].statements
        ((heap, _, size), *_) = [row for row in reader.sizes(step.id) if row[0] == "pgbench_copy_0"]
        own = sum(each.client == 1 for each in timed)
        assert heap == "pgbench_copy_0" and size > own * 8_000_000  # nothing is emptied in between
        assert totals.wal_bytes is not None and totals.wal_bytes < 1_000_000


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("-o", "copy_truncate=always"), "unknown copy truncate 'always' (known: each, never)"),
        (("--interleave", "slices"), "a COPY takes longer than a slice"),
        (("--protocol", "prepared"), "protocol"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(bench: Bench, words: tuple[str, ...], told: str) -> None:
    done = bench("run", "--pg", f"{OLD},{NEW}", "--workload", "pgbench-copy", *words, "--dry-run")
    assert done.returncode == 2 and told in done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize("victim", ["client", "backend"])
def test_what_dies_in_a_load_ends_the_cell_with_a_reason(bench: Bench, victim: str) -> None:
    words = ("--pg", NEW, "--repeats", "1", "--workload", "pgbench-copy", "--clients", "2", "--seconds", "600", *SMALL)
    bench.detached(*words)
    step = bench.await_step("copy.c2")
    os.kill(getattr(bench, victim)(step, "pgbench"), 9 if victim == "client" else 15)
    bench.await_end()
    (attempt,) = bench.attempts()
    assert attempt.state == "failed" and attempt.reason is not None
    expected = "pgbench ended: signal 9" if victim == "client" else "terminating connection due to|aborted|backend died"
    assert re.search(expected, attempt.reason), attempt.reason
    nothing_left(bench)

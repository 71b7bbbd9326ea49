"""A whole run as a user makes it: two real servers, every step, a journal, a comparison."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.core.model import Build
from engine.journal.reader import JournalReader
from tests.support.benchcall import SMALL, Bench

STEPS = ["l.i0", "l.x", "l.i1", "pause", "qp100"]


@pytest.fixture(scope="module")
def finished(new_folder: Callable[[], Path], build: Callable[[int | str], Build]) -> Bench:
    """A finished run of 12 and 17, two repeats of steps of most kinds."""
    bench = Bench(new_folder() / "runs")
    arguments = ("--repeats", "2", "--steps", ",".join(STEPS), *SMALL)
    done = bench("--pg", f"{build(12).label},{build(17).label}", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return bench


def test_all_cells_finish_in_abba_order_with_their_steps(finished: Bench, build: Callable[[int | str], Build]) -> None:
    attempts = finished.attempts()
    assert [attempt.state for attempt in attempts] == ["finished"] * 4
    old, new = build(12).label, build(17).label
    with JournalReader(finished.run) as reader:
        order = [cell.subject.build for cell in reader.manifest.cells]
        assert order == [old, new, new, old]
        for attempt in attempts:
            assert [step.name for step in reader.steps(attempt.id)] == STEPS
    assert all(step in finished("compare", "--all").stdout for step in STEPS if step != "pause")


def test_the_work_is_the_same_for_every_build(finished: Bench) -> None:
    with JournalReader(finished.run) as reader:
        work = {
            tuple(
                (step.name, role, totals.rows_actual if role != "query" else 0)
                for step in reader.steps(attempt.id)
                if step.totals
                for role, totals in step.totals.roles.items()
            )
            for attempt in reader.attempts()
        }
    assert len(work) == 1
    assert ("l.i0", "insert", 2000) in next(iter(work))


def test_seconds_add_up_to_the_totals(finished: Bench) -> None:
    with JournalReader(finished.run) as reader:
        for step in reader.steps(reader.attempts()[0].id):
            for role in reader.roles(step.id):
                assert step.totals is not None
                seconds = reader.role_seconds(role.id)
                assert sum(second.statements for second in seconds) == step.totals.roles[role.name].statements
                cpu_ns = sum(second.backend_cpu_ns or 0 for second in seconds)
                assert cpu_ns == step.totals.roles[role.name].backend_cpu_ns


def test_what_was_counted_is_there(finished: Bench) -> None:
    with JournalReader(finished.run) as reader:
        for attempt in reader.attempts():
            assert attempt.origin["environment"]["kernel"]["release"]
            assert attempt.origin["server"]["initdb"]
            assert ("shared_buffers", "32MB") in {(name, value) for name, value, _ in reader.settings(attempt.id)}
            for step in reader.steps(attempt.id):
                assert step.totals is not None
                assert (step.totals.server_cpu_ns or 0) > 0
                assert step.totals.wal_bytes is not None
                assert reader.differences(step.id)["database"]
                assert {("pi1", "heap"), ("pi1_pkey", "index")} <= {size[:2] for size in reader.sizes(step.id)}
                if step.kind != "pause":
                    assert step.totals.client_cpu_ns > 0
                    inserted = reader.differences(step.id)["user_tables"]["pi1"]["n_tup_ins"]
                    assert inserted == step.totals.roles["insert"].rows_actual


def test_no_cluster_no_socket_and_no_process_is_left(finished: Bench) -> None:
    assert not list(finished.run.glob("cells/*/data"))
    assert not list(finished.run.glob("cells/*/socket"))
    assert finished.descendants() == []


def test_the_wal_of_each_second_adds_up_to_that_of_the_step(finished: Bench) -> None:
    with JournalReader(finished.run) as reader:
        for step in (step for attempt in reader.attempts() for step in reader.steps(attempt.id)):
            seconds = reader.samples(step.id, sources=("wal",))
            assert step.totals is not None and step.totals.wal_bytes is not None and seconds
            assert sum(dt_ns for _, dt_ns, _, _ in seconds) == seconds[-1][0] - step.started_ns
            written = sum(data["bytes"] for *_, data in seconds)
            assert 0.8 * step.totals.wal_bytes - 200_000 <= written <= step.totals.wal_bytes, step.name


def test_resuming_a_finished_run_runs_nothing(finished: Bench) -> None:
    journal = finished.run / "journal.db"
    before = journal.read_bytes()
    with closing(sqlite3.connect(journal)) as reader:
        reader.execute("SELECT count(*) FROM attempt").fetchone()
        assert (finished.run / "journal.db-wal").exists()  # which an engine would write to
        done = finished("resume")
    assert done.returncode == 0 and "nothing to do" in done.stdout, done.stderr
    assert journal.read_bytes() == before


def test_two_configs_and_the_double_of_the_base_are_compared(
    new_folder: Callable[[], Path], build: Callable[[int | str], Build]
) -> None:
    bench = Bench(new_folder() / "runs")
    folder = new_folder()
    (folder / "nofpw.conf").write_text("full_page_writes = off\nunheard_of = 1\n")
    arguments = ("--config", f"auto,{folder / 'nofpw.conf'}", "--aa", "--repeats", "1", "--steps", "l.i0")
    done = bench("--pg", build(16).label, *arguments, *SMALL)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "unheard_of" in done.stdout
    assert "no verdict" in done.stdout
    comparison: Any = bench.comparison()
    assert {(cell["config"], cell["step"]) for cell in comparison["cells"]} == {("auto", "l.i0"), ("nofpw", "l.i0")}
    assert len(comparison["cells"]) == 4


def test_generations_without_and_with_range_deletes_run_too(
    new_folder: Callable[[], Path], build: Callable[[int | str], Build]
) -> None:
    for generation, last in (("g24a", "l.i2"), ("g22", "q100.1")):
        bench = Bench(new_folder() / "runs")
        arguments = ("--generation", generation, "--steps", f"l.i1,{last}", "--clients", "2", "--repeats", "1")
        done = bench("--pg", build(14).label, *arguments, *SMALL)
        assert done.returncode == 0, done.stdout + done.stderr
        (attempt,) = bench.attempts()
        assert [step.name for step in bench.steps(attempt)] == ["l.i0", "l.x", "l.i1", last]
        with JournalReader(bench.run) as reader:
            assert {role.client for step in bench.steps(attempt) for role in reader.roles(step.id)} == {1, 2}

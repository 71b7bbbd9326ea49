"""What is told of a run while it is under way, second by second, from journals with known counts."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_run import RATES, SECOND_NS, make_run
from rich.console import Console

from engine import live
from engine.journal import JournalReader, RoleSecond
from engine.live import Watcher
from engine.stalls import Stall
from engine.writer import JournalWriter

CONFIGS = ("cx5", "cx7")


class UnderWay:
    """A run of two configs whose cell number `ordinal` is in its step now; all earlier ones finished."""

    def __init__(self, run: Path, ordinal: int, step: str = "l.i0", kind: str = "load", **made: Any) -> None:
        make_run(run, repeats=2, noise=0, unfinished=range(ordinal, 100), **made)
        self.run = run
        self.journal = JournalWriter.open(run)
        with JournalReader(run) as reader:
            self.cell = reader.manifest["cells"][ordinal]["id"]
        self.started_ns = time.monotonic_ns() - 60 * SECOND_NS
        self.attempt = self.journal.begin_attempt(self.cell, self.started_ns, {"environment": {}})
        self.step = self.journal.begin_step(self.attempt, 0, step, kind, 1_000_000, {}, self.started_ns)
        self.journal.commit()

    def add(self, name: str, rates: list[int], statements: int = 1) -> None:
        """A connection that did so many rows in each of its seconds."""
        row = self.journal.add_role(self.step, 1, name, 1, 2)
        for second, rows in enumerate(rates, 1):
            t_ns = self.started_ns + second * SECOND_NS
            self.journal.add_role_second(RoleSecond(row, t_ns, SECOND_NS, statements, rows, 0, 0, b""))
        self.journal.commit()


@pytest.fixture
def opened() -> Iterator[list[UnderWay]]:
    runs: list[UnderWay] = []
    yield runs
    for run in runs:
        run.journal.__exit__(None, None, None)


def test_the_rate_is_that_of_the_seconds_counted(tmp_path: Path, opened: list[UnderWay]) -> None:
    """Ten seconds at the base's rate are 1.000 of it, however long ago the last tick was."""
    opened.append(run := UnderWay(tmp_path / "r", 1))
    run.add("insert", [int(RATES["l.i0"])] * 10)
    now = Watcher(run.run).look()
    assert now.elapsed_s > 50
    assert now.relative == pytest.approx(1.0, rel=1e-3)
    assert now.rate_per_s == RATES["l.i0"]


def test_the_yardstick_is_the_base_under_the_same_config_and_not_its_double(
    tmp_path: Path, opened: list[UnderWay]
) -> None:
    """Cells: 16.3 cx5, its double, 17.0 cx5, 16.3 cx7, its double, 17.0 cx7: the first three have finished."""

    def slow(cell: Any, step: str, totals: Any) -> Any:
        from dataclasses import replace

        return replace(totals, seconds=totals.seconds * 4) if cell.subject.arm else totals

    opened.append(run := UnderWay(tmp_path / "r", 2, configs=CONFIGS, aa=True, change=slow))
    run.add("insert", [50_000] * 10)
    assert Watcher(run.run).look().relative == pytest.approx(0.5, rel=1e-3)
    opened.append(other := UnderWay(tmp_path / "other", 3, configs=CONFIGS, aa=True, change=slow))
    other.add("insert", [50_000] * 10)
    assert Watcher(other.run).look().relative is None


def test_all_query_workers_are_one_rate(tmp_path: Path, opened: list[UnderWay]) -> None:
    opened.append(run := UnderWay(tmp_path / "r", 1, "qr100", "query"))
    for name in ("query", "query2"):
        run.add(name, [40_000] * 10, statements=4000)
    now = Watcher(run.run).look()
    assert (now.rate_per_s, now.unit) == (8000, "queries/s")
    assert now.relative == pytest.approx(8000 / RATES["qr100"], rel=1e-3)


def test_a_look_reads_only_what_is_new(tmp_path: Path, opened: list[UnderWay], monkeypatch: pytest.MonkeyPatch) -> None:
    opened.append(run := UnderWay(tmp_path / "r", 3))
    read: list[tuple[str, int]] = []
    original = JournalReader._rows

    def counted(self: JournalReader, table: str, *rest: Any, **named: Any) -> Iterator[Any]:
        rows = list(original(self, table, *rest, **named))
        read.append((table, len(rows)))
        return iter(rows)

    monkeypatch.setattr(JournalReader, "_rows", counted)
    run.add("insert", [100] * 10)
    add_event(run, "checkpoint")
    watcher = Watcher(run.run)
    watcher.look()
    read.clear()
    watcher.look()
    assert {table: rows for table, rows in read if rows} == {"attempt": 1, "step": 1}
    stall = add_event(run, "stall")
    assert [event.ended_ns for event in watcher.look().stalls] == [None]
    run.journal.update_event(stall, run.started_ns + 9, {"role": "insert"})
    run.journal.commit()
    assert [event.ended_ns for event in watcher.look().stalls] == [run.started_ns + 9]
    read.clear()
    assert len(watcher.look().stalls) == 1
    assert ("event", 1) not in read


def add_event(run: UnderWay, kind: str) -> int:
    stall = Stall("insert", 1, run.started_ns, None, "rate", 0.0, 1.0, 0, 0, 1.0)
    row = run.journal.add_event(kind, run.started_ns, stall.record(), attempt=run.attempt, step=run.step, role="insert")
    run.journal.commit()
    return row


def test_origins_are_not_read_by_who_only_watches(tmp_path: Path) -> None:
    with JournalReader(make_run(tmp_path / "r", repeats=1)) as reader:
        assert all(attempt.origin for attempt in reader.attempts())
        watched = reader.attempts(1, origins=False)
    assert [(attempt.id, attempt.origin) for attempt in watched] == [(2, {})]


def test_a_cell_that_fails_is_told_at_once_and_once(tmp_path: Path, opened: list[UnderWay]) -> None:
    opened.append(run := UnderWay(tmp_path / "r", 1))
    out = io.StringIO()
    told = threading.Thread(target=live.follow, args=(run.run, Console(file=out, width=80)))
    told.start()
    reason = "the server was killed by signal 9 [while inserting]"
    run.journal.end_attempt(run.attempt, time.monotonic_ns(), "failed", reason)
    second = run.journal.begin_attempt("003-17.0-auto-r2", time.monotonic_ns(), {})
    run.journal.commit()
    deadline = time.monotonic() + 20
    while "FAILED" not in out.getvalue() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert told.is_alive()
    text = out.getvalue()
    run.journal.end_attempt(second, time.monotonic_ns(), "interrupted", "SIGINT received")
    run.journal.__exit__(None, None, None)
    opened.clear()
    told.join(20)
    assert not told.is_alive()
    assert f"! FAILED {run.cell}: {reason}\n" in text
    assert out.getvalue().count("FAILED") == 1


def test_between_steps_it_is_told_what_is_waited_for(tmp_path: Path, opened: list[UnderWay]) -> None:
    opened.append(run := UnderWay(tmp_path / "r", 1))
    t_ns = time.monotonic_ns()
    run.journal.add_event("progress", t_ns, {"text": "waiting for initdb (4 s)"}, ended_ns=t_ns, attempt=run.attempt)
    run.journal.commit()
    watcher = Watcher(run.run)
    assert watcher.look().doing == ""  # a step is running: that was before it
    run.journal.close_orphans()  # the step ends, as when its engine died
    second = run.journal.begin_attempt(run.cell, t_ns + 1, {})
    run.journal.commit()
    assert watcher.look().doing == ""
    run.journal.add_event("progress", t_ns + 2, {"text": "removing data (3 s)"}, ended_ns=t_ns + 2, attempt=second)
    run.journal.commit()
    now = watcher.look()
    assert (now.step, now.doing) == ("starting the server", "removing data (3 s)")
    assert live.line(now).endswith("starting the server  removing data (3 s)")


def test_the_state_has_a_json_form(tmp_path: Path, opened: list[UnderWay]) -> None:
    opened.append(run := UnderWay(tmp_path / "r", 1, failed={0: "disk full"}))
    run.add("insert", [100, 200])
    add_event(run, "stall")
    record = json.loads(json.dumps(live.record(Watcher(run.run).look()), allow_nan=False))
    assert (record["step"], record["rate_per_s"], record["unit"]) == ("l.i0", 200, "rows/s")
    assert record["roles"][0]["name"] == "insert"
    assert record["failures"] == [{"id": 1, "cell": "001-16.3-auto-r1", "reason": "disk full"}]
    assert record["stalls"][0]["ended_ns"] is None


def test_an_index_build_has_no_rate(tmp_path: Path, opened: list[UnderWay]) -> None:
    """Its rows are counted in three lumps."""
    opened.append(run := UnderWay(tmp_path / "r", 1, "l.x", "index"))
    run.add("index", [0, 0, 100_000])
    now = Watcher(run.run).look()
    assert (now.rate_per_s, now.unit, now.relative) == (0, "", None)
    assert "rows/s" not in live.line(now)

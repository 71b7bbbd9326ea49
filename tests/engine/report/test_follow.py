"""The report on a run under way, second by second, from journals with known counts."""

from __future__ import annotations

import io
import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.journal.reader import JournalReader
from engine.journal.rows import EventRow, RoleSecond
from engine.journal.writer import JournalWriter
from engine.observe.stalls import Stall
from engine.report import follow
from engine.report.console import PlainConsole
from engine.view.events import stall_words
from engine.view.player import Player
from tests.support.benchcall import wait_for
from tests.support.journal import growing, interleaved, make_run
from tests.support.totals import RATES, SECOND_NS, planned_as

CONFIGS = ("cx5", "cx7")
BASE_PER_S = 2_000_000 // 12  # what the base's cells did in l.i0, second by second


class UnderWay:
    """A run of two configs whose cell number `ordinal` is in its step now; all earlier ones finished."""

    def __init__(
        self, run: Path, ordinal: int, step: str = "l.i0", kind: str = "load", *, ago_s: int = 60, **how: Any
    ) -> None:
        make_run(run, repeats=2, noise=0, unfinished=range(ordinal, 100), **how)
        self.run = run
        self.journal = JournalWriter.open(run)
        with JournalReader(run) as reader:
            self.cell = reader.manifest.cells[ordinal].id
        self.started_ns = time.monotonic_ns() - ago_s * SECOND_NS
        self.attempt = self.journal.begin_attempt(self.cell, self.started_ns, {"environment": {}})
        self.step = self.journal.begin_step(self.attempt, 0, step, kind, 1_000_000, planned_as(kind), self.started_ns)
        self.journal.commit()

    def add(self, name: str, rates: list[int], statements: int = 1) -> None:
        """A connection that did so many rows in each of its seconds."""
        row = self.journal.add_role(self.step, 1, name, 1, 2)
        for second, rows in enumerate(rates, 1):
            t_ns = self.started_ns + second * SECOND_NS
            self.journal.add_role_seconds([RoleSecond(row, t_ns, SECOND_NS, statements, rows, 0, 0, b"")])
        self.journal.commit()


@pytest.fixture
def opened() -> Iterator[list[UnderWay]]:
    runs: list[UnderWay] = []
    yield runs
    for run in runs:
        run.journal.__exit__(None, None, None)


def test_progress_is_relative_to_the_base_not_to_its_control(tmp_path: Path, opened: list[UnderWay]) -> None:
    """Cells: 16.3 cx5, its double, 17.0 cx5, 16.3 cx7, its double, 17.0 cx7: the first three have finished."""

    def slow(cell: Any, step: str, totals: Any) -> Any:
        less = replace(totals.roles["insert"], rows=totals.roles["insert"].rows // 4)
        return replace(totals, roles=totals.roles | {"insert": less}) if cell.subject.control else totals

    opened.append(run := UnderWay(tmp_path / "r", 2, configs=CONFIGS, aa=True, change=slow))
    run.add("insert", [BASE_PER_S // 2] * 10)
    assert Player(run.run).look().relative == pytest.approx(0.5, rel=1e-3)
    opened.append(other := UnderWay(tmp_path / "other", 3, configs=CONFIGS, aa=True, change=slow))
    other.add("insert", [50_000] * 10)
    assert Player(other.run).look().relative is None


def test_all_query_workers_are_one_rate(tmp_path: Path, opened: list[UnderWay]) -> None:
    opened.append(run := UnderWay(tmp_path / "r", 1, "qr100", "query", ago_s=10))
    for name in ("query", "query2"):
        run.add(name, [40_000] * 10, statements=4000)
    record = follow.record(view := Player(run.run).look(), ())
    assert (record["rate_per_s"], record["unit"]) == (8000, "queries/s")
    base = view.base_per_s
    assert base == pytest.approx(RATES["qr100"], rel=1e-3)
    with JournalReader(run.run) as reader:
        (first,) = [step for step in reader.steps(1) if step.name == "qr100"]
        (query,) = [role.id for role in reader.roles(first.id) if role.name == "query"]
        by_second = reader.role_seconds(query)[0].statements
    assert view.relative == pytest.approx(8000 / by_second, rel=1e-3)


def test_a_slowing_step_is_compared_at_equal_work(tmp_path: Path, opened: list[UnderWay]) -> None:
    """Both are twice as fast in the beginning as later on: a fifth of the step against the whole would be 1.4."""
    opened.append(run := UnderWay(tmp_path / "r", 1))
    with sqlite3.connect(run.run / "journal.db") as connection:
        connection.execute(
            "UPDATE role_second SET rows = CASE WHEN (t_ns - started_ns) / 1000000000 <= 5 THEN 200000 ELSE 100000 END"
            " FROM role JOIN step ON step.id = role.step_id"
            " WHERE role_second.role_id = role.id AND step.name = 'l.i0' AND role.name = 'insert'"
        )
    run.add("insert", [190_000] * 5)
    assert Player(run.run).look().relative == pytest.approx(0.95, rel=1e-3)
    opened.append(faster := UnderWay(tmp_path / "faster", 1))
    faster.add("insert", [400_000] * 10)  # more than the base did in all: nothing to hold it against
    assert Player(faster.run).look().relative is None


def add_event(run: UnderWay, kind: str) -> int:
    stall = Stall("insert", 1, run.started_ns, None, "rate", 0.0, 1.0, 0, 0, 1.0)
    row = run.journal.add_event(kind, run.started_ns, stall.record(), attempt=run.attempt, step=run.step, role="insert")
    run.journal.commit()
    return row


def test_a_cell_that_fails_is_told_at_once_and_once(tmp_path: Path, opened: list[UnderWay]) -> None:
    opened.append(run := UnderWay(tmp_path / "r", 1))
    out = io.StringIO()
    follower = threading.Thread(target=follow.follow, args=(run.run, PlainConsole(file=out)))
    follower.start()
    reason = "the server was killed by signal 9 [while inserting]"
    run.journal.end_attempt(run.attempt, time.monotonic_ns(), "failed", reason)
    second = run.journal.begin_attempt("003-17.0-auto-r2", time.monotonic_ns(), {})
    run.journal.commit()
    wait_for(lambda: "FAILED" in out.getvalue(), "the failure")
    assert follower.is_alive()
    text = out.getvalue()
    run.journal.end_attempt(second, time.monotonic_ns(), "interrupted", "SIGINT received")
    run.journal.__exit__(None, None, None)
    opened.clear()
    follower.join(20)
    assert not follower.is_alive()
    assert f"! FAILED {run.cell}: {reason}\n" in text
    assert out.getvalue().count("FAILED") == 1


def test_a_log_has_a_line_for_each_step_and_a_terminal_more(
    tmp_path: Path, opened: list[UnderWay], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened.append(run := UnderWay(tmp_path / "r", 2))
    run.add("insert", [1000] * 3)
    monkeypatch.setattr(follow, "LINE_S", 0.0)
    for terminal, lines in ((True, 3), (False, 1)):
        beats, file = iter(range(2)), io.StringIO()
        monkeypatch.setattr(time, "sleep", lambda _, beats=beats: next(beats))
        with pytest.raises(StopIteration):
            follow.follow(run.run, PlainConsole(file=file, force_terminal=terminal))
        assert file.getvalue().count("cell 3/4") == lines


def test_between_steps_it_is_told_what_is_waited_for(tmp_path: Path, opened: list[UnderWay]) -> None:
    opened.append(run := UnderWay(tmp_path / "r", 1))
    t_ns = time.monotonic_ns()
    run.journal.add_event("progress", t_ns, {"text": "waiting for initdb (4 s)"}, ended_ns=t_ns, attempt=run.attempt)
    run.journal.commit()
    player = Player(run.run)
    assert player.look().doing == ""  # a step is running: that was before it
    run.journal.close_orphans()  # the step ends, as when its engine died
    second = run.journal.begin_attempt(run.cell, t_ns + 1, {})
    run.journal.commit()
    assert player.look().doing == "starting the server"
    run.journal.add_event("progress", t_ns + 2, {"text": "removing data (3 s)"}, ended_ns=t_ns + 2, attempt=second)
    run.journal.commit()
    view = player.look()
    assert follow.line(view).endswith("starting the server: removing data (3 s)")
    record = follow.record(view, ())
    assert (record["step"], record["doing"]) == ("starting the server", "removing data (3 s)")


def test_the_state_has_a_json_form(tmp_path: Path, opened: list[UnderWay]) -> None:
    opened.append(run := UnderWay(tmp_path / "r", 1, ago_s=2, failed={0: "disk full"}))
    run.add("insert", [100, 200])
    add_event(run, "stall")
    record = json.loads(follow.once(run.run, as_json=True), parse_constant=pytest.fail)
    assert (record["step"], record["rate_per_s"], record["unit"]) == ("l.i0", 200, "rows/s")
    assert record["roles"][0]["name"] == "insert"
    assert record["failures"] == [{"id": 1, "cell": "001-16.3-auto-r1", "reason": "disk full"}]
    assert record["stalls"][0]["ended_ns"] is None


def test_an_index_build_has_no_rate(tmp_path: Path, opened: list[UnderWay]) -> None:
    """Its rows are counted in three lumps."""
    opened.append(run := UnderWay(tmp_path / "r", 1, "l.x", "index"))
    run.add("index", [0, 0, 100_000])
    view = Player(run.run).look()
    record = follow.record(view, ())
    assert (record["rate_per_s"], record["unit"], record["relative"]) == (0, "", None)
    assert "rows/s" not in follow.line(view)


def test_a_cause_that_is_none_stands_for_nothing() -> None:
    nothing: list[Any] = [[{}], ["x"], [], None, 3]
    for causes in nothing:
        stall = EventRow(1, 1, 1, "stall", 0, 10**9, "insert", {"causes": causes})
        assert stall_words(stall, 10**9) == "STALL insert 1.0s"


def test_a_stall_that_several_clients_are_in_is_told_once(tmp_path: Path) -> None:
    with growing(tmp_path) as live, Player(live.run, live.hand.clock) as player:
        live.second()
        for client, cause in ((1, "the link is down"), (2, "the link is down"), (3, "the disk is full")):
            data = live.stall_record((cause,)) | {"client": client}
            live.journal.add_event("stall", live.hand.at_ns, data, attempt=live.attempt, step=live.step, role="insert")
        live.second()
        parts = follow.line(player.look()).split("  ! ")[1:]
        assert parts == [
            "STALL insert 1.0s so far: the link is down (2 clients)",
            "STALL insert 1.0s so far: the disk is full",
        ]
        for stall in player.look().stalls:
            live.journal.update_event(stall.id, live.hand.at_ns, stall.data)
        live.journal.commit()
        news = follow.RunNews(())
        assert [text.partition("! ")[2] for text in news.of(player.look(), ())] == [
            part.replace(" so far", "") for part in parts
        ]
        assert news.of(player.look(), ()) == []


def test_of_cells_abreast_every_build_and_the_ratio_are_told(tmp_path: Path) -> None:
    with interleaved(tmp_path) as live, Player(live.run, live.hand.clock) as player:
        for count in range(45):
            live.block(400 + count % 5, 384 + count % 3)
        view = player.look()
        assert view.interleaved is not None
        known = view.interleaved.compared.so_far
        assert known is not None and known.low is not None and known.high is not None
        bounds = f"[{100 * (known.low - 1):+.1f}, {100 * (known.high - 1):+.1f}]"
        rates = f"16.3 {404 / 0.05:,.0f} q/s  17.0 {385 / 0.05:,.0f} q/s"
        said = f"cells 1+2 of 2  r1  qr100   38%  {rates}  17.0 / 16.3: -4.2% {bounds} so far"
        assert follow.line(view) == said
        state = follow.record(view, ())["interleaved"]
        assert (state["planned_s"], state["blocks"]) == (12, 45)
        assert [side["subject"] for side in state["sides"]] == ["16.3", "17.0"]
        assert [side["ratio"] for side in state["sides"]] == [None, pytest.approx(385 / 402)]
        assert state["sides"][1]["low"] < state["sides"][1]["ratio"] < state["sides"][1]["high"]
        stall = live.stall("query", side=0)
        assert follow.line(player.look()) == f"{said}  ! 16.3 STALL query 0.0s so far"
        live.journal.update_event(stall, live.hand.at_ns, {})
        for side in (0, 1):
            live.end_step(side)
        assert follow.line(player.look()) == f"cells 1+2 of 2  r1  after qr100  17.0 / 16.3: -4.2% {bounds}"
        assert follow.record(player.look(), ())["interleaved"] is None

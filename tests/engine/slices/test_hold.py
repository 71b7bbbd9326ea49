"""Servers side by side that stand still while another does work that is not sliced."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import psycopg
import pytest

from engine.core.model import Build
from engine.host.procfs import children
from engine.journal.reader import JournalReader
from engine.journal.totals import StepTotals
from engine.postgres.server import SUPERUSER
from tests.support.benchcall import Bench, nothing_left, state, stopped, wait_for

PLAN = (
    "--rows", "2000", "--set", "shared_buffers=32MB", "--interleave", "slices", "--repeats", "1",
    "--query-seconds", "1",
)  # fmt: skip
SPIN = "SELECT count(*) FROM generate_series(1, 1000000000)"


@pytest.fixture
def pair(build: Callable[[int | str], Build]) -> str:
    return f"{build(14).label},{build(16).label}"


def postmasters(bench: Bench) -> list[int]:
    """The processes of both cells, in the order of these."""
    files = sorted(bench.run.glob("cells/*/data/postmaster.pid"))
    return [int(path.read_text().splitlines()[0]) for path in files]


def session(bench: Bench, cell: int) -> psycopg.Connection[tuple[object, ...]]:
    """One of its own on the server of a cell, by its place from 0."""
    socket = sorted(bench.run.glob("cells/*/socket"))[cell]
    return psycopg.connect(host=str(socket.resolve()), user=SUPERUSER, dbname="ib", autocommit=True)


def pause_of_first(bench: Bench, pair: str, steps: str) -> tuple[int, int]:
    """The postmasters of both servers once the first one has begun its pause, which lasts for three seconds."""
    bench.detached("--pg", pair, *PLAN, "--steps", steps)
    wait_for(lambda: begun(bench)[-1:] == ["pause"], "the pause")
    first, second = postmasters(bench)

    def second_alone_stands_still() -> bool:
        working, other = ({state(pid) for pid in children(server)} for server in (first, second))
        return other == {"T"} and "T" not in working

    wait_for(second_alone_stands_still, "the other server alone to be stopped")
    assert begun(bench)[-1] == "pause"
    return first, second


def begun(bench: Bench) -> list[str]:
    """The steps of the first cell that have begun."""
    return [step.name for attempt in bench.attempts()[:1] for step in bench.steps(attempt)]


def totals(bench: Bench, step: str) -> list[StepTotals]:
    """The processes of a step, of both cells."""
    with JournalReader(bench.run) as reader:
        steps = [row.totals for attempt in reader.attempts() for row in reader.steps(attempt.id) if row.name == step]
    return [step for step in steps if step is not None]


def test_all_of_the_other_server_stands_still_for_a_while(bench: Bench, pair: str) -> None:
    _, other = pause_of_first(bench, pair, "l.i0,l.x,pause,qr100")
    assert len(children(other)) > 5
    assert state(other) != "T", "it must obey its death signal"
    bench.await_end()
    assert [attempt.state for attempt in bench.attempts()] == ["finished", "finished"]
    nothing_left(bench)
    pauses, queries = totals(bench, "pause"), totals(bench, "qr100")
    assert all(pause.spill_over_ns is not None and pause.spill_over_ns < 50_000_000 for pause in pauses), pauses
    assert [query.spill_over_ns for query in queries] == [None, None], "each slice has its own"


@pytest.mark.parametrize("ends", ["engine", "server"])
def test_whatever_ends_meanwhile_nothing_stays_stopped_or_behind(bench: Bench, pair: str, ends: str) -> None:
    _, other = pause_of_first(bench, pair, "l.i0,pause")
    os.kill(other if ends == "server" else bench.engine_pid(), signal.SIGKILL)
    bench.await_end()
    wait_for(lambda: not stopped(bench.out), "all processes to go on")
    nothing_left(bench)

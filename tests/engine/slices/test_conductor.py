"""The conductor over two real servers, their clients real processes: whose turn it is, and the counts."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from engine.core.model import Subject
from engine.host.procfs import children
from engine.postgres.server import DATABASE, Server
from engine.slices.block_order import SliceSeed
from engine.slices.conductor import Orders
from engine.slices.drive import ConductorError, SliceStream, drive
from engine.slices.slice_record import Slice
from engine.slices.sliced_server import Side
from engine.system.account import Account
from tests.support.benchcall import state, wait_for
from workloads.client import slice_times
from workloads.client.counter_page import Control, Page, State, Word

QUESTIONS = 10**8
ROOT = Path(__file__).parents[3]


@contextmanager
def asking(server: Server, account: Account, clients: int, questions: int, answer: str) -> Iterator[Page]:
    """Clients that ask SELECT 1 or something `long` of a server, at the barrier."""
    page = Page.create(clients)
    spec = {
        "dsn": server.dsn(DATABASE),
        "page_fd": page.fd,
        "clients": clients,
        "questions": questions,
        "answer": answer,
    }
    launcher = subprocess.Popen(
        [sys.executable, "-m", "tests.support.toy"],
        stdin=subprocess.PIPE,
        pass_fds=(page.fd,),
        cwd=ROOT,
        **account.identity(),
    )
    assert launcher.stdin is not None
    launcher.stdin.write(msgspec.json.encode(spec))
    launcher.stdin.close()
    try:
        slots = range(clients)
        wait_for(lambda: all(page.word(slot, Word.STATE) == State.READY for slot in slots), "the clients to be ready")
        yield page
    finally:
        page.words[Control.STOP] = page.words[Control.RELEASE] = 1
        launcher.wait(60)
        page.close()


@contextmanager
def driven(
    servers: list[Server],
    account: Account,
    by: Literal["time", "work", "whole"] = "time",
    clients: int = 1,
    questions: Sequence[int] = (QUESTIONS, QUESTIONS),
    answer: str = "one",
) -> Iterator[tuple[list[Page], SliceStream]]:
    """Clients at work on servers that are driven in slices of 20 ms, or about as long."""
    with ExitStack() as stack:
        pages = [
            stack.enter_context(asking(server, account, clients, asked, answer))
            for server, asked in zip(servers, questions, strict=True)
        ]
        slots = tuple(range(clients))
        sides = tuple(
            Side(
                Subject(f"b{place}", "c"), page.fd, clients, slots, server.pid,
                tuple(page.word(slot, Word.BACKEND_PID) for slot in slots),
            )
            for place, (page, server) in enumerate(zip(pages, servers, strict=True))
        )  # fmt: skip
        orders = Orders(sides, 20, SliceSeed(1, 1, "ask"), by=by)
        conductor = stack.enter_context(drive(orders, account))
        for page in pages:
            page.words[Control.START_NS] = time.monotonic_ns()
        yield pages, conductor


def runs(server: Server) -> bool:
    """Return whether any process of the server but its postmaster is not stopped."""
    return not {state(pid) for pid in children(server.pid)} <= {"T"}


def collected(conductor: SliceStream, count: int) -> list[Slice]:
    slices: list[Slice] = []

    def enough() -> bool:
        slices.extend(conductor.slices())
        return len(slices) >= count

    wait_for(enough, f"{count} slices")
    return slices


@pytest.fixture
def pair(server: Callable[[int | str], Server]) -> list[Server]:
    return [server(14), server(16)]


def test_servers_take_turns_and_every_statement_is_counted_once(pair: list[Server], account: Account) -> None:
    with driven(pair, account) as (_, conductor):
        slices = collected(conductor, 240)  # or others' use of the processors hinders one of the servers throughout
        for earlier, later in itertools.pairwise(slices):
            assert later.opened_ns > earlier.counted_from_ns + earlier.counted_ns, "one was open while the other was"
    for block in range(1, slices[-1].block):
        order = [turn.side for turn in slices if turn.block == block]
        assert order == order[::-1] and sorted(order) == [0, 0, 1, 1]
    for side in (0, 1):
        of_side = [turn for turn in slices if turn.side == side]
        assert all(turn.rows == turn.ops <= turn.cpu_ops for turn in of_side)
        assert sum(turn.ops > 0 and turn.counted_ns > 0 for turn in of_side) > len(of_side) / 2
    # Each server's rate is what it would be alone, not half of it: about the same for both.
    rates = [
        sum(turn.ops for turn in slices if turn.side == side)
        / sum(turn.counted_ns for turn in slices if turn.side == side)
        for side in (0, 1)
    ]
    assert 0.4 < rates[0] / rates[1] < 2.5
    assert all(turn.cpu_ns > 0 for turn in slices if turn.ops)
    early = [turn for turn in slices if turn.early_ops]
    assert len(early) > len(slices) / 2 or all(turn.early_ns == 0 for turn in slices), "or statements were slow"
    assert all(0 < turn.early_ns <= turn.counted_ns and turn.early_ops <= turn.ops for turn in early)
    late = [turn for turn in early if turn.early_ns < 10_000_000]  # the client was kept from a CPU
    assert len(late) <= len(early) / 10


@pytest.mark.parametrize("clients", [1, 3])
def test_by_work_all_slices_of_a_block_have_as_many_rounds(pair: list[Server], account: Account, clients: int) -> None:
    with driven(pair, account, by="work", clients=clients) as (pages, conductor):
        slices = collected(conductor, 80)
        for earlier, later in itertools.pairwise(slices):
            assert later.opened_ns > earlier.counted_from_ns + earlier.counted_ns, "one was open while the other was"
        os.kill(conductor.process.pid, signal.SIGSTOP)
        ahead = [sum(page.word(slot, Word.STATEMENTS) for slot in range(clients)) for page in pages]
        os.kill(conductor.process.pid, signal.SIGCONT)
    blocks: dict[int, list[Slice]] = {}
    for turn in slices:
        blocks.setdefault(turn.block, []).append(turn)
    for block in blocks.values():
        assert len(block) == 4 and len({turn.cpu_ops for turn in block}) == 1
        assert block[0].cpu_ops % clients == 0
        assert all(0 <= turn.ops <= turn.cpu_ops for turn in block)
    assert sum(turn.ops for turn in slices) > sum(turn.cpu_ops for turn in slices) / 2
    assert abs(ahead[0] - ahead[1]) <= 4 * max(turn.cpu_ops for turn in slices), "they come apart"
    assert any(turn.imbalance_ns for turn in slices) == (clients > 1)


@pytest.mark.parametrize("questions", [(20_000, 3000), (1, 1)])
def test_work_left_at_the_end_is_done_but_not_counted(
    pair: list[Server], account: Account, questions: tuple[int, int]
) -> None:
    with driven(pair, account, by="work", questions=questions) as (pages, conductor):
        wait_for(lambda: all(page.word(0, Word.STATE) == State.DONE for page in pages), "the work to be done")
        wait_for(lambda: conductor.process.poll() == 0, "the conductor to end")
        slices = conductor.slices()
        for side, page in enumerate(pages):
            assert page.word(0, Word.STATEMENTS) == questions[side]
            assert sum(turn.cpu_ops for turn in slices if turn.side == side) <= min(questions)
            # Its pauses lie between its begin and its end, so that active time is right.
            active_ns = page.word(0, Word.ENDED_NS) - page.words[Control.START_NS] - page.words[Control.PAUSED_NS]
            assert active_ns >= sum(turn.counted_ns for turn in slices if turn.side == side)
    blocks = {turn.block for turn in slices}
    assert len(slices) == 4 * len(blocks)


def test_all_gates_open_when_the_engine_goes(pair: list[Server], account: Account) -> None:
    began_ns = time.monotonic_ns()
    with driven(pair, account) as (pages, conductor):
        slices = collected(conductor, 40)
        assert conductor.process.stdin is not None
        conductor.process.stdin.close()
        wait_for(lambda: conductor.process.poll() == 0, "the conductor to end")
        slices += conductor.slices()
        for side, page in enumerate(pages):
            assert page.words[Control.GATE] == 1 and page.words[Control.PAUSED_SINCE_NS] == 0
            own_ns = sum(turn.counted_ns for turn in slices if turn.side == side)
            others_ns = sum(turn.counted_ns for turn in slices if turn.side != side)
            assert others_ns < page.words[Control.PAUSED_NS] < time.monotonic_ns() - began_ns - own_ns
            done = page.word(0, Word.STATEMENTS)
            wait_for(lambda page=page, done=done: page.word(0, Word.STATEMENTS) > done, "it to go on")  # type: ignore[misc]


def test_whole_statements_are_cut_one_server_at_a_time(pair: list[Server], account: Account) -> None:
    with driven(pair, account, by="whole", questions=(2, 6), answer="long") as (pages, conductor):
        slices = collected(conductor, 4)
        for _ in range(5):
            os.kill(conductor.process.pid, signal.SIGSTOP)
            wait_for(lambda: state(conductor.process.pid) == "T", "the conductor to stop")
            wait_for(lambda: sum(map(runs, pair)) <= 1, "all servers but one to be stopped")  # a signal takes a moment
            assert "T" not in {state(server.pid) for server in pair}, "a postmaster must obey its death signal"
            os.kill(conductor.process.pid, signal.SIGCONT)
        wait_for(lambda: all(page.word(0, Word.STATE) == State.DONE for page in pages), "the work to be done")
        wait_for(lambda: conductor.process.poll() == 0, "the conductor to end")
        slices += conductor.slices()
        assert not {state(pid) for server in pair for pid in children(server.pid)} & {"T"}
        for earlier, later in itertools.pairwise(slices):
            assert later.opened_ns >= earlier.opened_ns + earlier.counted_ns, "one was open while the other was"
        for block in range(slices[-1].block):
            order = [turn.side for turn in slices if turn.block == block]
            assert order == order[::-1] and sorted(order) == [0, 0, 1, 1], "turns are kept to the end"
        for side, (page, questions) in enumerate(zip(pages, (2, 6), strict=True)):
            of_side = [turn for turn in slices if turn.side == side]
            assert page.word(0, Word.STATEMENTS) == questions < len(of_side), "statements are cut"
            assert sum(turn.spill_over_ns for turn in of_side) < 0.05 * sum(turn.cpu_ns for turn in of_side)
            # Its own time is that of its slices up to its end: nothing of the other's, nor of the turns it idled.
            ended_ns = page.word(0, Word.ENDED_NS)
            active_ns = slice_times.active_ns(page, ended_ns) - page.words[Control.START_NS]
            in_slices_ns = sum(max(0, min(turn.counted_ns, ended_ns - turn.opened_ns)) for turn in of_side)
            assert abs(active_ns - in_slices_ns) < 0.05 * in_slices_ns + 5e6
        idle = [turn for turn in slices if turn.side == 0 and turn.opened_ns > pages[0].word(0, Word.ENDED_NS)]
        assert len(idle) > 2 and not any(turn.stopped == 0 for turn in idle), "one that is done still has its turns"


@pytest.mark.parametrize(("by", "answer"), [("time", "one"), ("whole", "long")])
def test_a_killed_conductor_fails_the_step_and_stops_no_one(
    pair: list[Server], account: Account, by: Literal["time", "whole"], answer: str
) -> None:
    with driven(pair, account, by=by, answer=answer) as (_, conductor):
        collected(conductor, 8)
        both = [pid for server in pair for pid in children(server.pid)]
        if by == "time":
            os.kill(both[0], signal.SIGSTOP)
        os.kill(conductor.process.pid, signal.SIGKILL)
        with pytest.raises(ConductorError, match="the conductor ended with code -9"):
            wait_for(lambda: conductor.slices() is None, "the failure")
        if by == "whole":
            assert "T" in {state(pid) for pid in both}, "one of them was stopped"
    assert "T" not in {state(pid) for pid in both}


def test_a_step_that_is_stopped_ends_the_conductor(pair: list[Server], account: Account) -> None:
    with driven(pair, account) as (pages, conductor):
        collected(conductor, 4)
        pages[0].words[Control.STOP] = 1
        wait_for(lambda: conductor.process.poll() == 0, "the conductor to end")
        assert pages[1].words[Control.GATE] == 1

"""Inserts and deletes in slices of so many rounds, on a real server: who waits, and that nobody waits for ever."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

import pytest

from tests.support.benchcall import wait_for
from tests.support.ibdatabase import Database
from tests.support.steprun import StepResult, StepRun, run_step, running
from workloads.client import client_gate
from workloads.client.counter_page import UNLIMITED, Control, Page, State, Word
from workloads.client.process import clock
from workloads.insert.coupling import LowKeyLookup
from workloads.insert.maker import QUEUE_ROUNDS
from workloads.insert.options import Options
from workloads.insert.steps import InsertStep, plan_steps

Databases = Callable[[int | str], Database]
CLIENTS, LOADED, WRITTEN = 2, 3000, 5000
AT_WORK = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND backend_type = 'client backend'"
ROUNDS = 3  # of a slice: fewer than a queue between the streams holds


def sliced(run: StepRun, inserts: list[int]) -> Iterator[int]:
    """Opens the gate for slices, shuts it after each and says how many rounds inserts may have made by then."""
    page, quota = run.page, 0
    run.until(lambda: run.all_in(State.READY))
    client_gate.shut(page)
    page.words[Control.QUOTA] = 0
    client_gate.pause(page, clock())
    run.start()

    def all_used() -> bool:
        return all(page.word(slot, Word.QUOTA_USED) >= quota for slot in inserts)

    def ended() -> bool:
        return any(page.word(slot, Word.STATE) >= State.DONE for slot in inserts)

    while not ended():
        quota += ROUNDS
        client_gate.open_now(page)
        client_gate.allow(page, quota)
        run.until(lambda: all_used() or ended())
        client_gate.shut(page)
        run.until(partial(client_gate.is_quiet, page))
        client_gate.pause(page, clock())
        if not ended():
            yield quota
    client_gate.open_now(page)
    client_gate.allow(page, UNLIMITED)


def run_sliced(target: Database, step_name: str, generation: str, options: Options) -> StepResult:
    """A step in slices, watched at the end of each."""
    (step,) = (step for step in plan(generation) if step.name == step_name)
    with running(target.dsn, step, generation, clients=CLIENTS, options=options) as run:
        inserts, deletes = (
            [slot for slot, role in enumerate(run.roles) if role.name == name] for name in ("insert", "delete")
        )
        slices = 0
        for quota in sliced(run, inserts):
            slices += 1
            assert [run.page.word(slot, Word.STATEMENTS) for slot in inserts] == [quota] * CLIENTS
            for slot in deletes:
                assert abs(run.page.word(slot, Word.STATEMENTS) - quota) <= QUEUE_ROUNDS + 2
            assert target.one(AT_WORK) == 1, "a lookup goes on"
        assert slices >= (step.rounds - lost(step, generation)) // ROUNDS - 1
        return run.finish()


def lost(step: InsertStep, generation: str) -> int:
    """A stream gives up in g24a when the other has finished, and may leave what its queue held."""
    return 9 if generation == "g24a" and step.deletes else 0


def plan(generation: str) -> tuple[InsertStep, ...]:
    return plan_steps(generation, LOADED, CLIENTS, ["l.i0", "l.x", "l.i1"], rows_written=WRITTEN)


@pytest.mark.parametrize("generation", ["g22", "g24a", "g24b"])
def test_streams_under_a_quota_do_all_their_rows(
    database: Databases, generation: Literal["g22", "g24a", "g24b"]
) -> None:
    target = database(16)
    options = Options(generation=generation, resync_rounds=5)
    for step in plan(generation):
        if step.kind == "index":
            assert run_step(target.dsn, step, generation, clients=CLIENTS, options=options).exit_code == 0
            continue
        before = [] if step.kind == "load" else [target.one(f"SELECT count(*) FROM pi{n}") for n in (1, 2)]
        result = run_sliced(target, step.name, generation, options)
        assert result.exit_code == 0
        for client in range(1, CLIENTS + 1):
            words = result[client, "insert"]
            assert step.rounds - lost(step, generation) <= words[Word.STATEMENTS] <= step.rounds
            deleted = result[client, "delete"][Word.ROWS_ACTUAL] if step.deletes else 0
            rows = target.one(f"SELECT count(*) FROM pi{client}")
            assert rows == (before[client - 1] if before else 0) + words[Word.ROWS_ACTUAL] - deleted
            if step.deletes and generation == "g24b":
                assert words[Word.ROWS_ACTUAL] == deleted == step.rows
                assert words[Word.MIN_LOOKUPS] >= step.rounds // 6


def test_a_lookup_is_sent_and_ends_in_the_servers_own_slice(database: Databases) -> None:
    wake_fd = os.eventfd(0)
    page = Page.create(1)
    lookup = LowKeyLookup(database(16).dsn, "SELECT 7 FROM pg_sleep(0.3)", True, wake_fd, page, 0)
    client_gate.shut(page)
    assert lookup.poll() is None  # begins one
    assert not select.select([wake_fd], [], [], 0.6)[0] and client_gate.is_quiet(page)
    client_gate.open_now(page)
    wait_for(lambda: not client_gate.is_quiet(page), "the lookup to be sent")
    client_gate.shut(page)
    wait_for(lambda: client_gate.is_quiet(page), "the lookup to end")
    assert os.eventfd_read(wake_fd) == 1
    answer = lookup.poll()
    assert answer is not None
    low_key, took_ns = answer
    assert low_key == 7 and took_ns >= 300_000_000
    os.close(wake_fd)
    page.close()

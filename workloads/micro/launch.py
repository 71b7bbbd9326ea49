"""The launcher of a task: prepares it, has it timed once the step begins, counts it in the page, reports the rest.

What it starts ends with it in any case: by the kernel, for its own children; by its guard, for servers that pg_ctl
started; others (an initdb) are ended by the engine with the cell. Orphans of programs that it started become its
children, so that it sees their end.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import chain
from operator import attrgetter
from statistics import fmean
from typing import Any

import msgspec

from workloads.client import client_gate
from workloads.client.connection import Session, SqlError
from workloads.client.counter_page import Control, Page, State, Word
from workloads.client.process import (
    Stopped,
    await_slice,
    begin_alone,
    check_stop,
    clock,
    die_with_parent,
    end_alone,
    name_process,
    pair_with_backend,
    recorder,
    stop_on_signals,
    untimed,
)
from workloads.micro import planning
from workloads.micro.hyperfine import HyperfineFailed, Measured, time_once
from workloads.micro.preparation import PreparedTask, prepared
from workloads.micro.spec import MicroSpec

PR_SET_CHILD_SUBREAPER = 36
PLAN = "plan"
EMPTY_RUNS = 5  # of which the fastest counts


def _plan(spec: MicroSpec, page: Page, check: Callable[[], None]) -> dict[str, Any]:
    planning.prepare(spec.dsn, spec.options.plans, check)
    with Session(spec.dsn, check) as session:
        page.set_word(0, Word.BACKEND_PID, session.connection.backend_pid)
        begin_alone(page)
        planning.plan(session, page, spec.options.plans)
        end_alone(page, clock())
    return {}


def _time(spec: MicroSpec, page: Page, check: Callable[[], None]) -> dict[str, Any]:
    hyperfine, runs = spec.programs["hyperfine"], spec.options.runs
    every: list[Measured] = []
    work: list[dict[str, float]] = []
    of_servers_s = 0.0

    def timed(command: list[str], task: PreparedTask) -> Measured:
        return time_once(hyperfine, command, task.folder, task.environment, check)

    with closing(prepared(spec, check)) as tasks:
        first = next(tasks)
        empty = min((timed(first.empty, first) for _ in range(EMPTY_RUNS)), key=attrgetter("wall_s"))
        record = recorder(page, 0, 1)
        begin_alone(page)
        if first.sql and client_gate.is_sliced(page):
            return _cut(spec, page, check, [first, *tasks])
        for task in chain((first,), tasks):
            page.set_word(0, Word.IN_FLIGHT_NS, clock())
            result = timed(task.command, task)
            ended_ns = clock()
            if task.sql:
                result = result.without(empty)
            record(ended_ns - round(result.wall_s * 1e9), ended_ns, 1, 0)
            page.set_word(0, Word.IN_FLIGHT_NS, 0)
            every.append(result)
            work.append(task.work)
            of_servers_s += task.done()  # at once: its server would go on using CPU time
            if len(every) == runs:
                end_alone(page, ended_ns)
    user_s, system_s = fmean(run.user_s for run in every), fmean(run.system_s for run in every)
    timing = {
        "user_s": user_s,
        "system_s": system_s,
        "memory_bytes": max((run.memory_bytes for run in every if run.memory_bytes is not None), default=None),
        "floor_s": empty.wall_s,
        # The servers of initdb are its children, and included in its time.
        "server_cpu_s": (of_servers_s / runs or user_s + system_s) if spec.kit is not None else None,
        "times_s": [run.wall_s for run in every],
    }
    return {
        "timing": timing,
        "work": {name: fmean(amounts[name] for amounts in work) for name in work[0]},
        "hyperfine": [run.found for run in every],
    }


def _cut(spec: MicroSpec, page: Page, check: Callable[[], None], tasks: Sequence[PreparedTask]) -> dict[str, Any]:
    """The statements themselves, in slices, by their server's own time: programs would work in others' turns."""
    record = recorder(page, 0, 1)
    times_s: list[float] = []
    ended_ns = clock()
    with untimed(page, 0):
        session = Session(spec.dsn, check)
    page.set_word(0, Word.BACKEND_PID, session.connection.backend_pid)
    pair_with_backend(page, 0, session.connection, 0)  # as the conductor binds those that it knows
    with session:
        for task in tasks:
            began_ns = client_gate.active_ns(page, await_slice(page, 0))
            session.run(task.sql)
            ended_ns = clock()
            took_ns = client_gate.active_ns(page, ended_ns) - began_ns
            record(ended_ns - took_ns, ended_ns, 1, 0)
            times_s.append(took_ns / 1e9)
        end_alone(page, ended_ns)
    return {"timing": {"times_s": times_s}}


def main() -> int:
    die_with_parent(os.getppid())
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    name_process("micro launcher")
    spec = msgspec.json.decode(sys.stdin.buffer.read(), type=MicroSpec)
    page = Page(spec.page_fd, 1)

    def check() -> None:
        check_stop(page)

    stop_on_signals(page)
    page.set_word(0, Word.CLIENT_PID, os.getpid())
    state, code = State.STOPPED, 2
    try:
        report = (_plan if spec.step == PLAN else _time)(spec, page, check)
        sys.stdout.buffer.write(msgspec.json.encode(report))
        return 0
    except Stopped:
        pass
    except (HyperfineFailed, SqlError, OSError) as error:
        if not page.words[Control.STOP]:
            page.set_error(0, f"{spec.step}: {' '.join(str(error).split())}")
            page.words[Control.STOP] = 1
            state, code = State.FAILED, 1
    if page.word(0, Word.STATE) != State.DONE:
        page.set_word(0, Word.STATE, state)
    return code


if __name__ == "__main__":
    sys.exit(main())

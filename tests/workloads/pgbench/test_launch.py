"""A program in pgbench's place: its state while it runs, and the kept part of its output."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from workloads.client.counter_page import Page
from workloads.pgbench.backends import first_backends
from workloads.pgbench.launch import PgbenchStep
from workloads.pgbench.log_counts import LogCounts
from workloads.pgbench.options import Options
from workloads.pgbench.program import PRINTED_MAX_BYTES, PgbenchProcess
from workloads.pgbench.spec import PgbenchSpec


def shell(tmp_path: Path, script: str, threads: int, by_line: bool = False, waiting: bool = False) -> PgbenchProcess:
    return PgbenchProcess(["/bin/sh", "-c", script, str(tmp_path)], tmp_path, threads, by_line, waiting)


@pytest.mark.parametrize("by_line", [False, True])
def test_the_log_is_open_once_the_program_has_opened_it(tmp_path: Path, by_line: bool) -> None:
    script = 'exec 3> "$0/log.$$"; kill -STOP $$; exec 3>&-; kill -STOP $$'
    with shell(tmp_path, script, 1, by_line, waiting=True) as program:
        assert not program.has_opened_logs()  # the child, which is to become it, has our descriptor
        for opened in (True, False):
            program.send(signal.SIGCONT)
            os.waitpid(program.pid, os.WUNTRACED)
            assert program.has_opened_logs() is opened


def test_of_what_it_prints_a_part_is_kept_in_memory(tmp_path: Path) -> None:
    script = "echo first >&2; head -c 3000000 /dev/zero >&2; echo last >&2; kill -STOP $$"
    with shell(tmp_path, script, 0) as program:
        os.waitpid(program.pid, os.WUNTRACED)
        assert not program.has_ended()
        held = os.fstat(program.errors_fd).st_blocks * 512
        assert held <= PRINTED_MAX_BYTES + 65536
        assert program.errors.startswith("first") and len(program.errors) == PRINTED_MAX_BYTES


@pytest.mark.parametrize(
    ("opened", "seen", "expected"),
    [
        ((False, False, True), ([7],), {7}),
        ((False, True, True), ([7],), set()),  # it may have been a client, which came between the two looks
        ((False, False, False, True, True), ([7], [7, 8]), {7}),
        ((True,), (), set()),
    ],
)
def test_another_clients_backend_is_not_taken_for_the_first(
    opened: Sequence[bool], seen: Sequence[list[int]], expected: set[int]
) -> None:
    looks, queries = iter(opened), iter(seen)
    assert first_backends(lambda: next(looks), lambda: next(queries), lambda: None) == expected


@pytest.mark.parametrize(("rate", "stopped"), [(None, True), (100.0, False)])
def test_pgbench_waits_for_the_step_unless_rate_limited(tmp_path: Path, rate: float | None, stopped: bool) -> None:
    page = Page.create(1)
    spec = PgbenchSpec(
        page_fd=0, folder="", data_folder="", dsn="", program="", version=18, options=Options(rate=rate), scripts=(),
        step={}, warm_clients=1, log_every=1, log_by_line=False, seed=1,
    )  # fmt: skip
    step = PgbenchStep(spec, page, tmp_path)
    with shell(tmp_path, "exec sleep 600", 0) as step.pgbench:
        step.halt()
        if stopped:
            os.waitid(os.P_PID, step.pgbench.pid, os.WSTOPPED)
        state = Path(f"/proc/{step.pgbench.pid}/stat").read_text().rpartition(")")[2].split()[0]
        assert (state == "T") is stopped
        step.go_on()
        assert (step.stopped_ns > 0) is stopped
    page.close()


def test_only_a_log_that_is_too_dense_is_thinned(tmp_path: Path) -> None:
    page = Page.create(1)
    spec = PgbenchSpec(
        page_fd=0, folder="", data_folder="", dsn="", program="", version=18, options=Options(), scripts=(),
        step={}, warm_clients=1, log_every=4, log_by_line=False, seed=1,
    )  # fmt: skip
    for lines, every in ((3 * 500, 1), (3 * 501, 2), (3 * 1600, 4)):
        step = PgbenchStep(spec, page, tmp_path, thinnable=True)
        step.counting = LogCounts(page, 4, 0, limited=False, late_us=0.0, lines=lines)
        step.thin(1_000_000_000)
        assert step.taken_every == 1  # too early to tell
        step.thin(3_000_000_000)
        step.thin(4_000_000_000)
        assert (step.taken_every, step.counting.every) == (every, 4 * every)
        kept = [text for first in range(0, 60, 5) for text in step.needed([b"%d" % n for n in range(first, first + 5)])]
        assert kept == [b"%d" % n for n in range(every - 1, 60, every)]
    page.close()

"""A server as the conductor drives it."""

from __future__ import annotations

import os
import subprocess

import pytest

from engine.core.model import Subject
from engine.slices.sliced_server import Processes, Side, SlicedServer
from tests.support.benchcall import wait_for
from workloads.counter_page import Page


def test_processes_started_since_the_last_slice_did_all_their_work_in_others_slices() -> None:
    page = Page.create(1)
    side = Side(Subject("16.3", "auto"), page.fd, 1, (0,), os.getpid())
    driven = SlicedServer(side, page, Processes(os.getpid(), 0), used={11: (500, 0)})
    assert driven.spill_over_ns({11: (700, 0), 12: (30, 0)}) == 230
    page.close()


@pytest.mark.slow
def test_processes_that_still_want_a_cpu_are_told_from_those_that_sleep_or_did_nothing() -> None:
    page = Page.create(1)
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2)]
    idle = subprocess.Popen(["sleep", "60"])
    try:
        side = Side(Subject("16.3", "auto"), page.fd, 1, (0,), os.getpid())
        pids = [*(process.pid for process in busy), idle.pid]
        server = SlicedServer(side, page, Processes(os.getpid(), 0), used=dict.fromkeys(pids, (500, 0)) | {1: (9, 0)})
        wait_for(lambda: server.still_running({1: (9, 0)}) == 2, "two that run, and one that sleeps")
        assert server.still_running({pids[0]: (500, 0), 1: (9, 0)}) == 1, "the first did nothing since"
    finally:
        for process in (*busy, idle):
            process.kill()
            process.wait()
        page.close()
    assert server.still_running({1: (9, 0)}) == 0, "they have ended"

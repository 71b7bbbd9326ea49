"""A server as the conductor drives it."""

from __future__ import annotations

import os
import subprocess
import time

from engine.core.model import Subject
from engine.slices.sliced_server import Processes, Side, SlicedServer
from workloads.client.counter_page import Page, Word


def test_new_processes_count_all_their_work_as_spill_over() -> None:
    page = Page.create(1)
    side = Side(Subject("16.3", "auto"), page.fd, 1, (0,), os.getpid())
    driven = SlicedServer(side, page, Processes(os.getpid(), 0), used={11: (500, 0)})
    assert driven.spill_over_ns({11: (700, 0), 12: (30, 0)}) == 230
    page.close()


def test_no_process_waits_for_longer_than_the_slice() -> None:
    page = Page.create(1)
    side = Side(Subject("16.3", "auto"), page.fd, 1, (0,), os.getpid())
    used = {11: (600, 3600 * 10**9), 12: (30, 40)}
    driven = SlicedServer(side, page, Processes(os.getpid(), 0), used=used)
    cpu_ns, runq_ns = driven.used_since({11: (500, 10**9)}, time.monotonic_ns() - 10**9)
    assert cpu_ns == 130
    assert 10**9 - 100 + 40 <= runq_ns < 3000 * 10**9
    page.close()


def test_clients_and_backends_of_all_servers_get_the_same_cpus() -> None:
    processes = [subprocess.Popen(["sleep", "60"]) for _ in range(8)]
    pages = [Page.create(2) for _ in range(2)]
    try:
        pids = [process.pid for process in processes]
        cpus = []
        for place, page in enumerate(pages):
            backends = tuple(pids[4 * place : 4 * place + 2])
            for slot, client in enumerate(pids[4 * place + 2 : 4 * place + 4]):
                page.set_word(slot, Word.CLIENT_PID, client)
            side = Side(Subject("16.3", "auto"), page.fd, 2, (0,), os.getpid(), backends)
            SlicedServer(side, page, Processes(os.getpid(), 0)).bind()
            cpus.append([os.sched_getaffinity(pid) for pid in pids[4 * place : 4 * place + 4]])
        assert cpus[0] == cpus[1]
        assert cpus[0][:2] == cpus[0][2:], "each client has its backend's"
        if len(os.sched_getaffinity(0)) > 1:
            assert all(len(mask) == 1 for mask in cpus[0])
            assert [page.word(slot, Word.CPU_PLUS_1) - 1 for slot in (0, 1)] == [min(mask) for mask in cpus[0][:2]]
    finally:
        for process in processes:
            process.kill()
            process.wait()
        for page in pages:
            page.close()

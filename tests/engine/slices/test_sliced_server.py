"""A server as the conductor drives it."""

from __future__ import annotations

import os

from engine.core.model import Subject
from engine.slices.sliced_server import Processes, Side, SlicedServer
from workloads.counter_page import Page


def test_processes_started_since_the_last_slice_did_all_their_work_in_others_slices() -> None:
    page = Page.create(1)
    side = Side(Subject("16.3", "auto"), page.fd, 1, (0,), os.getpid())
    driven = SlicedServer(side, page, Processes(os.getpid(), 0), used={11: (500, 0)})
    assert driven.spill_over_ns({11: (700, 0), 12: (30, 0)}) == 230
    page.close()

"""One CPU for a client and its backend."""

from __future__ import annotations

import os

from workloads.client.counter_page import Page, Word


def cpus() -> list[int]:
    """The CPUs of this process, from the last one down, as the first often serves interrupts."""
    return sorted(os.sched_getaffinity(0), reverse=True)


def bind(page: Page, slot: int, backend: int, client: int, cpu: int) -> None:
    """Bind a role's backend and client (0: this process) to one CPU, and record it. Raises OSError."""
    os.sched_setaffinity(backend, {cpu})
    os.sched_setaffinity(client, {cpu})
    page.set_word(slot, Word.CPU_PLUS_1, cpu + 1)

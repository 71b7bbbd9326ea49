"""The launcher of the Insert Benchmark's clients, whose roles count how often they read the active clock.

`readings` finds the count in the counters page: a word of the control block that nobody else uses.
"""

from __future__ import annotations

import os
import sys

from workloads import process
from workloads.counter_page import CONTROL_WORDS, Page

COUNTS = 16  # words of the control block from here on, by process id

plainly_active = process.active


def readings(page: Page, client: int) -> int:
    """How often a role's process has read the clock."""
    return page.words[_place(client)]


def counted(page: Page) -> int:
    """In place of `workloads.process.active`."""
    page.words[_place(os.getpid())] += 1
    return plainly_active(page)


def _place(client: int) -> int:
    return COUNTS + client % (CONTROL_WORDS - COUNTS)


if __name__ == "__main__":
    process.active = counted  # before others import it from there
    from workloads.insert.launch import main

    sys.exit(main())

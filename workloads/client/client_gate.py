"""The gate for a server's clients: shut during slices of another server.

Statements are never cut: a role checks the gate before it sends, and waits there. Active time is the monotonic clock
less the server's pauses; limiters and intended starts use it, so that no debt builds up during another server's slice.
Roles wait in the kernel (a futex on the page's word): waiting costs no CPU, and opening wakes all of them at once.

In slices of equal work, each role that does the work also has a quota: the number of rounds that it may begin, counted
from the start of the step. A role that has used it up sets `Word.QUOTA_USED` and waits for a larger one, while the gate
may stay open for the others.
"""

from __future__ import annotations

import ctypes
import platform
import time

from workloads.client.counter_page import Control, Page, Word

FUTEX_WAIT, FUTEX_WAKE, ALL = 0, 1, 2**31 - 1
_SYS_FUTEX = {"x86_64": 202, "aarch64": 98}.get(platform.machine(), 0)
_syscall = ctypes.CDLL(None, use_errno=True).syscall


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def wait_while(page: Page, index: int, value: int, timeout_s: float) -> None:
    """Block until a word of the page is woken or the timeout expires; return at once if it has another value."""
    timeout, address = _Timespec(int(timeout_s), int(timeout_s % 1 * 1e9)), ctypes.c_void_p(page.address(index))
    # The kernel compares 32 bits: the word's lower half.
    _syscall(_SYS_FUTEX, address, FUTEX_WAIT, ctypes.c_uint32(value), ctypes.byref(timeout), None, 0)


def wake(page: Page, index: int) -> None:
    _syscall(_SYS_FUTEX, ctypes.c_void_p(page.address(index)), FUTEX_WAKE, ALL, None, None, 0)


def wait_while_shut(page: Page, timeout_s: float) -> None:
    wait_while(page, Control.GATE, 0, timeout_s)


def shut(page: Page) -> None:
    """Stop roles from sending. Statements in flight end first: see `is_quiet`."""
    page.words[Control.GATE] = 0


def is_quiet(page: Page) -> bool:
    """Whether no statement is in flight, with the gate shut. Roles mark a statement before they check the gate."""
    return not any(page.word(slot, Word.IN_FLIGHT_NS) or page.word(slot, Word.BUSY) for slot in range(page.roles))


def is_sliced(page: Page) -> bool:
    """Whether a step that has begun runs in slices; its first one may be under way."""
    return not page.words[Control.GATE] or bool(page.words[Control.PAUSED_NS])


def pause(page: Page, since_ns: int) -> None:
    page.words[Control.PAUSED_BEFORE_NS] = page.words[Control.PAUSED_NS]
    page.words[Control.PAUSED_SINCE_NS] = since_ns


def allow(page: Page, rounds: int) -> None:
    page.words[Control.QUOTA] = rounds
    wake(page, Control.QUOTA)


def tell_change(page: Page) -> None:
    """Wake the engine when a role has ended, which it would otherwise see only at its next sample."""
    page.words[Control.CHANGED_NS] = time.monotonic_ns()
    wake(page, Control.CHANGED_NS)


def open_now(page: Page) -> int:
    """End the pause, open the gate and wake the roles that wait there; return the time."""
    words, now_ns = page.words, time.monotonic_ns()
    since_ns = words[Control.PAUSED_SINCE_NS]
    if since_ns:
        words[Control.PAUSED_NS] += now_ns - since_ns
        words[Control.PAUSED_SINCE_NS] = 0
    words[Control.GATE] = 1
    wake(page, Control.GATE)
    return now_ns


def active_ns(page: Page, t_ns: int) -> int:
    """Convert a time of the monotonic clock, now or since the last pause, to active time.

    A pause may begin or end between any two reads. The word that counts during a pause is written only outside one, and
    vice versa, so each is right if it has not changed afterwards; no reader waits for the writer.
    """
    words = page.words
    while True:
        paused_ns, since_ns = words[Control.PAUSED_NS], words[Control.PAUSED_SINCE_NS]
        if not since_ns and words[Control.PAUSED_NS] == paused_ns:
            return t_ns - paused_ns
        before_ns = words[Control.PAUSED_BEFORE_NS]
        if since_ns and words[Control.PAUSED_SINCE_NS] == since_ns:
            return min(t_ns, since_ns) - before_ns

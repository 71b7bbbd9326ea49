"""The end of the terminal: who has lost it leaves, and takes along the commands that were asked on its behalf.

A terminal that is gone reads as empty for ever, and a write to it fails in a thread of the toolkit, which the
application is not notified of. It is therefore watched here.
"""

import asyncio
import os
import select
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable

from textual.app import App

from tui import bench

LOST = 128 + signal.SIGHUP  # exit code, as a shell has it
PATIENCE_S = 3 * bench.ENDING_S  # in which the application has ended, or is ended


def paint_where_it_is_seen() -> None:
    """The framework paints on standard error: lets it be standard output where only that is a terminal."""
    seen, painted = sys.__stdout__, sys.__stderr__
    if seen is not None and seen.isatty() and not (painted is not None and painted.isatty()):
        sys.__stderr__ = seen  # type: ignore[misc]  # complaints still go where they were sent to


def watch(app: App[None]) -> None:
    """Ends an application when its terminal is gone, or a signal says so. Called in its event loop."""
    loop = asyncio.get_running_loop()

    def leave(code: int) -> None:
        app.exit(return_code=code)
        threading.Thread(target=_insist, args=(code,), daemon=True).start()

    for number in (signal.SIGHUP, signal.SIGTERM):
        loop.add_signal_handler(number, leave, 128 + number)
    fd = sys.__stdin__.fileno() if sys.__stdin__ is not None else 0
    if os.isatty(fd) or _is_pipe(fd):
        hung_up = lambda: loop.call_soon_threadsafe(leave, LOST)  # noqa: E731
        threading.Thread(target=_await_hang_up, args=(fd, hung_up), daemon=True, name="terminal").start()


def _is_pipe(fd: int) -> bool:
    """Whether a page in a browser is the terminal: its keys come from the server, which may be killed."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _await_hang_up(fd: int, then: Callable[[], object]) -> None:
    poll = select.poll()
    poll.register(fd, 0)  # without being asked it reports POLLHUP and POLLERR, and nothing else
    poll.poll()
    then()


def _insist(code: int) -> None:
    """Where the application cannot end, for instance since it waits for a write to the terminal."""
    time.sleep(PATIENCE_S)
    bench.end_all()
    os._exit(code)

"""Loss of the terminal: the interface ends, along with the commands that it has started.

A lost terminal reads as empty for ever, and a write to it fails in a thread of Textual, without notice to the
application. Therefore it is watched here.
"""

import asyncio
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable

from textual.app import App

from tui import bench

LOST = 128 + signal.SIGHUP  # exit code, as in a shell
PATIENCE_S = 3 * bench.ENDING_S  # after which the application is killed


def paint_on_terminal() -> None:
    """Let Textual, which paints on standard error, paint on standard output if only that is a terminal."""
    out, err = sys.__stdout__, sys.__stderr__
    if out is not None and out.isatty() and not (err is not None and err.isatty()):
        sys.__stderr__ = out  # type: ignore[misc]  # sys.stderr, for error messages, stays as it was


def watch(app: App[None]) -> None:
    """End the application when its terminal is lost, or on a signal. Called in its event loop."""
    loop = asyncio.get_running_loop()

    def leave(code: int) -> None:
        app.exit(return_code=code)
        threading.Thread(target=_insist, args=(code,), daemon=True).start()

    for number in (signal.SIGHUP, signal.SIGTERM):
        loop.add_signal_handler(number, leave, 128 + number)
    fd = sys.__stdin__.fileno() if sys.__stdin__ is not None else 0
    if os.isatty(fd):
        hung_up = lambda: loop.call_soon_threadsafe(leave, LOST)  # noqa: E731
        threading.Thread(target=_await_hang_up, args=(fd, hung_up), daemon=True, name="terminal").start()


def _await_hang_up(fd: int, then: Callable[[], object]) -> None:
    poll = select.poll()
    poll.register(fd, 0)  # no events requested: it reports only POLLHUP and POLLERR
    poll.poll()
    then()


def _insist(code: int) -> None:
    """Kill an application that cannot end, for instance because it waits for a write to the terminal."""
    time.sleep(PATIENCE_S)
    bench.end_all()
    os._exit(code)

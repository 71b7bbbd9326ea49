"""How the interface starts beside a run that is being measured: one after another, and behind who works.

What starting costs is nearly all imports. They are done by a thread of their own, of the lowest priority: threads have
theirs by themselves on Linux, and what the interface starts later, an engine perhaps, is to have the usual one. Where
nothing is left for it, as no CPU is ever idle, it begins again after a while with somewhat more: a thread that has
little cannot be given more.
"""

import fcntl
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from engine.journal.lock import is_locked

MODES = ("launch", "live", "compare", "probes", "history")  # the screens, by their numbers
LOWEST, LOW = 19, 5  # niceness: a seventieth of what others get who want the same CPU; a third
LOW_FROM = "PGBED_STARTS_LOW"  # in the environment, of one that begins again
LOADING_S = 5.0  # with the lowest
PATIENCE_S = 10.0  # for those that start before
LOOK_S = 0.02


def gently(run: Path | None, load: Callable[[], None]) -> Callable[[], None]:
    """Calls `load`, and returns what is to be called once something is shown; at once where no run is under way."""
    again = os.environ.pop(LOW_FROM, None) is not None
    if run is None or not is_locked(run):
        load()
        return lambda: None
    turn = _turn(run)
    thread = threading.Thread(target=_behind, args=(load, LOW if again else LOWEST), name="loading", daemon=True)
    thread.start()
    thread.join(None if again else LOADING_S)
    if thread.is_alive():
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | {LOW_FROM: "1"})
    return lambda: os.close(turn) if turn is not None else None


def _behind(load: Callable[[], None], niceness: int) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)  # who started it may have given it less already, which nobody can undo
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), max(own, niceness))
    load()


def _turn(run: Path) -> int | None:
    """Waits until no other starts on the run, but not for ever. It is kept as long as the descriptor is open."""
    try:
        folder = os.open(run, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None  # what is wrong with it is said where it is read
    end_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return folder
        except OSError:
            if time.monotonic() > end_s:
                return folder
        time.sleep(LOOK_S)

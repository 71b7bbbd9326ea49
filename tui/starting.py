"""How the interface starts beside a run that is being measured: one after another, and behind who works.

What starting costs is nearly all imports. They are done by a thread of their own, of the lowest priority: threads have
theirs by themselves on Linux, and what the interface starts later, an engine perhaps, is to have the usual one. Where
nothing is left for it, as no CPU is ever idle, it begins again after a while with somewhat more: a thread that has
little cannot be given more.

That holds within a session only where the kernel shares the CPUs among sessions first (sched(7), autogroup): there ten
terminals would take ten shares, whatever the priority of what runs in them. The session is then given a low priority
as long, and a process of its own sees to it that it gets back what it had, whatever becomes of this one.
"""

import fcntl
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from engine.journal.run_lock import is_locked

MODES = ("launch", "live", "compare", "probes", "history")  # the screens, by their numbers
LOWEST, LOW = 19, 5  # niceness: a seventieth of what others get who want the same CPU; a third
LOW_FROM = "PGBED_STARTS_LOW"  # in the environment, of one that begins again
LOADING_S = 5.0  # with the lowest
PATIENCE_S = 10.0  # for those that start before
LOOK_S = 0.02
SESSION = Path("/proc/self/autogroup")  # `/autogroup-123 nice 0`
TRIES, BETWEEN_TRIES_S = 50, 0.1  # the kernel takes one of these a tenth of a second from all users together


def gently(run: Path | None, load: Callable[[], None]) -> Callable[[], None]:
    """Calls `load`, and returns what is to be called once something is shown; at once where no run is under way."""
    again = os.environ.pop(LOW_FROM, None) is not None
    if run is None or not is_locked(run):
        load()
        return lambda: None
    turn = _turn(run)
    niceness = LOW if again else LOWEST
    release = _session_behind(niceness, turn)
    thread = threading.Thread(target=_behind, args=(load, niceness), name="loading", daemon=True)
    thread.start()
    thread.join(None if again else LOADING_S)
    if thread.is_alive():
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | {LOW_FROM: "1"})

    def shown() -> None:
        release()
        if turn is not None:
            os.close(turn)

    return shown


def _session_behind(niceness: int, turn: int | None) -> Callable[[], None]:
    """Gives this session less than others, where sessions are shared among; returns what gives it back.

    So does the end of this process: another one in the session waits for it, and heeds no signal of a terminal.
    """
    usual = _session_niceness()
    if usual is None or not 0 <= usual < niceness or not _give_session(niceness, 1):
        return lambda: None
    waiting, held = os.pipe2(os.O_CLOEXEC)
    if (between := os.fork()) == 0:  # one in between that ends: nobody has to wait for the other
        try:
            if os.fork() == 0:
                _give_back(usual, waiting, (0, 1, 2, held, *(() if turn is None else (turn,))))
        finally:
            os._exit(0)
    os.close(waiting)
    os.waitpid(between, 0)
    return lambda: os.close(held)


def _give_back(usual: int, waiting: int, unused: Sequence[int]) -> None:
    """Once the other end of `waiting` is closed, by whatever."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    for inherited in unused:
        with suppress(OSError):
            os.close(inherited)
    os.read(waiting, 1)
    _give_session(usual, TRIES)


def _session_niceness() -> int | None:
    """None where sessions are not shared among."""
    try:
        return int(SESSION.read_text().split()[-1])
    except (OSError, ValueError, IndexError):
        return None


def _give_session(niceness: int, tries: int) -> bool:
    for _ in range(tries):
        try:
            SESSION.write_text(str(niceness))
        except BlockingIOError:
            time.sleep(BETWEEN_TRIES_S)
        except OSError:
            return False
        else:
            return True
    return False


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

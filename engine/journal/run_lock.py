"""The lock of a run: its journal's writer holds it, so that there is at most one, and none while the run is removed."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.core.errors import UserError
from engine.host.files import open_plain, read_plain

_TRIES, _PAUSE_S = 4, 0.05  # a reader that asks `is_locked` has it for some microseconds


def is_locked(run: Path) -> bool:
    """Whether an engine has the run's journal open."""
    try:
        lock = open_plain(run / "engine.lock")
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def holder(run: Path) -> int | None:
    """The process id of the engine that has, or last had, the run's journal open, as that engine wrote it."""
    try:
        return int(read_plain(run / "engine.lock", 32))
    except (OSError, ValueError):
        return None


def take(run: Path) -> int:
    """Take the lock; it goes with the descriptor. Raises UserError when an engine has it."""
    path = run / "engine.lock"
    try:
        lock = open_plain(path, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from error
    for left in reversed(range(_TRIES)):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except BlockingIOError:
            if left:
                time.sleep(_PAUSE_S)
    os.close(lock)
    raise UserError(
        f"{run}: another engine (pid {holder(run) or 'unknown'}) is running it; watch it with `bench watch`"
    )


@contextmanager
def held(run: Path) -> Iterator[None]:
    """Keep engines from starting on a run. Raises UserError when one has it."""
    lock = take(run)
    try:
        yield
    finally:
        os.close(lock)

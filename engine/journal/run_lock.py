"""The lock of a run, held by its journal's only writer, and while the run is removed."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.core.errors import UserError
from engine.system.files import open_plain, read_plain

_TRIES, _PAUSE_S = 4, 0.05  # `is_locked` in another process holds the lock for some microseconds


def is_locked(run: Path) -> bool:
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
    """Process id of the engine that has, or last had, the journal open."""
    try:
        return int(read_plain(run / "engine.lock", 32))
    except (OSError, ValueError):
        return None


def take(run: Path) -> int:
    """Take the lock, which is released with the descriptor. Raises UserError if an engine has it."""
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
    """Keep engines from starting on a run. Raises UserError if one has it."""
    lock = take(run)
    try:
        yield
    finally:
        os.close(lock)

"""One run at a time measures on a machine."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.core.errors import UserError

HOST_LOCK = "\0pgbed-measures"


def is_held() -> bool:
    """Whether a run has the lock. It is only looked at: who tried to take it would keep a run off meanwhile."""
    try:
        names = Path("/proc/net/unix").read_text()
    except OSError:
        return False  # who starts a run is told
    return any(row.endswith(f" {HOST_LOCK.replace(chr(0), '@')}") for row in names.splitlines())


@contextmanager
def exclusive_run(*, concurrent: bool) -> Iterator[None]:
    """Keeps other runs off this machine for as long as this one measures, unless it may be `concurrent`.

    Raises UserError when another run is under way. The lock is a name in the kernel's abstract socket space, which
    goes with the process that holds it, however it ends.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lock:
        try:
            lock.bind(HOST_LOCK)
        except OSError as error:
            if not concurrent:
                raise UserError(
                    "another run is measuring on this machine, and each would disturb the other's figures; "
                    "wait for it (bench watch), or pass --allow-concurrent to run anyway"
                ) from error
        yield

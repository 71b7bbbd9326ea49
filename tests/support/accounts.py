"""Accounts of this machine for the time of a test."""

import os
import pwd
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.benchcall import wait_for


@contextmanager
def temporary_account(name: str, *options: str | Path) -> Iterator[pwd.struct_passwd]:
    """An account made by useradd(8), removed afterwards with its home and processes.

    Tests that were killed leave theirs: it is removed first.
    """
    remove(name)
    done = subprocess.run(["useradd", *options, name], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f"useradd {name}: {done.stderr.strip()}", pytrace=False)
    try:
        yield pwd.getpwnam(name)
    finally:
        remove(name)


def remove(name: str) -> None:
    """Removes an account, if there is one, after its processes."""
    try:
        uid = pwd.getpwnam(name).pw_uid
    except KeyError:
        return
    wait_for(lambda: not kill_all(uid), f"the processes of {name} to end")
    wait_for(lambda: subprocess.run(["userdel", "--remove", name], capture_output=True).returncode in GONE, name)


# Exit codes of userdel(8): removed, no such account, and home not removed (there was none).
GONE = (0, 6, 12)


def kill_all(uid: int) -> list[int]:
    """Kills an account's processes, and those that start meanwhile the next time. Returns the process ids."""
    pids = processes_of(uid)
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return pids


def processes_of(uid: int) -> list[int]:
    """The ids of all processes of an account."""
    pids = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid == uid:
                pids.append(int(entry.name))
    return pids

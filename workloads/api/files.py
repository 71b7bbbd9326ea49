"""Files that another user may have made or named: opened only if regular, read up to a limit.

A symlink would lead to another file, a FIFO would block forever, a device never ends or acts when it is opened, and
reading a file of the kernel may block, or take the data from other readers (/proc/kmsg, trace_pipe).
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

TEXT_MAX_BYTES = 1 << 20
NOT_REGULAR = "not a regular file"
OF_KERNEL = frozenset(
    {  # file systems whose files are made when they are read; the size that these show is 0
        "proc",
        "debugfs",
        "tracefs",
        "securityfs",
        "configfs",
        "cgroup",
        "cgroup2",
        "bpf",
        "pstore",
        "selinuxfs",
        "mqueue",
    }
)
MOUNTS = Path("/proc/self/mountinfo")


def open_plain(path: Path, flags: int = os.O_RDONLY, *, follow: bool = False) -> int:
    """A descriptor for the caller to close. Raises OSError unless the file is regular; a symlink needs `follow`."""
    if not flags & os.O_CREAT:
        _check(path.stat(follow_symlinks=follow), path, follow)  # first: to open a device may start or rewind it
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | (0 if follow else os.O_NOFOLLOW), 0o644)
    try:
        _check(os.fstat(fd), path, follow)
    except OSError:
        os.close(fd)
        raise
    return fd


def read_plain(path: Path, limit: int = TEXT_MAX_BYTES, *, follow: bool = False) -> bytes:
    """The content of a regular file. Raises OSError like `open_plain`, and for more than `limit` bytes."""
    with os.fdopen(open_plain(path, follow=follow), "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(
            errno.EFBIG,
            f"larger than {limit >> 20} MiB" if limit >= TEXT_MAX_BYTES else f"larger than {limit} bytes",
            str(path),
        )
    return data


def _check(state: os.stat_result, path: Path, named_by_user: bool) -> None:
    mode = state.st_mode
    if stat.S_ISLNK(mode):
        return  # refused when it is opened
    if not stat.S_ISREG(mode) or (state.st_size == 0 and _of_kernel(state.st_dev)):
        reason, remedy = NOT_REGULAR, "; write its content to one first"
        if stat.S_ISDIR(mode):
            reason, remedy = "a folder", "; give a file"
        raise OSError(errno.EINVAL, reason + (remedy if named_by_user else ""), str(path))


def _of_kernel(device: int) -> bool:
    number = f"{os.major(device)}:{os.minor(device)}"
    mounts = (line.partition(" - ") for line in MOUNTS.read_text(errors="replace").splitlines())
    return any(place.split()[2] == number and kind.split()[0] in OF_KERNEL for place, _, kind in mounts)

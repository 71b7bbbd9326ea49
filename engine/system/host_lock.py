"""One run per user measures on a machine at a time; other users' runs are reported but cannot lock each other out.

The lock is on files that only their owner can open, and is released with the process that holds it, however that ends.
Other network namespaces share the files; a container does only if it has these folders. Otherwise its work is seen only
as load.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from engine.core.errors import UserError
from engine.system.account import name_of

# The lock is taken in every usable folder, as another user's file may block one of them now and be gone later.
FOLDERS = ("/run", "/run/lock", "/tmp", "/run/user/{}")
NAME = "pgbed-measures-"  # followed by the user id
_HELD = re.compile(r"^\d+: FLOCK +ADVISORY +WRITE +\S+ ([0-9a-f]+):([0-9a-f]+):(\d+) ", re.M)


def is_held() -> bool:
    """Whether a run of this user holds the lock. Only looks: trying the lock would keep a run off meanwhile."""
    return os.geteuid() in _measuring()


def others() -> tuple[str, ...]:
    return tuple(
        f"a run of user {name_of(uid)} is also measuring on this machine: each disturbs the other's figures"
        for uid in sorted(_measuring() - {os.geteuid()})
    )


@contextmanager
def exclusive_run(*, concurrent: bool) -> Iterator[None]:
    """Keep the user's other runs off this machine, unless `concurrent`. Raises UserError if one is under way."""
    with ExitStack() as kept:
        for folder in _folders(os.geteuid()):
            lock = _opened(folder / f"{NAME}{os.geteuid()}")
            if lock is None:
                continue
            kept.callback(os.close, lock)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if concurrent:
                    break
                holder = os.pread(lock, 20, 0).decode(errors="replace").strip()
                raise UserError(
                    f"another run is measuring on this machine (process {holder or 'unknown'}), and they would disturb "
                    "each other; wait for it (bench watch), or pass --allow-concurrent to run anyway"
                ) from None
            kept.callback(fcntl.flock, lock, fcntl.LOCK_UN)  # children that inherited it would still hold it
            os.ftruncate(lock, 0)
            os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        yield


def _folders(uid: int) -> list[Path]:
    """Folders from which no other user can remove a file."""
    folders, root = [], Path("/").stat().st_uid  # a build's sandbox shows root by another number
    for folder in (Path(template.format(uid)) for template in FOLDERS):
        with suppress(OSError):
            status = folder.stat()
            shared = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not status.st_mode & stat.S_ISVTX
            if not shared and status.st_uid in (0, root, uid):
                folders.append(folder)
    return folders


def _opened(path: Path) -> int | None:
    """The user's own lock file, created if missing; None if that fails or it belongs to another user."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY, 0o600)
    except OSError:
        return None
    status = os.fstat(lock)
    if status.st_uid != os.geteuid() or not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077:
        os.close(lock)
        return None
    return lock


def _measuring() -> set[int]:
    """Users whose lock is held. Others' files cannot be opened, but /proc/locks shows everybody which are locked."""
    try:
        locks = Path("/proc/locks").read_text(errors="replace")
    except OSError:
        return set()  # starting a run reports it
    held = {(os.makedev(int(major, 16), int(minor, 16)), int(inode)) for major, minor, inode in _HELD.findall(locks)}
    users = set()
    for path in (path for folder in FOLDERS for path in Path("/").glob(f"{folder.format('*')[1:]}/{NAME}*")):
        with suppress(OSError):
            status = path.lstat()
            if (status.st_dev, status.st_ino) in held and path.name == f"{NAME}{status.st_uid}":
                users.add(status.st_uid)
    return users

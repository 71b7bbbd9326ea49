"""Disks: free space, sizes of folders, and writing files that the user named."""

from __future__ import annotations

import errno
import os
import re
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from engine.core.errors import UserError
from engine.core.format import size
from engine.core.text import Visible
from engine.host.machine_counters import mount_of

_ERRORS = (errno.ENOSPC, errno.EDQUOT)
# Where a full disk keeps SQLite from growing the memory that it shares with readers, it is an "I/O error".
_CODES = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)
_FULL = re.compile("No space left on device|Disk quota exceeded|database or disk is full")
_NAMED = re.compile("the disk (mounted at|of) .* is full")
_FULL_BYTES = 1 << 20  # less than that is free
_PATH = re.compile(r"(?<![\w.])/[^\s'\":;,]+")
_SHARED_MEMORY = ("shared memory segment", Path("/dev/shm"))  # by the name of a segment, which is not a path
_NEVER_WAIT = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class DiskFull(UserError):
    """A file of a run cannot be written for lack of room."""


def full(path: Path) -> str:
    """The message that the disk of a path is full, with the name by which `df` lists it."""
    mount = mount_of(existing(path))
    return f"the disk mounted at {mount.point} ({mount.source}) is full" if mount else f"the disk of {path} is full"


def with_name(text: str, path: Path) -> str:
    """A message of any program; if it is about a full disk, with the disk's name: by the path in it, else by `path`.

    PostgreSQL does not always report why it could not write: any message counts while the disk of `path` is full.
    One that names a full disk stays as it is.
    """
    if _NAMED.search(text):
        return text
    words = _FULL.search(text)
    if words is None:
        return text if free_bytes(path) >= _FULL_BYTES else f"{text} ({full(path)})"
    kind, shared = _SHARED_MEMORY
    before = _PATH.findall(text[: words.start()])
    named = shared if kind in text else Path(before[-1]) if before else path
    return f"{text} ({full(named)})"


@contextmanager
def named_when_full(path: Path) -> Iterator[None]:
    """Turn errors of a full disk into DiskFull, with its name, and into UserError if it is not the disk of `path`."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        if getattr(error, "errno", 0) not in _ERRORS and getattr(error, "sqlite_errorcode", 0) not in _CODES:
            raise
        at = Path(os.fsdecode(getattr(error, "filename", None) or path))
        text = f"{at}: cannot be written, as {full(at)}: free some space on it"
        here = existing(at).stat().st_dev == existing(path).stat().st_dev
        raise (DiskFull if here else UserError)(text) from error


def free_bytes(path: Path) -> int:
    """Free space for an ordinary user on the filesystem that holds, or will hold, `path`."""
    return shutil.disk_usage(existing(path)).free


def existing(path: Path) -> Path:
    nearest = path.absolute()
    while not os.path.exists(nearest):  # noqa: PTH110 (false for a name that is too long)
        nearest = nearest.parent
    return nearest


def check(path: Path, needed_bytes: int) -> None:
    """Raise UserError, with needed and free bytes, if there is too little space for `path`."""
    free = free_bytes(path)
    if free < needed_bytes:
        raise UserError(
            f"{path} has {size(free)} free but {size(needed_bytes)} are needed: "
            "free some space, choose another folder with --out, or less data (--scale, --rows, --pgbench-scale)"
        )


def folder_bytes(folder: Path) -> int:
    """Apparent size of all files below a folder, except those that vanish meanwhile."""
    return sum(entry.st_size for entry in _entries(folder) if not stat.S_ISDIR(entry.st_mode))


def occupied_bytes(folder: Path) -> int:
    """Disk space of a folder and its contents; less than the apparent size for sparse files."""
    return sum(entry.st_blocks * 512 for entry in _entries(folder))


def _entries(folder: Path) -> Iterator[os.stat_result]:
    for place, _, names in os.walk(folder):
        for path in (place, *(os.path.join(place, name) for name in names)):  # noqa: PTH118 (many files, often)
            with suppress(OSError):
                yield os.lstat(path)


def write_text(path: Path, text: Visible) -> None:
    """Write a file, without waiting for a pipe's reader. Raises OSError, leaving no partial file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _NEVER_WAIT, 0o666)
    os.set_blocking(descriptor, True)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode())
    except OSError:
        if path.is_file():
            path.unlink()
        raise


def check_writable(path: Path) -> None:
    """Raise UserError if a file named by the user cannot be created, before any work is done for it."""
    folder = path.absolute().parent
    if path.is_dir():
        raise UserError(f"{path} is a folder; name a file")
    if _is_written_to(path):
        if not os.access(path, os.W_OK):
            raise UserError(f"{path}: cannot be written: no permission")
        return
    if not folder.is_dir():
        raise UserError(f"{path}: cannot be written: the folder {folder} is missing")
    if not os.access(folder, os.W_OK):
        raise UserError(f"{path}: cannot be written: no permission to write into {folder}")


def _is_written_to(path: Path) -> bool:
    """Whether a path is a device, a pipe or an open file (/dev/stdout), which must not be replaced."""
    return path.exists() and (not path.is_file() or path.absolute().parts[1:2] in (("dev",), ("proc",)))


def replace_text(path: Path, text: Visible) -> int:
    """Write a file atomically, but devices and pipes directly; return its bytes. Raises OSError."""
    encoded = text.encode()
    if _is_written_to(path):
        write_text(path, text)
        return len(encoded)
    path = Path(os.path.realpath(path))  # leaves a loop of symlinks alone
    temporary = path.with_name(f"{path.name[:200]}.{os.getpid()}.part")
    try:
        temporary.write_bytes(encoded)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return len(encoded)

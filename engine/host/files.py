"""Files that others may have created: opened only if regular, read up to a limit.

A symlink would lead to another file, a FIFO would block forever, and a device never ends.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from engine.core.errors import UserError

TEXT_MAX_BYTES = 1 << 20
NAME_MAX_BYTES = 255


def is_name(text: str) -> bool:
    """Whether an untrusted text is a valid file name: one printable path component, not too long."""
    return (
        text.isprintable()
        and "/" not in text
        and text not in ("", ".", "..")
        and len(os.fsencode(text)) <= NAME_MAX_BYTES
    )


def strange_file(folder: Path, passed_over: Callable[[str], bool]) -> Path | None:
    """The first symlink, FIFO, device or socket below a folder; `passed_over` gets relative paths."""
    for parent, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(parent, name)
            if passed_over(str(path.relative_to(folder))):
                if name in folders:
                    folders.remove(name)
            elif not stat.S_ISREG(mode := path.lstat().st_mode) and not stat.S_ISDIR(mode):
                return path
    return None


def open_plain(path: Path, flags: int = os.O_RDONLY, *, follow: bool = False) -> int:
    """A descriptor for the caller to close. Raises OSError unless the file is regular; a symlink needs `follow`."""
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | (0 if follow else os.O_NOFOLLOW), 0o644)
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "Is a directory" if stat.S_ISDIR(mode) else "not a regular file", str(path))
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


def forget_cached(folder: Path) -> None:
    for folder_path, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # it vanished meanwhile, or is a symlink
                file = os.open(Path(folder_path, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(file)


def read_text(path: Path, what: str) -> str:
    """The text of a file named by the user. Raises UserError, calling it a `what` ("plan")."""
    try:
        return read_plain(path, follow=True).decode()
    except (OSError, ValueError) as error:  # bytes that are not text, or a path with a null byte
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise UserError(f"{what} {path} cannot be read: {reason}") from None

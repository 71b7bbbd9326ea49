"""Names of files, and files that others may have created: see `workloads.api.files`, whose functions are here too."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from engine.core.errors import UserError
from workloads.api.files import open_plain as open_plain
from workloads.api.files import read_plain as read_plain

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


def forget_cached(folder: Path) -> None:
    for folder_path, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # it vanished meanwhile, or is a symlink
                file = os.open(Path(folder_path, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(file)


def read_text(path: Path, what: str, errors: str = "strict") -> str:
    """The text of a file named by the user. Raises UserError, calling it a `what` ("plan")."""
    try:
        return read_plain(path, follow=True).decode(errors=errors)
    except (OSError, ValueError) as error:  # bytes that are not text, or a path with a null byte
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise UserError(f"{what} {path} cannot be read: {reason}") from None

"""The account that runs servers and clients, and how their processes end with the engine."""

from __future__ import annotations

import ctypes
import os
import pwd
import resource
import signal
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.core.errors import UserError

CHOICES = ("postgres", "nobody")
LINKS_MAX = 40  # the kernel's limit
_PR_SET_PDEATHSIG, _PR_CAPBSET_READ, _PR_SET_SECUREBITS, _SECBIT_NO_SETUID_FIXUP = 1, 23, 28, 1 << 2
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE = 47, 2
_CAP_DAC_READ_SEARCH, _CAPABILITY_VERSION = 2, 0x20080522
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Account:
    """A system user. `switch` is true if child processes must change to it (the engine is root)."""

    name: str
    uid: int
    gid: int
    switch: bool

    def identity(self) -> dict[str, Any]:
        """Keyword arguments of `subprocess.Popen` that make the child this user, without supplementary groups."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []} if self.switch else {}

    def chown(self, path: Path) -> None:
        if self.switch:
            os.lchown(path, self.uid, self.gid)

    def barred_at(self, path: Path) -> Path | None:
        """The first folder on the way to `path` that this user may not enter, by mode bits; ignores access lists."""
        if not self.switch:
            return None
        resolved = path.resolve()
        for folder in (*reversed(resolved.parents), resolved):
            if not os.path.exists(folder):  # noqa: PTH110 (false for a name that is too long)
                return None
            if folder.is_dir() and not self._passes(folder.stat()):
                return folder
        return None

    def may_execute(self, path: Path) -> bool:
        if not self.switch:
            return os.access(path, os.X_OK)
        return path.is_file() and self.barred_at(path.parent) is None and self._passes(path.stat())

    def _passes(self, status: os.stat_result) -> bool:
        if status.st_uid == self.uid:
            return bool(status.st_mode & stat.S_IXUSR)
        return bool(status.st_mode & (stat.S_IXGRP if status.st_gid == self.gid else stat.S_IXOTH))


def unprivileged(environ: Mapping[str, str] = os.environ) -> Account:
    """The account for servers and clients: the engine's own, or an unprivileged one if the engine is root.

    As root: PGBED_USER, else `postgres` if it exists, else `nobody`. Raises UserError if PGBED_USER does not exist or
    is root, or if none of them exists.
    """
    if os.geteuid() != 0:
        return Account(name_of(os.geteuid()), os.geteuid(), os.getegid(), switch=False)
    wanted = environ.get("PGBED_USER")
    for name in (wanted,) if wanted else CHOICES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid == 0:
            raise UserError(f"PGBED_USER={name} is root, which PostgreSQL refuses; name an unprivileged user")
        return Account(name, entry.pw_uid, entry.pw_gid, switch=True)
    raise UserError(
        f"PGBED_USER={wanted}: there is no such user; create it or unset PGBED_USER"
        if wanted
        else "started as root, and neither 'postgres' nor 'nobody' exists to run servers as; set PGBED_USER"
    )


def bound_to_engine(death: signal.Signals) -> Callable[[], None]:
    """A `preexec_fn` that has the kernel send `death` to the child once the thread that started it is gone.

    Python runs it after changing the user, as it must: the kernel forgets the request when credentials change. To the
    kernel the starting *thread* is the parent, so call from a thread that outlives the child: the main thread.
    """
    engine = os.getpid()

    def tie() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(death), 0, 0, 0)
        if os.getppid() != engine:  # the engine died between fork and prctl
            os._exit(1)

    return tie


def may_read_all() -> bool:
    """Whether root may lend the right to read every file, which containers often withhold."""
    return os.geteuid() == 0 and _LIBC.prctl(_PR_CAPBSET_READ, _CAP_DAC_READ_SEARCH, 0, 0, 0) == 1


def confined(account: Account, *, reads_all: bool) -> Callable[[], None]:
    """A `preexec_fn` for a program that starts no other: the child becomes this user, and then can make no process.

    `reads_all`: it keeps root's right to read every file.
    """

    def confine() -> None:
        if account.switch:
            if reads_all:  # otherwise rights go with root's id, and access(2) passes over them
                _LIBC.prctl(_PR_SET_SECUREBITS, _SECBIT_NO_SETUID_FIXUP, 0, 0, 0)
            os.setgroups([])
            os.setgid(account.gid)
            os.setuid(account.uid)
        if reads_all:
            rights = (ctypes.c_uint32 * 6)(*[1 << _CAP_DAC_READ_SEARCH] * 3, 0, 0, 0)
            _LIBC.capset((ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), rights)
            _LIBC.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, _CAP_DAC_READ_SEARCH, 0, 0)
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))

    return confine


def own_folder(folder: Path) -> Path:
    """The resolved path of a folder to write in, which need not exist yet.

    Raises UserError if another user could replace it: below a world-writable folder such as /var/tmp, every name on the
    way, symlinks above all, must belong to this user or root. Root follows no other user's link anywhere, and does not
    write to a folder in which another user may make links.
    """
    trusted, shown = {0, os.geteuid()}, str(folder)
    path, left, links = Path("/"), list(reversed(folder.absolute().parts[1:])), 0
    try:
        while left:
            name = left.pop()
            if name == "..":
                path = path.parent
                continue
            entry = path / name
            try:
                status = entry.lstat()
            except FileNotFoundError:
                return entry.joinpath(*reversed(left))
            shared = path.stat().st_mode & (stat.S_IWOTH | stat.S_ISVTX)
            if status.st_uid not in trusted and (shared or (stat.S_ISLNK(status.st_mode) and os.geteuid() == 0)):
                reason = f"{entry} was made by another user"
                raise UserError(f"{shown}: {reason}; choose another folder with --out")
            if not stat.S_ISLNK(status.st_mode):
                path = entry
                continue
            links += 1
            if links > LINKS_MAX:
                raise UserError(f"{shown}: too many symlinks; choose another folder with --out")
            target = entry.readlink()
            path = Path("/") if target.is_absolute() else path
            left += reversed(target.parts[1:] if target.is_absolute() else target.parts)
    except OSError as error:
        raise UserError(f"{shown}: {error.strerror}; choose another folder with --out") from None
    status = path.stat()
    by_group = status.st_mode & stat.S_IWGRP and status.st_gid != 0
    if os.geteuid() == 0 and (status.st_uid != 0 or status.st_mode & stat.S_IWOTH or by_group):
        reason = "other users may write there, so that links could lead root elsewhere"
        raise UserError(f"{shown}: {reason}; name a new folder in it with --out")
    return path


def make_passable(folder: Path) -> None:
    """Create a folder and missing parents, traversable by any user whatever the umask. Raises OSError."""
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    for parent in reversed(missing):
        try:
            parent.mkdir()
        except FileExistsError:  # created by another process meanwhile
            continue
        parent.chmod(parent.stat().st_mode | 0o111)


def name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)

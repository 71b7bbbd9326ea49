"""The signature of a run folder: this user began the run, on this machine, in this very folder.

Servers, programs and scripts that a manifest names are executed, so an engine acts only on a signed manifest. The
signature is keyed BLAKE2b over its bytes and the run they are bound to, with a key that the user's first run creates.
Every command reads a run that was edited, copied or moved to another machine, but none continues it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import platform
import pwd
import secrets
import shlex
import stat
from contextlib import suppress
from pathlib import Path

import msgspec

from engine.core.errors import UserError
from engine.system.files import open_plain, read_plain

NAME = "manifest.sig"
KEY_BYTES = 32
MACHINE_ID = Path("/etc/machine-id")


def sign(run: Path, manifest: bytes) -> None:
    """Raises UserError if the key cannot be used."""
    digest = _digest(run, manifest, _key(make=True))
    with (run / NAME).open("w") as file:
        file.write(f"{digest}\n")
        file.flush()
        os.fsync(file.fileno())  # after a power cut the run is still this user's


def check(run: Path, manifest: bytes) -> None:
    """Raise UserError unless this user signed these bytes as this directory's manifest."""
    try:
        signature = read_plain(run / NAME, 1024).strip()
        key = _key(make=False)
    except OSError:
        raise _refusal(run) from None
    if not hmac.compare_digest(signature, _digest(run, manifest, key).encode()):
        raise _refusal(run)


def key_path() -> Path:
    """Raises UserError for a user without a home directory."""
    given = os.environ.get("HOME", "")
    try:
        home = Path(given if given.startswith("/") else pwd.getpwuid(os.geteuid()).pw_dir)
        if os.geteuid() == 0 and not _is_roots(home):  # sudo may keep the caller's HOME
            return Path(pwd.getpwuid(0).pw_dir) / ".local/state/pgbed/key"
    except KeyError:
        raise UserError("this user has no home, in which the key that signs runs would be: set HOME") from None
    state = os.environ.get("XDG_STATE_HOME", "")
    return (Path(state) if state.startswith("/") else home / ".local/state") / "pgbed" / "key"


def _is_roots(folder: Path) -> bool:
    with suppress(OSError):
        return folder.stat().st_uid == 0
    return False


def _refusal(run: Path) -> UserError:
    plan = shlex.quote(str(run / "manifest.json"))
    return UserError(
        f"{run}: you did not begin this run here, or it has been changed; bench run --plan {plan} shows its plan and "
        "makes a run of it that is yours"
    )


def _digest(run: Path, manifest: bytes, key: bytes) -> str:
    """Includes the directory's inode, so that a copy is a different directory."""
    try:
        machine = MACHINE_ID.read_text("ascii").strip()
    except (OSError, ValueError):
        machine = ""
    machine = machine or platform.node()  # many a container's file is empty
    place = run.resolve()
    name = os.fsencode(place.name).decode(errors="backslashreplace")
    bound = msgspec.json.encode([machine, name, place.stat().st_ino, hashlib.blake2b(manifest).hexdigest()])
    return hashlib.blake2b(bound, key=key).hexdigest()


def _key(*, make: bool) -> bytes:
    """Raises UserError if others can read the key, or one of them owns it, OSError if it does not exist."""
    path = key_path()
    try:
        if make and not path.exists():
            _make(path)
        folder = path.parent.stat()
        if folder.st_uid != os.geteuid() or folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise UserError(f"{path.parent}: others can change what is in it, such as the key that signs your runs")
        with os.fdopen(open_plain(path), "rb") as file:
            status, key = os.fstat(file.fileno()), file.read(KEY_BYTES + 1)
    except OSError as error:
        if not make:
            raise
        why = f"the key that signs your runs cannot be made: {error.strerror}"
        raise UserError(f"{path}: {why}; name another folder in XDG_STATE_HOME") from None
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise UserError(f"{path}: others can read or own this key, which signs your runs; remove it")
    if len(key) != KEY_BYTES:
        raise UserError(f"{path}: not a key of {KEY_BYTES} bytes; remove it")
    return key


def _make(path: Path) -> None:
    """Create the key; two simultaneous first uses end up with the same one."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
        file.write(secrets.token_bytes(KEY_BYTES))
        file.flush()
        os.fsync(file.fileno())
    try:
        with suppress(FileExistsError):
            path.hardlink_to(part)
    finally:
        part.unlink()

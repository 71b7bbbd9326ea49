"""Folders for a server: accessible to its user, and one for its socket."""

from __future__ import annotations

import os
from pathlib import Path

from engine.core.errors import UserError
from engine.core.model import Build
from engine.system.account import Account

PORT = 5432
SOCKET_DIR_PREFIX = "pgbed-"
SOCKET_PATH_MAX = 107  # sun_path holds 108 bytes including the closing zero


class ServerError(UserError):
    """A server that did not start, or has ended, with the end of its log."""


def check_places(build: Build, account: Account, folder: Path, sockets: Path) -> None:
    """Raise ServerError if `account` cannot run `build`, or its clients, in `folder`, which need not exist."""
    barred = account.barred_at(folder)
    if barred is not None:
        raise ServerError(
            f"user {account.name}, which runs the server, may not enter {barred}: "
            f"choose another folder with --out, or name another user in PGBED_USER"
        )
    for program in ("initdb", "postgres") if build.prefix else ():
        if not account.may_execute(build.bin / program):
            raise ServerError(
                f"build {build.label}: user {account.name} cannot run {build.bin / program}; "
                f"is it there, and may that user enter every folder on the way?"
            )
    check_sockets(sockets)


def check_sockets(base: Path) -> None:
    """Raise ServerError if no private socket folder can be created in `base`, or its path would be too long."""
    if not base.is_dir():
        raise ServerError(f"folder for sockets {base} does not exist; set PGBED_SOCKETS to one that does")
    length = len(os.fsencode(f"{base.absolute()}/{SOCKET_DIR_PREFIX}xxxxxxxx/.s.PGSQL.{PORT}"))
    if length > SOCKET_PATH_MAX:
        raise ServerError(
            f"the server's socket in {base} would have a path of {length} bytes, more than the "
            f"{SOCKET_PATH_MAX} that a Unix socket may have; set PGBED_SOCKETS to a shorter folder"
        )


def socket_base(account: Account) -> Path:
    chosen = os.environ.get("PGBED_SOCKETS")
    if chosen:
        return Path(chosen)
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR") or "/nonexistent")
    usable = not account.switch and os.access(runtime, os.W_OK) and len(os.fsencode(runtime)) < 60
    return runtime if usable else Path("/tmp")

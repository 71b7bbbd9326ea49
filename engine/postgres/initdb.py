"""A fresh cluster: initdb's arguments, the folders that it needs, and the watch over its run."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from engine.core.clock import patient
from engine.core.model import Build
from engine.postgres.cluster import last_words
from engine.postgres.waiting import NOBODY, Waiting, wait_until
from engine.system.account import Account
from engine.system.server_folders import ServerError
from engine.system.subprocesses import kill_group

# The reference takes the locale from the environment; here it is fixed, so that two machines get one cluster.
ARGS = ("--data-checksums", "--encoding=UTF8", "--locale=C.UTF-8", "--auth-local=trust", "--auth-host=reject")
# An initdb that fails would remove the file that names the shared memory of its server, which may have been killed.
KEPT = "--no-clean"
TIMEOUT_S = patient(120.0)
LOG_MAX_BYTES = 16 << 20


def command(build: Build, data_dir: Path, superuser: str) -> tuple[str, ...]:
    return (
        str(build.bin / "initdb"),
        f"--pgdata={data_dir}",
        f"--username={superuser}",
        *ARGS,
        KEPT,
        *build.initdb_args,
    )


def make_folders(folders: Sequence[Path], account: Account) -> None:
    """Make empty folders of the server's account. Raises ServerError."""
    for folder in folders:
        try:
            if folder.is_symlink():
                raise ServerError(f"{folder} is a symlink, which is not followed; remove it")
            folder.mkdir(mode=0o700, exist_ok=True)
            account.chown(folder)
        except OSError as error:
            raise ServerError(f"{folder} cannot be made: {error.strerror}") from None


def await_end(child: subprocess.Popen[bytes], label: str, log_path: Path, waiting: Waiting = NOBODY) -> None:
    """Wait until initdb has ended. Raises ServerError with its last words, or what `waiting.check` raises."""

    def check_log() -> None:
        waiting.check()
        if log_path.stat().st_size > LOG_MAX_BYTES:
            raise ServerError(f"initdb of {label} produces endless output; see {log_path}")

    try:
        what = f"initialising the cluster of {label}"
        wait_until(lambda: child.poll() is not None, TIMEOUT_S, what, replace(waiting, check=check_log))
    finally:
        kill_group(child)
    if child.returncode != 0:
        raise ServerError(f"initdb of {label} failed: {last_words(log_path)} (log: {log_path})")

"""A cluster's folder: who runs over it, what its log says at the end, how it is removed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path

from engine.errors import UserError
from engine.serverlog import PREFIX

Progress = Callable[[str], None]

PATIENCE_S = 2.0  # how long something may take before progress is told
LEFTOVER_TIMEOUT_S = 10.0
SOCKET_DIR_PREFIX = "pgbed-"
_TELLING = re.compile(r"\b(FATAL|PANIC|ERROR|HINT|DETAIL|error|invalid|unrecognized|could not|terminated by signal)\b")


def kill_leftover(cell_dir: Path, progress: Progress = lambda _: None) -> None:
    """Stop whatever still runs over the cell's cluster and remove cluster and socket folder; the log stays.

    For a cell whose engine was killed. Does nothing where there is nothing.
    """
    data_dir, link = cell_dir.absolute() / "data", cell_dir.absolute() / "socket"
    owner = living_server(data_dir)
    if owner is not None:
        progress(f"stopping the server that was left behind (process {owner})")
        _signal(owner, signal.SIGQUIT)
        deadline = time.monotonic() + LEFTOVER_TIMEOUT_S
        while processes_in(data_dir) and time.monotonic() < deadline:
            time.sleep(0.05)
    end_processes(data_dir)
    if link.is_symlink():
        folder = link.readlink()
        if folder.name.startswith(SOCKET_DIR_PREFIX):
            shutil.rmtree(folder, ignore_errors=True)
        link.unlink()
    if data_dir.exists():
        remove_folder(data_dir, progress)


def living_server(data_dir: Path) -> int | None:
    """The process id of a postmaster that runs over `data_dir`, if there is one."""
    lines = pidfile(data_dir)
    if not lines or not lines[0].lstrip("-").isdecimal():
        return None
    pid = abs(int(lines[0]))
    return pid if pid in processes_in(data_dir) else None


def processes_in(data_dir: Path) -> tuple[int, ...]:
    """Processes whose working directory is the cluster: its postmaster and every backend, orphans included."""
    home = str(data_dir.resolve())
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if str((entry / "cwd").readlink()).removesuffix(" (deleted)") == home:
                    found.append(int(entry.name))
            except OSError:  # gone meanwhile, or another user's
                continue
    return tuple(found)


def end_processes(data_dir: Path) -> None:
    """SIGKILL to all processes over `data_dir`, and wait until they are gone.

    Backends outlive a killed postmaster for a moment, and would write into a folder that is being removed.
    """
    deadline = time.monotonic() + LEFTOVER_TIMEOUT_S
    while (left := processes_in(data_dir)) and time.monotonic() < deadline:
        for pid in left:
            _signal(pid, signal.SIGKILL)
        time.sleep(0.02)


def pidfile(data_dir: Path) -> list[str]:
    """The lines of postmaster.pid (1: process, 5: socket folder, 8: state); empty when there is none."""
    try:
        return [line.strip() for line in (data_dir / "postmaster.pid").read_text("utf-8").splitlines()]
    except (OSError, UnicodeDecodeError):
        return []


def remove_folder(folder: Path, progress: Progress = lambda _: None) -> None:
    """Remove a folder and all in it, telling `progress` every two seconds while that takes."""
    with ThreadPoolExecutor(1) as worker:
        begun = time.monotonic()
        removal = worker.submit(shutil.rmtree, folder)
        while True:
            try:
                return removal.result(timeout=PATIENCE_S)
            except FutureTimeout:
                progress(f"removing {folder} ({time.monotonic() - begun:.0f} s)")
            except OSError as error:
                raise UserError(f"{folder} cannot be removed: {error.strerror}; remove it by hand") from None


def last_words(log_path: Path, lines: int = 4) -> str:
    """The telling lines at the end of a server's log as one line, without their prefix."""
    try:
        with log_path.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 16384))
            tail = log.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return "its log cannot be read"
    said = [PREFIX.sub("", line).strip() for line in tail]
    said = [line for line in said if line]
    telling = [line for line in said if _TELLING.search(line)] or said
    return " / ".join(dict.fromkeys(telling[-lines:])) or "its log is empty"


def _signal(pid: int, what: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, what)

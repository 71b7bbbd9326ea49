"""A cluster's folder: which processes run over it, the end of its log, how it is removed."""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Literal

from engine.core.clock import patient
from engine.core.errors import UserError
from engine.core.model import Build
from engine.host.procfs import processes_in
from engine.postgres import ipc
from engine.postgres.serverlog import PREFIX
from engine.postgres.waiting import NOBODY, Waiting, wait_until
from engine.system.files import open_plain, read_plain
from engine.system.server_folders import SOCKET_DIR_PREFIX
from workloads.api.base import CLIENT_FOLDER

StopMode = Literal["fast", "immediate"]

PIDFILE_MAX_BYTES = 16384
LOG_TAIL_BYTES = 16384
SEGMENT_TIMEOUT_S = patient(5.0)
LEFTOVER_TIMEOUT_S = patient(10.0)
PASSFILE = "password"  # of clients over TCP, in the private folder of the socket
CLUSTERS = "clusters"  # in a cell's folder: made by a step
DATA, FILES = "data", "files"  # folders of a cell: the cluster, and files next to it
# Signal, how long it may take, and the time that must remain for ending the run after that.
_STOPS: Mapping[StopMode, tuple[signal.Signals, float, float]] = {
    "fast": (signal.SIGINT, 600.0, 4.0),
    "immediate": (signal.SIGQUIT, 10.0, 1.5),
}
_TELLING = re.compile(r"\b(FATAL|PANIC|ERROR|HINT|DETAIL|error|invalid|unrecognized|could not|terminated by signal)\b")


def kill_leftover(cell_dir: Path, bin: Path, uid: int) -> None:
    """End a killed engine's leftover server of `bin` and `uid` over the cell's cluster; remove all but its logs."""
    data_dir, files_dir, link = (cell_dir.absolute() / name for name in (DATA, FILES, "socket"))
    for folder in (data_dir, files_dir):
        if folder.is_symlink():
            folder.unlink()
    owner = living_server(data_dir)
    if owner is not None and owner in servers_in(data_dir, bin):
        _signal(owner, signal.SIGQUIT)
        continue_processes(data_dir, bin)
        wait_until(lambda: not servers_in(data_dir, bin), LEFTOVER_TIMEOUT_S)
    remove_clusters(cell_dir.absolute() / CLUSTERS, bin, uid)
    end_processes(data_dir, bin)
    remove_shared_memory(data_dir, uid)
    if link.is_symlink():
        _remove_sockets(link.readlink(), data_dir, uid)
        link.unlink()
    for folder in (data_dir, files_dir):
        if folder.exists():
            remove_folder(folder)


def remove_clusters(folder: Path, bin: Path, uid: int) -> None:
    """End the servers of the build in `bin` over the clusters in a folder, and remove the clusters."""
    if folder.is_symlink():
        folder.unlink()
    if not folder.is_dir():
        return
    for data_dir in folder.iterdir():
        if data_dir.is_dir() and not data_dir.is_symlink():
            end_processes(data_dir, bin)
            remove_shared_memory(data_dir, uid)
    remove_folder(folder)


def living_server(data_dir: Path) -> int | None:
    lines = pidfile(data_dir)
    if not lines or not lines[0].lstrip("-").isdecimal():
        return None
    pid = abs(int(lines[0]))
    return pid if pid in processes_in(data_dir) else None


def servers_in(data_dir: Path, bin: Path) -> tuple[int, ...]:
    """The pids in a cluster's folder that run `postgres` or `initdb` of `bin`; a shell there does not count."""
    programs = {str((bin / name).resolve()) for name in ("postgres", "initdb")}
    return tuple(pid for pid in processes_in(data_dir) if _program(pid) in programs)


def continue_processes(data_dir: Path, bin: Path) -> None:
    """Continue all server processes: a stopped one notices neither a signal nor its server's end."""
    for pid in servers_in(data_dir, bin):
        _signal(pid, signal.SIGCONT)


def end_server(
    postmaster: subprocess.Popen[bytes], mode: StopMode, data_dir: Path, build: Build, waiting: Waiting
) -> None:
    """Stop a server and wait: fast, unless `mode` is immediate, then immediately, then by SIGKILL.

    What the run's end leaves of `waiting.left_s` ends each of them earlier. Its stopped processes are continued.
    """

    def over(reserve_s: float) -> bool:
        return postmaster.poll() is not None or waiting.left_s() < reserve_s

    for kind, (number, timeout_s, reserve_s) in _STOPS.items():
        if mode == "immediate" != kind:
            continue
        if postmaster.poll() is not None:
            return
        what = f"stopping {build.label} ({kind} shutdown)"
        if waiting.left_s() < math.inf:  # a user waits for the end of the run
            waiting.progress(what)
        postmaster.send_signal(number)
        continue_processes(data_dir, build.bin)
        wait_until(partial(over, reserve_s), timeout_s, what, Waiting(waiting.progress))
    if postmaster.poll() is None:
        waiting.progress(f"killing {build.label}, which does not stop")
        postmaster.kill()
        end_processes(data_dir, build.bin)
        postmaster.wait()


def end_processes(data_dir: Path, bin: Path) -> None:
    """SIGKILL and await all server processes: backends outlive a killed postmaster, and would still write."""

    def none_left() -> bool:
        left = servers_in(data_dir, bin)
        for pid in left:
            _signal(pid, signal.SIGKILL)
        return not left

    wait_until(none_left, LEFTOVER_TIMEOUT_S)


def remove_shared_memory(data_dir: Path, uid: int) -> None:
    """Remove a killed server's shared memory, once none of its processes remains."""
    words = " ".join(pidfile(data_dir)[6:7]).split()  # key and id
    if len(words) == 2 and words[1].isdecimal():
        segment = int(words[1])
        if not ipc.is_of(segment, data_dir, uid):
            return
        # The kernel hides the program of a process that ends before it has unmapped its memory.
        wait_until(lambda: not ipc.is_attached(segment, uid), SEGMENT_TIMEOUT_S)
        ipc.remove_segments(segment, data_dir, uid)


def _program(pid: int) -> str:
    try:
        # an install rebuilt while its server ran
        return os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")  # noqa: PTH115 (text, with a mark on it)
    except OSError:  # gone, or another user's
        return ""


def _remove_sockets(folder: Path, data_dir: Path, uid: int) -> None:
    """Remove a server's socket folder, unless its name, read from a run folder, leads to another cluster's."""
    with contextlib.suppress(OSError):
        if not folder.name.startswith(SOCKET_DIR_PREFIX) or folder.is_symlink() or folder.stat().st_uid != uid:
            return
        lock = next(folder.glob(".s.PGSQL.*.lock"), None)
        if lock is not None:
            if read_plain(lock, PIDFILE_MAX_BYTES).decode(errors="replace").splitlines()[1:2] != [str(data_dir)]:
                return
            lock.with_suffix("").unlink(missing_ok=True)
            lock.unlink()
        for leftover in folder.glob(f"{CLIENT_FOLDER}*"):
            shutil.rmtree(leftover, ignore_errors=True)
        (folder / PASSFILE).unlink(missing_ok=True)
        folder.rmdir()


def pidfile(data_dir: Path) -> list[str]:
    """The lines of postmaster.pid (1: process, 5: socket folder, 7: shared memory, 8: state); empty without one."""
    try:
        text = read_plain(data_dir / "postmaster.pid", PIDFILE_MAX_BYTES).decode(errors="replace")
    except (OSError, ValueError):
        return []
    return [line.strip() for line in text.splitlines()]


def remove_folder(folder: Path, waiting: Waiting = NOBODY) -> None:
    """Remove a folder and its contents; `waiting` gets the progress, and cannot end it."""
    with ThreadPoolExecutor(1) as worker:
        removal = worker.submit(shutil.rmtree, folder)
        wait_until(removal.done, math.inf, f"removing {folder}", Waiting(waiting.progress))
        try:
            removal.result()
        except OSError as error:
            raise UserError(f"{folder} cannot be removed: {error.strerror}; remove it by hand") from None


def last_words(log_path: Path, lines: int = 4) -> str:
    """The last lines of a server's log that explain its end, as one line, without their prefix."""
    try:
        with os.fdopen(open_plain(log_path), "rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
            tail = log.read(LOG_TAIL_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return "its log cannot be read"
    messages = [text for line in tail if (text := PREFIX.sub("", line).strip())]
    telling = [line for line in messages if _TELLING.search(line)] or messages
    return " / ".join(dict.fromkeys(telling[-lines:])) or "its log is empty"


def _signal(pid: int, what: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, what)

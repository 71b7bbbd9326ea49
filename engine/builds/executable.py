"""The file that an install's servers finally execute, if its bin/postgres is a script or a wrapper around another.

What a script names is not trusted: the program is run, and the resulting process is inspected.
"""

from __future__ import annotations

import array
import fcntl
import os
import signal
import subprocess
import termios
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from engine.core.clock import patient
from engine.core.errors import UserError
from engine.core.model import Build
from engine.host.account import bound_to_engine, unprivileged
from engine.host.subprocesses import kill_group

PIPE_BYTES = 4096  # the minimum; the server prints about 100 kB, so it blocks until read
TIMEOUT_S = patient(10.0)
POLL_S = 0.01
ELF = b"\x7fELF"


def executed(build: Build) -> Path:
    """The ELF file that a build's servers execute. Raises UserError if a user's own install has none."""
    program = build.bin / "postgres"
    return _of_process(build.label, program) if build.provenance == "local" else program.resolve()


@cache
def _of_process(label: str, program: Path) -> Path:
    account = unprivileged()
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    child = subprocess.Popen(
        [program, "--describe-config"],  # what a server prints without a cluster
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
        preexec_fn=bound_to_engine(signal.SIGKILL),
        **account.identity(),
    )
    os.close(writing)
    try:
        if _filled(reading, child):
            for pid in _writers(reading, child.pid):
                file = Path(f"/proc/{pid}/exe").readlink()
                with file.open("rb") as opened:
                    if opened.read(len(ELF)) == ELF:
                        return file
    except OSError:
        pass  # ended, or another user's
    finally:
        kill_group(child)
        os.close(reading)
    raise UserError(
        f"build '{label}': probes attach to the program that {program} finally starts, and that "
        "cannot be found; name the install that it wraps"
    )


def _filled(pipe: int, child: subprocess.Popen[bytes]) -> bool:
    """Wait until the pipe is full and blocks its writer; False if the program ended or hangs."""
    until_s = time.monotonic() + TIMEOUT_S
    held = array.array("i", [0])
    while child.poll() is None and time.monotonic() < until_s:
        fcntl.ioctl(pipe, termios.FIONREAD, held)
        if held[0] >= PIPE_BYTES:
            return True
        time.sleep(POLL_S)
    return False


def _writers(pipe: int, session: int) -> Iterator[int]:
    """The session's processes that write to the pipe, except those that only wait for another, as wrappers do."""
    inode = os.fstat(pipe).st_ino
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                if int(fields[3]) == session and (entry / "fd" / "1").stat().st_ino == inode:
                    parents[int(entry.name)] = int(fields[1])
            except OSError:
                continue
    yield from parents.keys() - parents.values()

"""The helper's process with bpftrace behind it: started, read without waiting, ended."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from probes import bpftrace, helper, processes
from probes.errors import ProbeError, visible

HELPER = "PGBED_PROBE_HELPER"  # names the installed helper, or a wrapper that gives it capabilities
PIPE_BYTES = 1024 * 1024
STOP_TIMEOUT_S = helper.GRACE_S + 2.0
STARVED_S = 60.0  # longest wait for a bpftrace that waits for a CPU
LINE_BYTES = 64 * 1024
LOOK_S = 1.0  # interval of that check
# Harmless lines of bpftrace on stderr.
HARMLESS = (
    "couldn't set RLIMIT_MEMLOCK",
    "Could not read functions from",
    "failed to look up stack id",
    "detach",
    "Attached ",
    "Attaching ",
)


class Tracer:
    """One run of bpftrace, started by the helper, which ends it when its standard input is closed."""

    def __init__(self, arguments: tuple[str, ...], command: tuple[str, ...] | None = None) -> None:
        self.process = subprocess.Popen(
            [*(command or helper_command()), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # shields it from the terminal's Ctrl-C
            env=environment(),
        )
        assert self.process.stdout is not None and self.process.stderr is not None
        self._out, self._err = self.process.stdout.fileno(), self.process.stderr.fileno()
        for fd in (self._out, self._err):
            os.set_blocking(fd, False)
            with suppress(OSError):  # a burst should fit, so that bpftrace never waits for the reader
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._line = b""
        self._asked_s: float | None = None
        self._heard_s = time.monotonic()
        self._use: processes.CpuUse | None = None  # its CPU use, once it has been silent for a while
        self._looked_s = 0.0  # how long it had been silent when last found to lack a CPU

    def read(self) -> bytes:
        data = _available(self._out)
        if data:
            self._heard_s, self._use, self._looked_s = time.monotonic(), None, 0.0
        return data

    @property
    def starved(self) -> bool:
        """Whether it has long been silent because it waits for a CPU."""
        return self._looked_s > 0

    def hung(self, limit_s: float) -> bool:
        """Whether it has been silent for longer than `limit_s`, and not because it waits for a CPU."""
        silent_s = time.monotonic() - self._heard_s
        if silent_s < limit_s / 2 or silent_s - self._looked_s < LOOK_S:
            return False
        if self._use is None:
            self._use = processes.cpu_use(self.process.pid)
        if silent_s < limit_s:
            return False
        now = processes.cpu_use(self.process.pid)
        if silent_s > STARVED_S or not now.starved(self._use):
            return True
        self._use, self._looked_s = now, silent_s
        return False

    def errors(self) -> list[str]:
        *lines, rest = (self._line + _available(self._err)).split(b"\n")
        self._line = rest[-LINE_BYTES:]
        texts = (visible(line.decode(errors="replace").strip()) for line in lines)
        return [text for text in texts if text and not any(harmless in text for harmless in HARMLESS)]

    def ask_end(self) -> None:
        """Ask bpftrace to print its last data and detach; return at once."""
        if self._asked_s is None:
            self._asked_s = time.monotonic()
            assert self.process.stdin is not None
            with suppress(OSError):
                self.process.stdin.close()

    def ended(self) -> int | None:
        """The exit code; None while it runs. Kills a process that was asked to end and did not."""
        if self._asked_s is not None and time.monotonic() - self._asked_s > STOP_TIMEOUT_S:
            with suppress(PermissionError):  # sudo cannot be killed from here; it ends with its child
                self.process.kill()  # the kernel then kills bpftrace
        return self.process.poll()

    def close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()


def helper_command() -> tuple[str, ...]:
    """The helper's command: direct for root or a wrapper with capabilities, else through sudo."""
    command = direct_command()
    if os.geteuid() == 0 or file_capabilities(Path(command[0])) is not None:
        return command
    return ("sudo", "-n", "--", *command)


def direct_command() -> tuple[str, ...]:
    """The helper itself, without arguments: the command that a sudo rule must permit."""
    installed = os.environ.get(HELPER)
    if installed:
        return (installed,)
    # -I: neither environment nor user folder decides on the imports of a privileged process. -B: no bytecode files.
    return (sys.executable, "-I", "-B", str(Path(helper.__file__).resolve()))


@cache
def bpftrace_version(command: tuple[str, ...]) -> str:
    """Version of the helper's bpftrace; needs no privilege. Raises ProbeError if bpftrace is missing."""
    try:
        answer = bpftrace.output([*command, "--version"], environment()).splitlines()
    except OSError as error:
        raise ProbeError(f"probes: {command[0]} does not run ({error.strerror}); reinstall pgbed") from None
    if len(answer) != 2 or bpftrace.parse_version(answer[1]) is None:
        refusal = next((line for line in answer if line.startswith("probes:")), "")
        raise ProbeError(refusal or f"probes: {command[0]} does not print which bpftrace it runs; reinstall pgbed")
    return visible(answer[1], 100)


def environment() -> dict[str, str]:
    """The helper's environment. If root starts the helper, root is the caller, even if root came by sudo."""
    return {name: value for name, value in os.environ.items() if os.geteuid() != 0 or name != "SUDO_UID"}


def file_capabilities(program: Path) -> int | None:
    """Capability bits that a program's file grants; None if it grants none."""
    try:
        _, low, _, high, _ = struct.unpack("<5I", os.getxattr(program, "security.capability")[:20])
    except (OSError, struct.error):
        return None
    return int(high) << 32 | int(low)


def _available(fd: int) -> bytes:
    parts = []
    with suppress(BlockingIOError):
        while part := os.read(fd, 1 << 20):
            parts.append(part)
    return b"".join(parts)

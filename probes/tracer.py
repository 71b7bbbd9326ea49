"""The helper's process with bpftrace behind it: started, read without waiting, ended."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from probes import helper, processes

PIPE_BYTES = 1024 * 1024
STOP_TIMEOUT_S = helper.GRACE_S + 2.0
STARVED_S = 60.0  # for so long at most one is waited for that waits for a CPU
LOOK_S = 1.0  # how often that is looked at
# Said by bpftrace of things that do no harm.
HARMLESS = (
    "couldn't set RLIMIT_MEMLOCK",
    "Could not read functions from",
    "failed to look up stack id",
    "detach",
    "Attached ",
    "Attaching ",
)


class Tracer:
    """One run of bpftrace behind the helper. Its life hangs on its standard input: closed, it ends.

    `process` has pipes; `said` are the lines of stderr that a person should see.
    """

    def __init__(self, arguments: tuple[str, ...], command: tuple[str, ...] | None = None) -> None:
        self.process = subprocess.Popen(
            [*(command or helper_command()), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # the terminal's Ctrl-C is not for it
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
        self._use: processes.CpuUse | None = None  # what it had of the CPUs, once it has been silent for a while
        self._looked_s = 0.0  # into its silence, when that was last found to be for want of a CPU

    def read(self) -> bytes:
        """What bpftrace has printed since the last call."""
        data = _available(self._out)
        if data:
            self._heard_s, self._use, self._looked_s = time.monotonic(), None, 0.0
        return data

    @property
    def starved(self) -> bool:
        """Whether it has been silent for long because it waits for a CPU."""
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

    def said(self) -> list[str]:
        """The lines it has said since the last call, without the harmless ones."""
        *lines, self._line = (self._line + _available(self._err)).split(b"\n")
        texts = (line.decode(errors="replace").strip() for line in lines)
        return [text for text in texts if text and not any(harmless in text for harmless in HARMLESS)]

    def ask_end(self) -> None:
        """Has bpftrace print its last and detach; returns at once."""
        if self._asked_s is None:
            self._asked_s = time.monotonic()
            assert self.process.stdin is not None
            with suppress(OSError):
                self.process.stdin.close()

    def ended(self) -> int | None:
        """The exit code; None while it runs. One that was asked and does not end is killed."""
        if self._asked_s is not None and time.monotonic() - self._asked_s > STOP_TIMEOUT_S:
            with suppress(PermissionError):  # sudo is not ours to kill; it ends with its child
                self.process.kill()  # the kernel then kills bpftrace
        return self.process.poll()

    def close(self) -> None:
        """Lets go of the pipes of a process that has ended."""
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()


def helper_command() -> tuple[str, ...]:
    """How the helper is started: by PGBED_PROBE_HELPER (a capability wrapper), directly as root, else by sudo."""
    wrapper = os.environ.get("PGBED_PROBE_HELPER")
    if wrapper:
        return (wrapper,)
    return direct_command() if os.geteuid() == 0 else ("sudo", "-n", "--", *direct_command())


def environment() -> dict[str, str]:
    """The helper's. Of one that root starts itself, root is the caller, though root may have come by sudo."""
    return {name: value for name, value in os.environ.items() if os.geteuid() != 0 or name != "SUDO_UID"}


def direct_command() -> tuple[str, ...]:
    """The helper itself, with no arguments: what a rule of sudo's must permit."""
    # -I: neither environment nor user folder decides what a privileged process imports. -B: it leaves nothing there.
    return (sys.executable, "-I", "-B", str(Path(helper.__file__).resolve()))


def _available(fd: int) -> bytes:
    """What can be read now."""
    parts = []
    with suppress(BlockingIOError):
        while part := os.read(fd, 1 << 20):
            parts.append(part)
    return b"".join(parts)

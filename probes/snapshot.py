"""The place where one process hangs at this moment, from `/proc` at once, and its user stack a little later.

Reading `/proc` disturbs no process. For a user stack, a tool must attach to the process and stop it for some
milliseconds; so it is taken only where that is harmless (`reason_not_to_attach`), by a separate process that no other
waits for: see `UserStack`. Nothing here raises for a process that vanished or a file that may not be read.
"""

from __future__ import annotations

import os
import platform
import re
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probes import processes
from probes.errors import visible

STACK_TOOL = "eu-stack"
STACK_TOOL_VARIABLE = "PGBED_STACK_TOOL"  # its path; otherwise found on PATH
STACK_TIMEOUT_S = 1.0
OUTPUT_BYTES = 65536
MOST_FRAMES = 64
TOOL_PRIORITY = -10  # a nice value; requires root
STOPPED_STATES = "Tt"
KERNEL_FRAME = re.compile(r"^\[<[0-9a-fx]+>\] (?:\[[^]]*\] )?([^+ ]+)", re.M)
USER_FRAME = re.compile(r"^#\d+ +(0x[0-9a-f]+)(?: - \d+)?(?: +([^ @\n]+))?.*$", re.M)

# Calls in which a server or its client may hang, from the kernel's tables; others are shown by number.
SYSCALLS: Mapping[str, Mapping[int, str]] = {
    "x86_64": {
        0: "read", 1: "write", 7: "poll", 17: "pread64", 18: "pwrite64", 19: "readv", 20: "writev", 23: "select",
        26: "msync", 34: "pause", 35: "nanosleep", 42: "connect", 43: "accept", 44: "sendto", 45: "recvfrom",
        46: "sendmsg", 47: "recvmsg", 61: "wait4", 65: "semop", 72: "fcntl", 73: "flock", 74: "fsync",
        75: "fdatasync", 76: "truncate", 77: "ftruncate", 82: "rename", 87: "unlink", 128: "rt_sigtimedwait",
        130: "rt_sigsuspend", 202: "futex", 220: "semtimedop", 230: "clock_nanosleep", 232: "epoll_wait",
        257: "openat", 270: "pselect6", 271: "ppoll", 277: "sync_file_range", 281: "epoll_pwait", 285: "fallocate",
        295: "preadv", 296: "pwritev", 426: "io_uring_enter",
    },
    "aarch64": {
        22: "epoll_pwait", 25: "fcntl", 32: "flock", 35: "unlinkat", 38: "renameat", 45: "truncate",
        46: "ftruncate", 47: "fallocate", 56: "openat", 63: "read", 64: "write", 65: "readv", 66: "writev",
        67: "pread64", 68: "pwrite64", 69: "preadv", 70: "pwritev", 72: "pselect6", 73: "ppoll", 82: "fsync",
        83: "fdatasync", 84: "sync_file_range", 98: "futex", 101: "nanosleep", 115: "clock_nanosleep",
        133: "rt_sigsuspend", 137: "rt_sigtimedwait", 192: "semtimedop", 193: "semop", 202: "accept",
        203: "connect", 206: "sendto", 207: "recvfrom", 211: "sendmsg", 212: "recvmsg", 227: "msync", 260: "wait4",
        426: "io_uring_enter",
    },
}  # fmt: skip
# Calls whose first argument is a file, which is then shown.
ON_A_FILE = frozenset({
    "read", "write", "pread64", "pwrite64", "readv", "writev", "preadv", "pwritev", "fsync", "fdatasync",
    "sync_file_range", "ftruncate", "fallocate", "sendto", "recvfrom", "sendmsg", "recvmsg", "connect", "accept",
    "flock", "fcntl",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class ProcessSnapshot:
    """One process at one moment.

    `state` is the kernel's letter ('' if the process has exited), `wchan` the kernel function it sleeps in, `syscall`
    its current call, with the file if any ('running' on a CPU), `kernel` the functions of its kernel stack, innermost
    first. Unreadable values are '' or empty, and `notes` say why.
    """

    pid: int
    state: str
    wchan: str
    syscall: str
    kernel: tuple[str, ...]
    notes: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        return {"state": self.state, "wchan": self.wchan, "syscall": self.syscall, "kernel": list(self.kernel)}


def take(pid: int) -> ProcessSnapshot:
    """Read the state of a process now; four short reads."""
    folder = Path(f"/proc/{pid}")
    notes: list[str] = []

    def text(name: str) -> str:
        try:
            return (folder / name).read_text(errors="replace")
        except PermissionError:
            notes.append(
                f"{name} cannot be read: {'needs root' if name == 'stack' else 'another user owns the process'}"
            )
        except FileNotFoundError:
            if folder.exists():
                notes.append(f"this kernel has no {folder}/{name}".replace(f"/{pid}/", "/PID/"))
        except (OSError, ValueError):
            pass  # exited or exiting
        return ""

    stat = text("stat")
    if not stat:
        return ProcessSnapshot(pid, "", "", "", (), (f"process {pid} has exited",))
    wchan = text("wchan").strip()
    return ProcessSnapshot(
        pid=pid,
        state=stat[stat.rindex(")") + 2],
        wchan="" if wchan == "0" else visible(wchan),
        syscall=syscall_text(pid, text("syscall")),
        kernel=parse_kernel_stack(text("stack")),
        notes=tuple(notes),
    )


def parse_kernel_stack(text: str) -> tuple[str, ...]:
    return tuple(KERNEL_FRAME.findall(text))


def parse_syscall(text: str, machine: str) -> tuple[str, int | None]:
    """Name and file descriptor (if any) of the call in `/proc/PID/syscall`; 'running' on a CPU; '' outside a call."""
    number, *arguments = text.split() or [""]
    if not number or number == "-1":
        return "", None
    if number == "running":
        return number, None
    name = SYSCALLS.get(machine, {}).get(int(number), f"syscall {number}")
    return name, int(arguments[0], 16) if name in ON_A_FILE and arguments else None


def syscall_text(pid: int, text: str) -> str:
    """The current call of a process in readable form: `fdatasync pg_wal/000000010000000000000003`."""
    name, descriptor = parse_syscall(text, platform.machine())
    if descriptor is None:
        return name
    with suppress(OSError):
        target = Path(f"/proc/{pid}/fd/{descriptor}").readlink()
        return visible(f"{name} {'/'.join(target.parts[-2:])}")  # or such as socket:[4711]
    return f"{name} fd {descriptor}"


def parse_user_stack(text: str) -> tuple[str, ...]:
    """Functions printed by `eu-stack`, innermost first; addresses if unnamed."""
    return tuple(visible(name or address) for address, name in USER_FRAME.findall(text))


def reason_not_to_attach(snapshot: ProcessSnapshot) -> str:
    """The reason not to attach to a process ('' if none): a stopped or uninterruptible one would be stopped later."""
    if not snapshot.state:
        return "the process has exited"
    if snapshot.state in STOPPED_STATES:
        return "not attached to: the process is stopped by a signal or a debugger"
    if snapshot.state == "D":
        return "not attached to: the process is in an uninterruptible wait; its kernel stack shows which"
    if snapshot.state not in "RS":
        return f"not attached to: the process is in state {snapshot.state}"
    owner = processes.owner(snapshot.pid)
    if owner is None:
        return "the process has exited"
    if os.geteuid() not in (0, owner):
        return "not attached to: needs root or the server's own user"
    return ""


def find_stack_tool() -> str | None:
    return shutil.which(os.environ.get(STACK_TOOL_VARIABLE) or STACK_TOOL)


class UserStack:
    """A user stack being taken: polled until `done`; `frames` (innermost first) or `note` hold the outcome.

    The tool writes to memory, not to a pipe, and outlives this process: should this one die, the tool still releases
    the process that it stopped. A tool that takes too long is killed; the kernel then leaves behind the signal by
    which it had attached, so the process is sent SIGCONT.
    """

    def __init__(self, pid: int, tool: str) -> None:
        self.pid = pid
        self.frames: tuple[str, ...] = ()
        self.note = ""
        self.done = False
        self._deadline_s = time.monotonic() + STACK_TIMEOUT_S
        self._killed = False
        self._output = os.memfd_create("stack", os.MFD_CLOEXEC)
        # A debuginfo server would be queried over the network.
        environment = {name: value for name, value in os.environ.items() if name != "DEBUGINFOD_URLS"}
        try:
            self._process = subprocess.Popen(
                [tool, "-1", "-n", str(MOST_FRAMES), "-p", str(pid)],
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            self._finish(note=f"{tool} cannot be started: {error.strerror}")
            return
        with suppress(OSError):
            resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (OUTPUT_BYTES, OUTPUT_BYTES))
        with suppress(OSError):  # if all CPUs are busy, it would hold the process for as long as it waits for one
            os.setpriority(os.PRIO_PROCESS, self._process.pid, TOOL_PRIORITY)

    def poll(self) -> bool:
        if self.done:
            return True
        code = self._process.poll()
        if code is None:
            if not self._killed and time.monotonic() > self._deadline_s:
                self._kill()
            return False
        if self._killed:
            let_go(self.pid)
            self._finish(note=f"the user stack took more than {STACK_TIMEOUT_S:g} s and was abandoned")
            return True
        text = os.pread(self._output, OUTPUT_BYTES, 0).decode(errors="replace")
        frames = parse_user_stack(text)
        lines = [visible(line) for line in text.splitlines() if line.startswith(STACK_TOOL)]
        # A process stopped while running may have no complete stack: return the part that exists.
        self._finish(frames, "" if frames else (lines[-1] if lines else f"{STACK_TOOL} ended with code {code}"))
        return True

    def cancel(self) -> None:
        """Give up. Waits for the tool to exit, which is immediate."""
        if not self.poll():
            self._kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(STACK_TIMEOUT_S)
            self.poll()

    def _kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)  # with its children
        self._killed = True

    def _finish(self, frames: tuple[str, ...] = (), note: str = "") -> None:
        self.frames, self.note, self.done = frames, note, True
        os.close(self._output)


def let_go(pid: int) -> None:
    """Undo a killed tool's attaching: a process stopped, or about to be. Harmless to any other."""
    with suppress(OSError):
        os.kill(pid, signal.SIGCONT)

"""The privileged part, the only one: runs one of the project's own scripts with bpftrace, and nothing else.

    helper.py PROBE --bpftrace FILE --binary FILE --major N --server PID [--client PID]... [--launcher PID]...

It takes no script and no attach point from its caller: it finds them in the binary by the project's table, writes the
script to memory, and starts bpftrace without a shell and with an environment of its own. Every argument is checked.
bpftrace's output goes straight to the caller. The helper ends bpftrace when its standard input ends, which the
kernel sees to when the caller dies, however it dies; when the helper itself dies, the kernel kills bpftrace.

It uses nothing but Python's own library.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import select
import signal
import stat
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

if __name__ == "__main__":  # started by its path, so that no environment decides what is imported
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from probes import elf, processes, render, resolve
from probes.errors import ProbeError
from probes.origin import bpftrace_version, parse_version
from probes.table import BY_ID, SCRIPTED

GRACE_S = 3.0  # from SIGINT, which has bpftrace detach and print its last, to SIGKILL
TRACEFS = Path("/sys/kernel/tracing")
NO_TRACEFS = f"probes: the kernel's tracing file system is not mounted; as root: mount -t tracefs tracefs {TRACEFS}"
PR_SET_PDEATHSIG = 1
ENVIRONMENT = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C",
    # The default is 4096, and inserts beyond are dropped without a message. Two names: since 0.20, and before.
    "BPFTRACE_MAX_MAP_KEYS": "16384",
    "BPFTRACE_MAP_KEYS_MAX": "16384",
    "BPFTRACE_NO_USER_SYMBOLS": "1",  # bpftrace asks at print time, when backends are gone; the reader does it
}


def main(argv: list[str]) -> int:
    """Runs a probe until standard input ends; returns bpftrace's exit code, 2 for what was refused."""
    try:
        wanted = parse(argv)
        if not wanted.render_only:
            need_tracefs(mount=wanted.mount_tracefs)
        script = prepare(wanted)
    except ProbeError as error:
        print(error, file=sys.stderr, flush=True)
        return 2
    if wanted.render_only:
        sys.stdout.write(script)
        return 0
    return run(wanted.bpftrace, script)


def parse(argv: list[str]) -> argparse.Namespace:
    """The arguments, checked one by one. Raises ProbeError for what the helper will not do."""
    parser = _Parser(prog="helper", description="Runs one probe for its caller.")
    parser.add_argument("probe")
    parser.add_argument("--bpftrace", type=Path, required=True)
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--major", required=True)
    parser.add_argument("--server", required=True)
    parser.add_argument("--client", action="append", default=[])
    parser.add_argument("--launcher", action="append", default=[])
    parser.add_argument("--allow-slow", action="store_true")
    parser.add_argument("--untracked", action="store_true", help="tracepoints cannot be read: no filter by process")
    parser.add_argument("--mount-tracefs", action="store_true")
    parser.add_argument("--render-only", action="store_true", help="print the script, do not run it")
    wanted = parser.parse_args(argv)
    if wanted.probe not in SCRIPTED:
        raise ProbeError(f"probes: the helper knows no probe {wanted.probe!r} (known: {', '.join(SCRIPTED)})")
    if not re.fullmatch(r"[1-9][0-9]", wanted.major):
        raise ProbeError(f"probes: {wanted.major!r} is no major version of PostgreSQL, such as 16")
    wanted.major = int(wanted.major)
    wanted.server = living_pid(wanted.server)
    wanted.client = [living_pid(text) for text in wanted.client]
    wanted.launcher = [living_pid(text) for text in wanted.launcher]
    wanted.bpftrace = trusted_program(wanted.bpftrace)
    wanted.binary = server_binary(wanted.binary, wanted.server)
    return wanted


def living_pid(text: str) -> int:
    """The pid that the text names. Raises ProbeError when it is none or there is no such process."""
    if not re.fullmatch(r"[1-9][0-9]{0,9}", text):
        raise ProbeError(f"probes: {text!r} is no process id")
    try:
        owner = Path(f"/proc/{text}").stat().st_uid
    except OSError:
        raise ProbeError(f"probes: there is no process {text}") from None
    if privileged() and caller() not in (0, owner):
        raise ProbeError(f"probes: process {text} belongs to user {owner}; only your own may be watched")
    return int(text)


def privileged() -> bool:
    """Whether this process may do more than the one who called it: root, or any capability."""
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    held = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    return os.geteuid() == 0 or (held is not None and int(held[1], 16) != 0)


def caller() -> int:
    """The user on whose behalf this runs. Only sudo, which runs it as root, is believed about that."""
    said = os.environ.get("SUDO_UID", "")
    return int(said) if os.geteuid() == 0 and said.isdecimal() else os.getuid()


def trusted_program(path: Path) -> Path:
    """A bpftrace that nobody but root can have put there, or its caller where it is run without any privilege.

    Raises ProbeError when the file or a folder above it may be written by others.
    """
    whole = _absolute(path)
    if whole.name not in ("bpftrace", ".bpftrace-wrapped"):
        raise ProbeError(f"probes: {whole} is not named bpftrace; the helper starts nothing else")
    loose = changeable(whole, {0} if privileged() else {0, os.getuid()})
    if loose is not None:
        raise ProbeError(f"probes: {loose} could be changed by others; bpftrace must be root's alone to be run as root")
    if not os.access(whole, os.X_OK):
        raise ProbeError(f"probes: {whole} cannot be executed; install bpftrace")
    return whole


def changeable(path: Path, owners: Collection[int] = (0,)) -> Path | None:
    """The file, or the first folder above it, that others than `owners` may change; None when there is none.

    Sticky folders such as /tmp are well, as nobody can replace there what is not theirs.
    """
    for one in (path, *path.parents):
        status = one.stat()
        loose = status.st_mode & (stat.S_IWOTH | (stat.S_IWGRP if status.st_gid else 0))
        if status.st_uid not in owners or (loose and not status.st_mode & stat.S_ISVTX):
            return one
    return None


def server_binary(path: Path, server: int) -> Path:
    """The server's own binary: owned by root or by the caller, and what the running server was started from."""
    whole = _absolute(path)
    status = whole.stat()
    if status.st_uid not in (0, caller()):
        raise ProbeError(f"probes: {whole} belongs to user {status.st_uid}; give a binary of root's or of your own")
    if not render.SAFE_PATH.fullmatch(str(whole)):
        raise ProbeError(f"probes: {whole}: the path holds characters that a script cannot; move the server")
    elf.read(whole)
    try:
        running = Path(f"/proc/{server}/exe").stat()
    except OSError as error:
        raise ProbeError(f"probes: server {server}: {error.strerror}; is it running?") from None
    if (running.st_dev, running.st_ino) != (status.st_dev, status.st_ino):
        raise ProbeError(
            f"probes: the running server (pid {server}) was started from another file; "
            f"probes on {whole} would never fire"
        )
    return whole


def need_tracefs(*, mount: bool) -> None:
    """Raises ProbeError when the tracing file system is not mounted, unless it may be mounted and can."""
    if mount:
        mount_tracefs()
    elif not tracefs_mounted():
        raise ProbeError(NO_TRACEFS)


def mount_tracefs() -> None:
    """Mounts the tracing file system if it is not there, and says so. Raises ProbeError when that cannot be done."""
    if tracefs_mounted():
        return
    if os.geteuid() != 0:
        raise ProbeError(NO_TRACEFS)
    libc = ctypes.CDLL(None, use_errno=True)
    flags = 2 | 4 | 8  # nosuid, nodev, noexec
    if libc.mount(b"tracefs", str(TRACEFS).encode(), b"tracefs", flags, None) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise ProbeError(f"probes: the tracing file system could not be mounted at {TRACEFS}: {reason}")
    print(f"probes: mounted the tracing file system at {TRACEFS}", file=sys.stderr, flush=True)


def tracefs_mounted() -> bool:
    """Whether the tracing file system is where it belongs; any user can tell, who may not look into it."""
    mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    return any(line.split(" ")[1:3] == [str(TRACEFS), "tracefs"] for line in mounts.splitlines())


def prepare(wanted: argparse.Namespace) -> str:
    """The script to run, over the processes as they are now. Raises ProbeError when it can attach nowhere."""
    binary = elf.read(wanted.binary)
    probe = BY_ID[wanted.probe]
    attachments = resolve.resolve_all(
        binary, probe.events, wanted.major, kernel=kernel_version(), allow_slow=wanted.allow_slow
    )
    groups = processes.groups(wanted.server, wanted.client, wanted.launcher)
    return render.script(
        wanted.probe,
        groups,
        binary=str(wanted.binary),
        attachments=attachments,
        machine=binary.machine,
        tracking=not wanted.untracked,
        bpftrace=parse_version(bpftrace_version(wanted.bpftrace)) or (0, 17),
    )


def kernel_version() -> tuple[int, int]:
    """The running kernel's major and minor version."""
    major, minor = re.findall(r"\d+", os.uname().release)[:2]
    return int(major), int(minor)


def run(bpftrace: Path, script: str) -> int:
    """Runs bpftrace over a script until it ends or standard input does; returns its exit code."""
    script_fd = os.memfd_create("probe.bt")
    os.write(script_fd, script.encode())
    helper = os.getpid()

    def die_with_helper() -> None:
        # Here, after any change of credentials: the kernel forgets it then.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != helper:
            os._exit(1)

    child = subprocess.Popen(
        [str(bpftrace), "-f", "json", "-B", "line", "--no-warnings", f"/proc/self/fd/{script_fd}"],
        stdin=subprocess.DEVNULL,
        env=ENVIRONMENT,
        pass_fds=[script_fd],
        preexec_fn=die_with_helper,
        start_new_session=True,  # the terminal's Ctrl-C is the caller's to pass on
    )
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, lambda _number, _frame: sys.exit(_stop(child)))
    child_fd = os.pidfd_open(child.pid)
    poller = select.poll()
    poller.register(child_fd, select.POLLIN)
    poller.register(0, select.POLLIN | select.POLLHUP)
    while True:
        ready = {fd for fd, _ in poller.poll()}
        if child_fd in ready:
            return child.wait()
        if 0 in ready and not os.read(0, 4096):
            return _stop(child)


def _stop(child: subprocess.Popen[bytes]) -> int:
    child.send_signal(signal.SIGINT)
    try:
        return child.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.wait()


def _absolute(path: Path) -> Path:
    try:
        return path.resolve(strict=True)
    except OSError as error:
        raise ProbeError(f"probes: {path}: {error.strerror}") from None


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, as all errors do."""

    def error(self, message: str) -> None:  # type: ignore[override]
        raise ProbeError(f"probes: helper: {message}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

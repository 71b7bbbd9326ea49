"""The only privileged part: runs one of the project's own scripts with bpftrace, and nothing else.

helper.py PROBE --binary FILE --major N --server PID [--client PID]... [--launcher PID]...
helper.py --version      path and version of the bpftrace that it would run, a line each

It takes no program, script or attach point from its caller. Its bpftrace is fixed where it is installed (see
`bpftrace`); it finds attach points in the binary by the project's table; the script is written to memory; bpftrace is
started without a shell and with an environment of its own. Every argument is checked: a caller other than root names
processes and binaries of its own, and only threads of that user are counted.

bpftrace's output goes straight to the caller. The helper ends bpftrace when its standard input ends, which the
kernel ensures however the caller dies; if the helper itself dies, the kernel kills bpftrace.

It uses only Python's standard library.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

if __name__ == "__main__":  # started by its path, so that no environment decides on imports
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from probes import attach_points, bpftrace, elf, processes, script_text
from probes.errors import ProbeError, visible
from probes.table import BY_ID, SCRIPTED

GRACE_S = 3.0  # from SIGINT, on which bpftrace detaches and prints its last data, to SIGKILL
TRACEFS = Path("/sys/kernel/tracing")
NO_TRACEFS = f"probes: the kernel's tracing file system is not mounted; as root: mount -t tracefs tracefs {TRACEFS}"
PR_SET_PDEATHSIG = 1
CLONE_NEWNS = 0x20000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 1 << 12, 1 << 14, 1 << 18
HELD = Path("/dev/shm")  # where the helper has a folder of its own in its mount namespace; bpftrace does not need it
ENVIRONMENT = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C",
    # The default is 4096, and inserts beyond it are silently dropped. Two names: since 0.20, and before.
    "BPFTRACE_MAX_MAP_KEYS": "16384",
    "BPFTRACE_MAP_KEYS_MAX": "16384",
    "BPFTRACE_NO_USER_SYMBOLS": "1",  # bpftrace resolves at print time, when backends are gone; the reader does it
}


def main(argv: list[str], pinned: str = "") -> int:
    """Run a probe with the `pinned` bpftrace until standard input ends.

    Returns bpftrace's exit code, or 2 for a refused request.
    """
    try:
        if argv == ["--version"]:
            program = bpftrace.find(pinned)
            print(program, bpftrace.version(program), sep="\n", flush=True)
            return 0
        wanted = parse(argv)
        program = bpftrace.find(pinned)
        if not wanted.render_only:
            if wanted.mount_tracefs:
                mount_tracefs()
            elif not tracefs_mounted():
                raise ProbeError(NO_TRACEFS)
        wanted.binary = unchangeable(wanted.probe, wanted.binary, wanted.server)
        script = prepare(wanted, bpftrace.parse_version(bpftrace.version(program)) or (0, 17))
    except (ProbeError, OSError) as error:
        text = str(error) if isinstance(error, ProbeError) else visible(f"probes: helper: {error}")
        print(text, file=sys.stderr, flush=True)
        return 2
    if wanted.render_only:
        sys.stdout.write(script)
        return 0
    return run(program, script)


def parse(argv: list[str]) -> argparse.Namespace:
    """Parse and check the arguments. Raises ProbeError for arguments that the helper refuses."""
    parser = _Parser(prog="helper", description="Runs one probe for its caller.", allow_abbrev=False)
    parser.add_argument("probe")
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--major", required=True)
    parser.add_argument("--server", type=living_pid, required=True)
    parser.add_argument("--client", type=living_pid, action="append", default=[])
    parser.add_argument("--launcher", type=living_pid, action="append", default=[])
    parser.add_argument("--allow-slow", action="store_true")
    parser.add_argument("--untracked", action="store_true", help="tracepoints cannot be read: no filter by process")
    parser.add_argument("--mount-tracefs", action="store_true")
    parser.add_argument("--render-only", action="store_true", help="print the script, do not run it")
    wanted = parser.parse_args(argv)
    if wanted.probe not in SCRIPTED:
        raise ProbeError(f"probes: the helper has no probe {wanted.probe!r} (known: {', '.join(SCRIPTED)})")
    if not re.fullmatch(r"[1-9][0-9]", wanted.major):
        raise ProbeError(f"probes: {wanted.major!r} is not a major version of PostgreSQL, such as 16")
    wanted.major = int(wanted.major)
    if wanted.untracked and caller() != 0:
        raise ProbeError("probes: --untracked counts every user's servers on the binary; only root may ask for that")
    wanted.binary = server_binary(wanted.binary, wanted.server)
    return wanted


def living_pid(text: str) -> int:
    """Parse a pid. Raises ProbeError unless the caller may watch that process."""
    if not re.fullmatch(r"[1-9][0-9]{0,9}", text):
        raise ProbeError(f"probes: {text!r} is not a process id")
    owner = processes.owner(int(text))
    if owner is None:
        raise ProbeError(f"probes: there is no process {text}")
    if caller() not in (0, owner):
        raise ProbeError(f"probes: process {text} belongs to user {owner}; only your own may be watched")
    return int(text)


def caller() -> int:
    """The user on whose behalf this runs. Only sudo, which runs it as root, is believed about that."""
    user = os.environ.get("SUDO_UID", "")
    return int(user) if os.geteuid() == 0 and user.isdecimal() else os.getuid()


def server_binary(path: Path, server: int) -> Path:
    """The binary that the running server was started from, owned by root or by the caller."""
    try:
        resolved = path.resolve(strict=True)
        status, running = resolved.stat(), Path(f"/proc/{server}/exe").stat()
        same = (running.st_dev, running.st_ino) == (status.st_dev, status.st_ino)
    except OSError:
        same = False  # without the reason, which would reveal the contents of folders that the caller cannot read
    if not same:
        raise ProbeError(
            f"probes: the running server (pid {server}) was started from another file than {path}; "
            "probes there would never fire"
        )
    if status.st_uid not in (0, caller()):
        raise ProbeError(f"probes: {resolved} belongs to user {status.st_uid}; use a binary of root's or of your own")
    if not script_text.SAFE_PATH.fullmatch(str(resolved)):
        raise ProbeError(f"probes: {resolved}: a bpftrace script cannot hold this path; move the server")
    return resolved


def unchangeable(probe: str, binary: Path, server: int) -> Path:
    """A path to the binary that only root can change: its own, or a mount that no other process sees.

    bpftrace reads a function's offset from the file, and the kernel then opens the path again. Anyone who replaced the
    file in between would have the kernel write a breakpoint into any program, at any place, for all its users.
    """
    if not BY_ID[probe].needs_binary or (bpftrace.changeable(binary) is None and not user_mounted(binary)):
        return binary
    held = HELD / "postgres"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) == 0:
        _mount(libc, "none", Path("/"), MS_REC | MS_PRIVATE)
        _mount(libc, "tmpfs", HELD, MS_NOSUID | MS_NODEV | MS_NOEXEC, "tmpfs", "mode=755,uid=0,gid=0,size=4096")
        held.touch(0o644)
        with suppress(ProbeError):  # the check below reports it
            _mount(libc, str(binary), held, MS_BIND)
        return server_binary(held, server)
    raise ProbeError(
        f"probes: {probe}: others than root could replace {binary}; preventing that needs CAP_SYS_ADMIN "
        f"({os.strerror(ctypes.get_errno())}); use a server from the Nix store or a system folder"
    )


def user_mounted(path: Path) -> bool:
    """Whether a file system on the way may be mounted by a user, which always implies nosuid.

    FUSE reports owners and links as that user wishes. The Nix store is nosuid too, but mounted by root only.
    """
    on_the_way = () if path.is_relative_to(bpftrace.NIX_STORE) else (path, *path.parents)
    return any(os.statvfs(one).f_flag & os.ST_NOSUID for one in on_the_way)


def mount_tracefs() -> None:
    """Mount the tracing file system if missing, and say so. Raises ProbeError if that fails."""
    if tracefs_mounted():
        return
    if os.geteuid() != 0 or caller() != 0:
        raise ProbeError(NO_TRACEFS)
    _mount(ctypes.CDLL(None, use_errno=True), "tracefs", TRACEFS, MS_NOSUID | MS_NODEV | MS_NOEXEC, "tracefs")
    print(f"probes: mounted the tracing file system at {TRACEFS}", file=sys.stderr, flush=True)


def tracefs_mounted() -> bool:
    """Whether the tracing file system is mounted; works for users who may not read it."""
    mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    return any(line.split(" ")[1:3] == [str(TRACEFS), "tracefs"] for line in mounts.splitlines())


def prepare(wanted: argparse.Namespace, version: tuple[int, int] = (0, 17)) -> str:
    """Render the script for the present processes. Raises ProbeError if it can attach nowhere."""
    probe = BY_ID[wanted.probe]
    attachments, machine = {}, os.uname().machine
    if probe.needs_binary:
        binary = elf.read(wanted.binary)
        machine = binary.machine
        attachments = attach_points.resolve_all(
            binary, probe.events, wanted.major, kernel=kernel_version(), allow_slow=wanted.allow_slow
        )
    groups = processes.groups(wanted.server, wanted.client, wanted.launcher)
    owner = caller()
    if owner != 0:  # a child may have changed its user: sudo, su
        groups = {tid: group for tid, group in groups.items() if processes.owner(tid) == owner}
    return script_text.script(
        wanted.probe,
        groups,
        binary=str(wanted.binary),
        attachments=attachments,
        machine=machine,
        tracking=not wanted.untracked,
        owner=owner,
        bpftrace=version,
        cpus=os.cpu_count() or 1,
    )


def kernel_version() -> tuple[int, int]:
    return bpftrace.parse_version(os.uname().release) or (0, 0)


def run(program: Path, script: str) -> int:
    """Run bpftrace on a script until it or standard input ends; return its exit code."""
    script_fd = os.memfd_create("probe.bt")
    os.write(script_fd, script.encode())
    helper = os.getpid()

    def die_with_helper() -> None:
        # After any change of credentials, which makes the kernel forget this.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != helper:
            os._exit(1)

    child = subprocess.Popen(
        [str(program), "-f", "json", "-B", "line", "--no-warnings", f"/proc/self/fd/{script_fd}"],
        stdin=subprocess.DEVNULL,
        env=ENVIRONMENT,
        cwd="/",
        pass_fds=[script_fd],
        preexec_fn=die_with_helper,
        start_new_session=True,  # the caller passes the terminal's Ctrl-C on
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


def _mount(libc: ctypes.CDLL, source: str, target: Path, flags: int, kind: str = "", options: str = "") -> None:
    if libc.mount(os.fsencode(source), os.fsencode(target), kind.encode(), flags, options.encode()) != 0:
        raise ProbeError(f"probes: {source} could not be mounted at {target}: {os.strerror(ctypes.get_errno())}")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise ProbeError(f"probes: helper: {message}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

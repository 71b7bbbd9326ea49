"""Booting this machine into another kernel by kexec: what prevents it, and how it is done.

kexec_file_load(2) loads the kernel without a helper program; then systemctl shuts the system down properly.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

from engine.core.errors import UserError

# On the command line of every kernel booted this way, unlike one booted by the firmware.
MARK = "pgbed.boot=kexec"
# A kernel that panics reboots through the firmware instead of hanging forever.
AFTER_PANIC = "panic=30"
KEXEC_FILE_LOAD = {"x86_64": 320}
CONTAINERS = (".dockerenv", "run/.containerenv", "run/systemd/container", "run/host/container-manager")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
COMMAND_LINE = Path("/proc/cmdline")
NOT_TRUSTED = (errno.EKEYREJECTED, errno.ENOKEY, errno.EBADMSG)


@dataclass(frozen=True, slots=True)
class Running:
    """The running kernel: release and version (uname -r and -v), boot id, whether booted with MARK."""

    release: str
    version: str
    boot_id: str
    marked: bool


def running() -> Running:
    release = os.uname()
    return Running(
        release.release,
        release.version,
        BOOT_ID.read_text(errors="replace").strip(),
        MARK in COMMAND_LINE.read_text(errors="replace").split(),
    )


def hindrance(root: Path = Path("/")) -> str:
    """What keeps this machine from booting another kernel, and what to do about it; empty if nothing."""
    inside = next((name for name in CONTAINERS if (root / name).exists()), None)
    locked = _text(root / "sys/kernel/security/lockdown")
    if platform.machine() not in KEXEC_FILE_LOAD:
        return f"not known how to boot another kernel on {platform.machine()}"
    if inside is not None:
        return f"this is a container (/{inside}): its host's kernel runs here; boot kernels on the host"
    if not (root / "run/systemd/system").is_dir():
        return "systemd does not run here, which goes down for it and starts the run again"
    if not (root / "sys/kernel/kexec_loaded").exists():
        return f"the kernel that runs cannot boot another one (Linux {os.uname().release} without CONFIG_KEXEC)"
    if _text(root / "proc/sys/kernel/kexec_load_disabled") == "1":
        return "kernel.kexec_load_disabled is 1, which holds until the next boot: take it out of /etc/sysctl.d"
    if locked and "[none]" not in locked:
        return "the kernel is locked down (secure boot): turn secure boot off in the firmware, or use guests"
    if os.geteuid() != 0:
        return "only root may boot another kernel: start bench as root"
    return ""


def check() -> None:
    why = hindrance()
    if why:
        raise UserError(f"--kernel-by reboot: {why}")


def load(image: Path, initrd: Path, command_line: str) -> None:
    """Load a kernel for the next kexec. Raises UserError if the running kernel refuses it."""
    text = f"{command_line} {MARK} {AFTER_PANIC}".encode() + b"\0"
    try:
        kernel, first = image.open("rb"), initrd.open("rb")
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}: the kernel has been removed") from None
    with kernel, first:
        libc = ctypes.CDLL(None, use_errno=True)
        number = KEXEC_FILE_LOAD[platform.machine()]
        fds = ctypes.c_long(kernel.fileno()), ctypes.c_long(first.fileno())
        done = libc.syscall(ctypes.c_long(number), *fds, ctypes.c_ulong(len(text)), text, ctypes.c_ulong(0))
    if done != 0:
        code = ctypes.get_errno()
        why = "it is not signed by a key that this machine trusts" if code in NOT_TRUSTED else os.strerror(code)
        raise UserError(f"{image}: the running kernel refuses it: {why}")


def boot() -> None:
    """Shut down and boot the loaded kernel. Returns at once."""
    systemctl("kexec")


def reboot() -> None:
    """Shut down and boot the boot loader's default through the firmware. Returns at once."""
    systemctl("reboot")


def systemctl(*words: str) -> None:
    """Raises UserError with systemctl's message if it fails or is missing."""
    try:
        done = subprocess.run(["systemctl", *words], capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise UserError(f"systemctl {words[0]}: {error.strerror}") from None
    if done.returncode != 0:
        why = " ".join(done.stderr.split())[:300] or f"exit code {done.returncode}"
        raise UserError(f"systemctl {words[0]}: {why}")


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""

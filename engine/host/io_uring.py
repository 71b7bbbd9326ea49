"""A check of whether this kernel lets a server use io_uring."""

from __future__ import annotations

import ctypes
import errno
from pathlib import Path

from engine.system.account import Account

IO_URING_SETUP = 425  # on every architecture
DISABLED, GROUP = (Path(f"/proc/sys/kernel/io_uring_{name}") for name in ("disabled", "group"))
REFUSED = {  # with no entries asked for, a kernel that allows it says EINVAL
    errno.EPERM: "a seccomp filter forbids it, as in many containers: start pgbed outside it, or allow io_uring_setup",
    errno.ENOSYS: "this kernel has no io_uring",
}


def refusal(account: Account) -> str:
    """The reason why a server of this account may not use io_uring, and the remedy; empty if it may."""
    disabled = DISABLED.read_text(errors="replace").strip() if DISABLED.exists() else "0"
    allowed = GROUP.read_text(errors="replace").strip() if GROUP.exists() else "-1"
    if disabled == "2" or (disabled == "1" and allowed != str(account.gid)):
        return f"the kernel forbids it (kernel.io_uring_disabled is {disabled}): sysctl kernel.io_uring_disabled=0"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(IO_URING_SETUP, 0, None) == -1 and ctypes.get_errno() in REFUSED:
        return REFUSED[ctypes.get_errno()]
    return ""

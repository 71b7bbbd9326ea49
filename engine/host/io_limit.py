"""A limit on how often a server reads and writes the device under its cluster, in a control group of its own.

The kernel delays what exceeds it, so a read that is waited for takes at least 1 / limit. Other processes keep the
device's speed. Whatever the number of reads in flight, the device then does no more: it is as slow as a cloud volume
with a limit, not as one with a long way to it.

    version 1   /sys/fs/cgroup/blkio/pgbed, blkio.throttle.{read,write}_iops_device: not what others write back later
    version 2   /sys/fs/cgroup/pgbed, io.max
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from engine.core.errors import UserError
from engine.host.procfs import children

LIMITS = ("read_iops", "write_iops")
DISKS = Path("/sys/block")
BLKIO, UNIFIED = Path("/sys/fs/cgroup/blkio"), Path("/sys/fs/cgroup")
NAME = "pgbed"
CONTROLLERS = "cgroup.subtree_control"
ON, OFF = "+io", "-io"  # what is written there
ABSENT = "absent"  # the state of the group before it was made
REMOVAL_S = 2.0  # a server's last process may be about to end


def parent() -> Path:
    """The folder in which the group is made. Raises UserError where the kernel has no such limit."""
    if (BLKIO / "blkio.throttle.read_iops_device").exists():
        return BLKIO
    with suppress(OSError):
        if "io" in (UNIFIED / "cgroup.controllers").read_text(errors="replace").split():
            return UNIFIED
    raise UserError("this kernel limits no I/O of control groups (neither blkio nor io)")


def before() -> dict[str, str]:
    """What `restore` is given to undo `limit`, by file."""
    folder, undone = parent(), {}
    undone[str(folder / NAME)] = ABSENT
    if folder == UNIFIED and "io" not in (folder / CONTROLLERS).read_text(errors="replace").split():
        undone[str(folder / CONTROLLERS)] = OFF
    return undone


def limit(limits: Mapping[str, str], device: str) -> None:
    """Make the group, which limits what its processes do with a disk. Raises OSError if the kernel refuses."""
    folder = parent()
    numbers = (DISKS / device / "dev").read_text(errors="replace").strip()
    if folder == UNIFIED:
        (folder / CONTROLLERS).write_text(ON)
    group = folder / NAME
    group.mkdir(exist_ok=True)
    for name in LIMITS:
        if folder == UNIFIED:
            (group / "io.max").write_text(f"{numbers} {name[0]}iops={limits.get(name, 'max')}")
        else:  # 0: no limit
            (group / f"blkio.throttle.{name}_device").write_text(f"{numbers} {limits.get(name, 0)}")


def join(pid: int) -> None:
    """Put a server, with what it has started so far, into the group. Raises UserError."""
    members = parent() / NAME / "cgroup.procs"
    try:
        members.write_text(str(pid))
        for child in children(pid):  # later ones are born into it
            with suppress(ProcessLookupError):
                members.write_text(str(child))
    except OSError as error:
        raise UserError(f"{members}: the server cannot be limited: {error.strerror}") from None


def is_ours(path: str, value: str) -> bool:
    folders = (str(BLKIO / NAME), str(UNIFIED / NAME))
    return (path in folders and value == ABSENT) or (path == str(UNIFIED / CONTROLLERS) and value == OFF)


def restore(path: str) -> bool:
    """Remove the group, or switch the controller off again; return whether that is done."""
    place, until_s = Path(path), time.monotonic() + REMOVAL_S
    if place.name == CONTROLLERS:
        with suppress(OSError):  # another group has begun to use it
            place.write_text(OFF)
        return True
    while True:
        try:
            place.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            if time.monotonic() > until_s:
                return False
            time.sleep(0.02)
        else:
            return True

"""Kernels that cells run under, and the guest machines that they are booted in."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

HOST = "host"  # the kernel that runs here now
BOOT = "boot"  # the kind of event with which a guest begins to boot: {"cell", "after": the newest attempt then}
EEVDF_SINCE = (6, 6)  # the scheduler of ordinary tasks; before it CFS

Provenance = Literal["nixpkgs", "distro", "local", "host"]  # `host`: this machine is booted into it
Accelerator = Literal["kvm", "tcg"]
GuestDisk = Literal["image", "tmpfs"]
Share = Literal["9p", "erofs", "erofs+9p"]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel image and its modules. `label` is what `--kernel` names: `6.12`, `6.12-distro`, or a name of one's own.

    `folder` holds `lib/modules/RELEASE`, `image` is the file that is booted, `digest` its sha256 and `config_digest`
    that of the whole configuration, empty where none came with it. `options` are those of the configuration that move
    processes about (`engine.guest.kernels.OPTIONS`). `package` and `archives` (name: sha256) say where it came from.
    One that this machine is booted into has its `version` (uname -v), `initrd` and `command_line`, too.
    """

    label: str
    release: str
    provenance: Provenance
    folder: str
    image: str
    digest: str
    config_digest: str = ""
    package: str = ""
    archives: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    version: str = ""
    initrd: str = ""
    command_line: str = ""

    @property
    def scheduler(self) -> str:
        """The scheduler of ordinary tasks."""
        return scheduler_of(self.release)


@dataclass(frozen=True, slots=True)
class GuestMachine:
    """The machine that all guests of a run are: what it has, what runs it, where its clusters lie, who holds its files.

    `share` is how programs reach the guest: those of the Nix store in an erofs image, others by `9p`, the host's file
    system, read-only, which threads beside the guest's CPUs serve. `pins` are the host's CPUs that its
    own are bound to, in order; without them they are where the host puts them. `huge_pages` are the host's that back
    its memory.
    """

    accelerator: Accelerator
    cpus: int
    memory_mb: int
    disk: GuestDisk
    disk_mb: int
    emulator: str  # qemu's version
    share: Share = "9p"
    pins: tuple[int, ...] = ()
    huge_pages: bool = False

    @property
    def emulated(self) -> bool:
        """Whether its processors are emulated: times then say nothing."""
        return self.accelerator == "tcg"


def version_of(release: str) -> tuple[int, int]:
    """The series of a release: (6, 12) of `6.12.95+deb12-amd64`; (0, 0) where it begins with no number."""
    found = re.match(r"(\d+)\.(\d+)", release)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def scheduler_of(release: str) -> str:
    """CFS or EEVDF."""
    return "EEVDF" if version_of(release) >= EEVDF_SINCE else "CFS"

"""Kernels that cells run under, and the guest machines that boot them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

HOST = "host"  # the running kernel
BOOT = "boot"  # kind of the event of a guest's boot: {"cell", "after": newest attempt at that time}
EEVDF_SINCE = (6, 6)  # the scheduler of ordinary tasks; before it CFS

Provenance = Literal["nixpkgs", "distro", "local"]
Accelerator = Literal["kvm", "tcg"]
GuestDisk = Literal["image", "tmpfs"]
Share = Literal["9p", "erofs", "erofs+9p"]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel image and its modules. `label` is what `--kernel` names: `6.12`, `6.12-distro`, or a user's name.

    `folder` holds `lib/modules/RELEASE`, `image` is the file to boot, `digest` its sha256 and `config_digest` the
    sha256 of the full configuration, empty without one. `options` are the configuration options that affect process
    placement (`engine.guest.kernels.OPTIONS`). `package` and `archives` (name: sha256) are its origin. `command_line`
    is added to the command line of all guests.
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
    command_line: str = ""

    @property
    def scheduler(self) -> str:
        return scheduler_of(self.release)


@dataclass(frozen=True, slots=True)
class GuestMachine:
    """The virtual machine of all guests of a run: size, emulator, disk, and access to the host's files.

    `share` is how programs reach the guest: in an erofs image of Nix store paths, or over `9p`, the host's file system,
    read-only, served by host threads next to the guest's CPUs. `pins` are the host CPUs to which the guest's are bound,
    in order; empty: the host places them. `huge_pages`: the host's huge pages back its memory.
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
        """Whether CPUs are emulated, so that times are meaningless."""
        return self.accelerator == "tcg"


def version_of(release: str) -> tuple[int, int]:
    """The series of a release: (6, 12) for `6.12.95+deb12-amd64`; (0, 0) if it does not start with a number."""
    match = re.match(r"(\d+)\.(\d+)", release)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def scheduler_of(release: str) -> str:
    return "EEVDF" if version_of(release) >= EEVDF_SINCE else "CFS"

"""The programs that a guest needs on this machine: qemu, a static busybox, and mkfs for its disk.

Environment:
    PGBED_GUEST_TOOLS   the derivation of a folder with them in bin/; set by the `bench` wrapper over nixpkgs
"""

from __future__ import annotations

import os
import platform
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from engine.builds import nix
from engine.builds.nix import Progress
from engine.core.errors import UserError
from engine.system import packages, subprocesses
from engine.system.account import unprivileged

QEMU, BUSYBOX, MKFS, EROFS = "qemu-system-x86_64", "busybox", "mkfs.ext4", "mkfs.erofs"
PACKAGES = {QEMU: "qemu-system-x86", BUSYBOX: "busybox-static", MKFS: "e2fsprogs"}
OPTIONAL = {EROFS: "erofs-utils"}
SYSTEM_PATH = "/usr/sbin:/sbin:/usr/bin:/bin"  # not all in a user's PATH
LOADER = b"/ld-linux"  # in the head of a program that is linked to libraries
HEAD_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Tools:
    """The programs, and qemu's version; `erofs`, which makes images of programs, may be absent."""

    qemu: Path
    busybox: Path
    mkfs: Path
    version: str
    erofs: Path | None = None


def find(progress: Progress, roots: Path) -> Tools:
    """The programs that the wrapper names, else the machine's. Raises UserError, saying what to install."""
    if platform.machine() != "x86_64":
        raise UserError(f"guests with other kernels need x86-64, and this is {platform.machine()}")
    drv = os.environ.get("PGBED_GUEST_TOOLS")
    place = f"{nix.realise('guest-tools', drv, progress, roots / 'guest-tools')}/bin" if drv else None
    search = place or _system()
    paths = {name: shutil.which(name, path=search) for name in PACKAGES}
    missing = [PACKAGES[name] for name, path in paths.items() if path is None]
    if missing:
        raise UserError(f"a guest with another kernel needs {', '.join(missing)}: install these, or leave out --kernel")
    qemu, busybox, mkfs = (Path(str(path)) for path in paths.values())
    with busybox.open("rb") as file:
        if LOADER in file.read(HEAD_BYTES):
            raise UserError(f"{busybox} needs libraries, which a guest does not have: install busybox-static")
    erofs = shutil.which(EROFS, path=search)
    return Tools(qemu, busybox, mkfs, _version(qemu), Path(erofs) if erofs else None)


def provide(progress: Progress) -> None:
    """Install missing programs by the machine's package manager, if possible."""
    wanted = {} if os.environ.get("PGBED_GUEST_TOOLS") else PACKAGES | OPTIONAL
    packages.install({name: wanted[name] for name in wanted if shutil.which(name, path=_system()) is None}, progress)


def _system() -> str:
    return f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}"


def _version(qemu: Path) -> str:
    answer = subprocesses.ask((str(qemu), "--version"), unprivileged())
    match = re.search(r"version (\d[\w.]*)", answer.output)
    if answer.code or match is None:
        raise UserError(f"{qemu} --version: {answer.shown}")
    return match[1]

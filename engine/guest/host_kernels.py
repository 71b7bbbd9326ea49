"""Kernels that this machine itself can be booted into: installed by pgbed, by the system, or by NixOS.

installed        /var/lib/pgbed/kernels/LABEL: of the distribution, with all modules and an initial file system made
                 for this machine; a link in /lib/modules leads to its modules. Neither /boot nor the boot loader
                 knows of it, so a power cycle boots what it always has.
system           /boot/vmlinuz-RELEASE with initrd.img-RELEASE; called by its release
specialisation   of NixOS, called pgbed-6_12 (nix/module.nix: programs.pgbed.hostKernels)
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.builds.nix import Progress
from engine.core.errors import UserError, unknown
from engine.core.kernel import Kernel
from engine.guest import distribution, kernels
from engine.host import kexec

ROOT = Path("/")
PLACE = "var/lib/pgbed/kernels"
SPECIALISATIONS = "run/current-system/specialisation"
INITRD = "initrd"
# mkinitramfs reads a kernel's compressions from its config in /boot: it gets a temporary /boot with that.
WITH_CONFIG = 'mount -t tmpfs pgbed /boot; cp "$1" "/boot/config-$3"; exec mkinitramfs -o "$2" "$3"'
# Arguments added by the boot loader, or specific to this boot.
NOT_PASSED = re.compile(rf"(BOOT_IMAGE|initrd|init)=.*|{re.escape(kexec.MARK)}")


@dataclass(frozen=True, slots=True)
class Found:
    """A kernel that can be booted: its files; `origin` is one of the words in the module's docstring."""

    label: str
    origin: str
    image: Path
    initrd: Path
    modules: Path | None  # the folder around lib/modules
    config: Path | None
    arguments: tuple[str, ...]  # of its own on the command line


def known(root: Path = ROOT) -> tuple[Found, ...]:
    return (*_installed(root), *_specialisations(root), *_of_system(root))


def resolve(label: str, root: Path = ROOT) -> Kernel:
    """The kernel of a label. Raises UserError for an unknown label, or a file that is not a kernel."""
    there = known(root)
    kernel = next((each for each in there if each.label == label), None)
    if kernel is None:
        error = unknown("kernel that this machine can be booted into", label, [each.label for each in there])
        raise UserError(f"{error}; bench host-kernels install adds some")
    release, version = kernels.told_by(kernel.image)
    config = kernel.config.read_bytes() if kernel.config else b""
    own = [word for word in _command_line() if not NOT_PASSED.fullmatch(word)] if not kernel.arguments else []
    return Kernel(
        label=label,
        release=release,
        provenance="host",
        folder=str(kernel.modules or kernel.image.parent),
        image=str(kernel.image.resolve()),
        digest=kernels.sha256(kernel.image),
        config_digest=hashlib.sha256(config).hexdigest() if config else "",
        options=kernels.options_of(config.decode(errors="replace")),
        version=version,
        initrd=str(kernel.initrd.resolve()),
        command_line=" ".join((*own, *kernel.arguments)),
    )


def check_install(labels: Sequence[str], root: Path = ROOT) -> None:
    """Raise UserError for kernels that cannot be installed here; changes nothing."""
    if (root / "etc/NIXOS").exists():
        wanted = " ".join(f'"{label}"' for label in labels)
        raise UserError(
            f"on NixOS kernels are part of the system: programs.pgbed.hostKernels = [ {wanted} ]; then nixos-rebuild "
            "switch"
        )
    why = kexec.hindrance(root)
    if why:
        raise UserError(f"no kernel can be installed: {why}")
    there = distribution.known()
    if not there:
        raise UserError(
            "no kernels of this machine's distribution are known (Debian's are); install one with its package manager"
        )
    for label in labels:
        if label not in there:
            raise unknown("kernel", label, there)
        if (root / PLACE / label).exists():
            raise UserError(f"kernel '{label}' is installed already; bench host-kernels remove {label} removes it")
    for program, package in (("mkinitramfs", "initramfs-tools"), ("depmod", "kmod")):
        if shutil.which(program, path=_path()) is None:
            raise UserError(f"{program} is missing; it makes a kernel's initial file system: install {package}")


def install(label: str, progress: Progress, root: Path = ROOT) -> Found:
    """Fetch one of the distribution's kernels, and prepare this machine to boot into it. Raises UserError."""
    folder = distribution.fetch(label, root / PLACE, progress, whole=True)
    try:
        release, _ = kernels.told_by(folder / "bzImage")
        link, modules = root / "lib/modules" / release, folder / "lib/modules" / release
        if not modules.is_dir():
            raise UserError(f"kernel '{label}': its package holds no modules of {release}")
        if link.exists() or link.is_symlink():
            raise UserError(f"kernel '{label}': {link} exists already: this release is the system's, called {release}")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(modules)
        progress(f"kernel {label}: making the initial file system of {release}")
        _run("depmod", release)
        _run(
            "unshare", "--mount", "sh", "-ec", WITH_CONFIG, "sh", str(folder / "config"), str(folder / INITRD), release
        )
    except BaseException:
        _take_away(folder, root)
        raise
    return next(kernel for kernel in _installed(root) if kernel.label == label)


def check_removal(labels: Sequence[str], root: Path = ROOT) -> None:
    """Raise UserError for a kernel that pgbed did not install, or that is running."""
    for label in labels:
        if label not in {path.name for path in (root / PLACE).glob("*") if path.is_dir()}:
            raise unknown("installed kernel", label, [each.label for each in _installed(root)])
        for modules in (root / PLACE / label / "lib/modules").glob("*"):
            if modules.name == os.uname().release:
                raise UserError(f"kernel '{label}' is running; boot another one first")


def remove(label: str, root: Path = ROOT) -> None:
    _take_away(root / PLACE / label, root)


def _take_away(folder: Path, root: Path) -> None:
    for link in (root / "lib/modules").glob("*"):
        if link.is_symlink() and link.readlink().is_relative_to(folder):
            link.unlink()
    shutil.rmtree(folder)


def _installed(root: Path) -> Iterator[Found]:
    for folder in sorted((root / PLACE).glob("*")):
        if (folder / "bzImage").is_file() and (folder / INITRD).is_file():
            config = folder / "config"
            parts = folder / "bzImage", folder / INITRD, folder
            yield Found(folder.name, "installed", *parts, config if config.is_file() else None, ())


def _specialisations(root: Path) -> Iterator[Found]:
    for folder in sorted((root / SPECIALISATIONS).glob("pgbed-*")):
        label = folder.name.removeprefix("pgbed-").replace("_", ".")
        parameters = (folder / "kernel-params").read_text(errors="replace").split()
        # The folder's own path, since the link may point to another system later.
        arguments = (f"init={folder.resolve()}/init", *parameters)
        yield Found(label, "specialisation", folder / "kernel", folder / INITRD, None, None, arguments)


def _of_system(root: Path) -> Iterator[Found]:
    for image in sorted((root / "boot").glob("vmlinuz-*")):
        release = image.name.removeprefix("vmlinuz-")
        initrd, config = image.with_name(f"initrd.img-{release}"), image.with_name(f"config-{release}")
        if initrd.is_file() and (root / "lib/modules" / release).is_dir():
            label = re.sub(r"[^A-Za-z0-9._-]", "_", release)
            yield Found(label, "system", image, initrd, root, config if config.is_file() else None, ())


def _command_line() -> list[str]:
    return kexec.COMMAND_LINE.read_text(errors="replace").split()


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def _run(*command: str) -> None:
    where = {**os.environ, "PATH": _path()}
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=where, check=False)
    if done.returncode != 0:
        raise UserError(f"{command[0]}: {' '.join(done.stderr.split())[-300:] or f'exit code {done.returncode}'}")

"""Resolution of the labels of `--kernel` to kernels on this machine. Missing ones are fetched.

Environment:
    PGBED_KERNELS   the kernels that the flake knows, a JSON file; set by the `bench` wrapper over nixpkgs

A kernel's folder, whatever its origin, holds `bzImage`, `lib/modules/RELEASE`, `config` and `kernel.json`.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from engine.builds import nix
from engine.builds.nix import Progress
from engine.core.errors import UserError, unknown
from engine.core.kernel import HOST, Kernel, Provenance, scheduler_of
from engine.core.record import converted, parsed
from engine.core.text import NAME, user_path, visible
from engine.guest import command_lines, distribution, initrd
from engine.system.files import open_plain

# The options that affect scheduling and its cost.
OPTIONS = (
    "HZ", "PREEMPT", "PREEMPT_NONE", "PREEMPT_VOLUNTARY", "PREEMPT_LAZY", "PREEMPT_DYNAMIC", "NO_HZ_IDLE",
    "NO_HZ_FULL", "SCHED_AUTOGROUP", "SCHED_CLASS_EXT", "SCHED_CORE", "SCHED_MC", "SCHED_CLUSTER", "CFS_BANDWIDTH",
    "UCLAMP_TASK", "CPU_ISOLATION", "CPU_IDLE_GOV_HALTPOLL", "HALTPOLL_CPUIDLE", "RCU_NOCB_CPU", "HUGETLBFS",
    "TRANSPARENT_HUGEPAGE", "TRANSPARENT_HUGEPAGE_ALWAYS", "TRANSPARENT_HUGEPAGE_MADVISE", "NUMA_BALANCING",
    "PARAVIRT_SPINLOCKS", "MITIGATION_RETPOLINE", "RETPOLINE", "SLUB_CPU_PARTIAL", "DEBUG_INFO_BTF",
)  # fmt: skip
BTF = "DEBUG_INFO_BTF"
HEADER_BYTES = 0x10000
RELEASE = re.compile(rb"(\d+\.\d+[A-Za-z0-9.+~_-]{0,80})[ \0]")


@dataclass(frozen=True, slots=True)
class CatalogKernel:
    """A kernel of the catalog: `drv` builds its folder `out`; both are empty for a distribution's."""

    label: str
    version: str
    provenance: Provenance
    drv: str = ""
    out: str = ""

    @property
    def scheduler(self) -> str:
        return scheduler_of(self.version)


@dataclass(frozen=True, slots=True)
class _Told:
    package: str = ""
    archives: dict[str, str] = field(default_factory=dict)


def catalog() -> tuple[CatalogKernel, ...]:
    """Every labelled kernel except `host`: the flake's, else those of the machine's distribution."""
    path = os.environ.get("PGBED_KERNELS")
    if path:
        where = f"the list of kernels in {path}"
        try:
            return converted(parsed(Path(path).read_bytes(), where), tuple[CatalogKernel, ...], where)
        except OSError as error:
            raise UserError(f"{where} cannot be read: {error.strerror}") from error
    return tuple(CatalogKernel(label, source.series, "distro") for label, source in distribution.known().items())


def check_names(specs: Sequence[str]) -> None:
    """Raise UserError for a kernel that is unknown or given twice; fetches nothing."""
    if not specs:
        raise UserError("no kernel given: use --kernel host,… (bench list kernels shows the labels)")
    names = [label_of(spec) for spec in specs]
    for spec in specs:
        if spec.startswith(f"{HOST}:"):
            raise UserError(f"--kernel {spec}: the host is not booted: name a kernel for guests")
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"kernel given twice: {name}")
    known = [entry.label for entry in catalog()]
    for spec in specs:
        name, is_own, _ = command_lines.parted(spec)[0].partition("=")
        if is_own and (name in (HOST, *known) or not NAME.fullmatch(name)):
            taken = "the label of another kernel" if name in (HOST, *known) else "no name"
            raise UserError(f"--kernel {spec}: '{name}' is {taken}: give it another")
        if not is_own and name not in (HOST, *known):
            raise unknown("kernel", name, (HOST, *known))


def label_of(spec: str) -> str:
    """The name of NAME=PATH, or the label with its parameters. Raises UserError for an unknown parameter."""
    place, words = command_lines.parted(spec)
    name, is_own, _ = place.partition("=")
    return name if is_own else command_lines.named(name, words)


def resolve(spec: str, on_progress: Progress, roots: Path | None = None) -> Kernel:
    """The kernel of a label or NAME=PATH (an image, or a folder with image and modules). Raises UserError.

    Either can have parameters behind it: see `engine.guest.command_lines`.
    """
    place, words = command_lines.parted(spec)
    return command_lines.with_words(replace(_found(place, on_progress, roots), label=label_of(spec)), words)


def _found(spec: str, on_progress: Progress, roots: Path | None) -> Kernel:
    name, is_own, path = spec.partition("=")
    if is_own:
        return _checked(read(name, user_path(path).absolute(), "local"))
    entry = next((entry for entry in catalog() if entry.label == name), None)
    if entry is None:
        raise unknown("kernel", name, [kernel.label for kernel in catalog()])
    if entry.provenance == "distro":
        folder = distribution.fetch(name, nix.cache_folder() / "kernels", on_progress)
    else:
        link = roots / f"kernel-{name}" if roots is not None else None
        folder = Path(entry.out)
        if not folder.is_dir():
            folder = nix.realise(f"kernel-{name}", entry.drv, on_progress, link)
    return _checked(read(name, folder, entry.provenance))


def read(label: str, place: Path, provenance: Provenance) -> Kernel:
    """The kernel in a folder, or an image with the folder around it. Raises UserError."""
    where = f"kernel '{label}': {place}"
    image = place if place.is_file() else _image_in(place)
    if image is None:
        raise UserError(f"{where}: no kernel image (bzImage, vmlinuz) is there")
    release = release_of(image)
    if release is None:
        raise UserError(f"{where}: {image.name} is not a bootable x86 kernel image")
    folder = next(
        (candidate for candidate in (image.parent, *image.parent.parents[:2]) if _modules(candidate, release)), None
    )
    if folder is None:
        near = (image.parent, image.parent.parent)
        others = sorted(path.name for parent in near for path in parent.glob("lib/modules/*"))
        alternatives = f"only a folder for {', '.join(map(visible, others))}" if others else "none"
        raise UserError(f"{where}: lib/modules/{release} must be next to the image, and there is {alternatives}")
    config = next((path for path in _configs(folder, image, release) if path.is_file()), None)
    text = config.read_bytes() if config else b""
    description = _Told()
    if (folder / "kernel.json").is_file():
        description = converted(parsed((folder / "kernel.json").read_bytes(), where), _Told, f"{where}: kernel.json")
    return Kernel(
        label=label,
        release=release,
        provenance=provenance,
        folder=str(folder),
        image=str(image.resolve()),
        digest=sha256(image),
        config_digest=hashlib.sha256(text).hexdigest() if config else "",
        package=description.package,
        archives=description.archives,
        options=options_of(text.decode(errors="replace")),
    )


def modules_of(kernel: Kernel) -> Path:
    folder = _modules(Path(kernel.folder), kernel.release)
    if folder is None:
        raise UserError(f"kernel '{kernel.label}': {kernel.folder}/lib/modules/{kernel.release} is gone")
    return folder


def modules(kernel: Kernel) -> set[str]:
    folder = modules_of(kernel)
    return {*initrd.module_files(folder), *initrd.built_in(folder)}


def config_of(kernel: Kernel) -> bytes:
    """The full configuration, or b"" if unknown."""
    paths = _configs(Path(kernel.folder), Path(kernel.image), kernel.release)
    return next((path.read_bytes() for path in paths if path.is_file()), b"")


def options_of(config: str) -> dict[str, str]:
    """The value, or `n`, of each entry in OPTIONS; empty without a configuration."""
    if not config:
        return {}
    lines = dict(re.findall(r"^CONFIG_(\w+)=(\S+)", config, re.M))
    return {name: lines.get(name, "n") for name in OPTIONS}


def release_of(image: Path) -> str | None:
    """The release (uname -r) that an x86 image reports (Documentation/arch/x86/boot.rst: kernel_version), or None."""
    try:
        with os.fdopen(open_plain(image, follow=True), "rb") as file:
            head = file.read(HEADER_BYTES)
    except OSError as error:
        raise UserError(f"{image}: {error.strerror}") from None
    if head[0x202:0x206] != b"HdrS":
        return None
    match = RELEASE.match(head, int.from_bytes(head[0x20E:0x210], "little") + 0x200)
    return match[1].decode() if match else None


def _checked(kernel: Kernel) -> Kernel:
    there = modules(kernel)
    lacking = [name for name in initrd.REQUIRED if name not in there]
    if lacking:
        raise UserError(f"kernel '{kernel.label}' cannot run in a guest: it lacks {', '.join(lacking)}")
    return kernel


def _image_in(folder: Path) -> Path | None:
    images = [path for name in ("bzImage", "vmlinuz*", "boot/vmlinuz*") for path in sorted(folder.glob(name))]
    return next((path for path in images if path.is_file()), None)


def _modules(folder: Path, release: str) -> Path | None:
    place = folder / "lib" / "modules" / release
    return place if (place / "kernel").is_dir() else None


def _configs(folder: Path, image: Path, release: str) -> tuple[Path, ...]:
    return (
        folder / "config",
        image.with_name(f"config-{release}"),
        image.with_name("config"),
        folder / "lib" / "modules" / release / "config",
    )


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

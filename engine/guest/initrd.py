"""A guest's first file system: busybox, one init script, and only the modules that are needed to mount the root.

Dependencies are read from the modules themselves, since distributions' packages lack depmod's modules.dep. A kernel
accepts concatenated archives, so the part shared by all cells of a kernel is made once.
"""

from __future__ import annotations

import gzip
import lzma
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

from engine.core.errors import UserError

CHANNEL = ("virtio_pci", "virtio_console")
SHARE = ("9pnet_virtio", "9p")
EROFS = "erofs"
# Checksums first: their users request one when loaded.
DISK = ("virtio_blk", "crc32c_generic", "crc32c_intel", "ext4", EROFS)
# Reports a panic; ends a guest whose processes no longer run.
GUARDS = ("pvpanic_pci", "pvpanic", "i6300esb")
REQUIRED = ("virtio_pci", "virtio_console", "9pnet_virtio", "9p", "virtio_blk", "ext4")
APPLETS = (
    "sh", "mount", "umount", "insmod", "mkdir", "chroot", "poweroff", "cat", "sync", "ln", "readlink", "cut",
    "hostname", "ip", "cp", "watchdog", "uname",
)  # fmt: skip
DIRECTORY, FILE, LINK, DEVICE = 0o040755, 0o100755, 0o120777, 0o020600

Entry = tuple[str, int, bytes]  # name, mode, content


def unpacked(path: Path) -> bytes:
    data = path.read_bytes()
    match path.suffix:
        case ".xz":
            return lzma.decompress(data)
        case ".gz":
            return gzip.decompress(data)
        case ".zst":
            return _zstd(data, path)
        case _:
            return data


def _zstd(data: bytes, path: Path) -> bytes:
    try:
        return subprocess.run(["zstd", "-dc"], input=data, stdout=subprocess.PIPE, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        raise UserError(f"{path}: cannot be unpacked: install the program zstd") from None


def module_files(folder: Path) -> dict[str, Path]:
    """The modules below lib/modules/RELEASE by name, which the kernel spells with underscores."""
    return {path.name.split(".ko")[0].replace("-", "_"): path for path in (folder / "kernel").rglob("*.ko*")}


def built_in(folder: Path) -> set[str]:
    try:
        lines = (folder / "modules.builtin").read_text(errors="replace").splitlines()
    except OSError:
        return set()
    return {line.rpartition("/")[2].split(".ko")[0].replace("-", "_") for line in lines}


def in_order(folder: Path, wanted: Iterable[str]) -> list[tuple[str, bytes]]:
    """The modules and their dependencies in loading order: (name, bytes), without built-in and missing ones."""
    there = module_files(folder)
    modules: dict[str, bytes] = {}

    def add(name: str, chain: tuple[str, ...] = ()) -> None:
        name = name.replace("-", "_")
        if name in modules or name in chain or name not in there:
            return
        data = unpacked(there[name])
        said = dict(re.findall(rb"(depends|softdep)=([^\0]*)\0", data))
        soft = re.sub(rb"(pre|post):", b" ", said.get(b"softdep", b"")).split()
        for need in (*said.get(b"depends", b"").split(b","), *soft):
            add(need.decode(errors="replace"), (*chain, name))
        modules[name] = data

    for name in wanted:
        add(name)
    return list(modules.items())


def cpio(entries: Iterable[Entry]) -> Iterator[bytes]:
    """An archive in the format `newc` (Documentation/driver-api/early-userspace/buffer-format.rst)."""
    for number, (name, mode, data) in enumerate([*entries, ("TRAILER!!!", 0, b"")], 1):
        device = (5, 1) if mode == DEVICE else (0, 0)  # the console, the only device before devtmpfs
        coded = name.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(coded), 0)
        head = b"070701" + b"".join(b"%08x" % field for field in fields) + coded
        yield head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)


@cache
def base(modules: Path, busybox: Path) -> bytes:
    entries: list[Entry] = [(name, DIRECTORY, b"") for name in ("bin", "dev", "mod", "proc", "sys", "root", "host")]
    entries += [("dev/console", DEVICE, b""), ("bin/busybox", FILE, busybox.read_bytes())]
    entries += [(f"bin/{name}", LINK, b"busybox") for name in APPLETS]
    ordered = in_order(modules, (*CHANNEL, *SHARE, *DISK, *GUARDS))
    entries += [(f"mod/{name}.ko", FILE, data) for name, data in ordered]
    entries += [("mod/order", FILE, "".join(f"{name}\n" for name, _ in ordered).encode())]
    entries += [("init", FILE, (files("engine.guest") / "init.sh").read_bytes())]
    return b"".join(cpio(entries))


def job(content: Mapping[str, bytes]) -> bytes:
    """A second archive: this guest's job, as files in /job."""
    return b"".join(cpio([("job", DIRECTORY, b""), *((f"job/{name}", FILE, data) for name, data in content.items())]))

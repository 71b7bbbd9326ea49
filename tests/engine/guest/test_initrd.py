"""A guest's first file system: the archive's format, and which modules are in it in which order."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.guest import initrd
from engine.guest.initrd import DIRECTORY, FILE

NAMES = st.text(st.characters(codec="ascii", min_codepoint=33), min_size=1, max_size=40)


def unpacked(archive: bytes) -> list[tuple[str, int, bytes]]:
    """The entries of one or several archives in `newc`, read as the kernel does: init/initramfs.c."""
    entries, place = [], 0
    while place < len(archive):
        assert place % 4 == 0 and archive[place : place + 6] == b"070701"
        field = [int(archive[place + 6 + 8 * n : place + 14 + 8 * n], 16) for n in range(13)]
        name = archive[place + 110 : place + 110 + field[11] - 1].decode()
        assert archive[place + 109 + field[11]] == 0
        data = -(-(place + 110 + field[11]) // 4) * 4
        place = -(-(data + field[6]) // 4) * 4
        if name != "TRAILER!!!":
            entries.append((name, field[1], archive[data : data + field[6]]))
    return entries


@given(st.lists(st.tuples(NAMES, st.sampled_from([FILE, DIRECTORY]), st.binary(max_size=50)), max_size=5))
def test_what_is_packed_is_read_again(entries: list[tuple[str, int, bytes]]) -> None:
    assert unpacked(b"".join(initrd.cpio(entries))) == entries


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    """Modules as packages have them: some packed, with dashes in their names, with soft dependencies, in a circle."""
    for name, needs in {
        "fs/9p/9p.ko": b"depends=9pnet,netfs\0",
        "net/9p/9pnet.ko": b"depends=\0",
        "net/9p/9pnet_virtio.ko": b"depends=virtio_ring,9pnet\0",
        "fs/netfs/netfs.ko": b"depends=\0",
        "drivers/virtio/virtio-ring.ko.xz": b"depends=virtio_pci\0",
        "drivers/virtio/virtio_pci.ko": b"depends=virtio-ring\0",
        "fs/ext4/ext4.ko": b"depends=jbd2\0softdep=pre: crc32c\0",
        "fs/jbd2/jbd2.ko": b"",
        "crypto/crc32c.ko": b"depends=built_in_already\0",
        "sound/snd.ko": b"depends=\0",
    }.items():
        path = tmp_path / "6.1.0" / "kernel" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = b"\x7fELF" + needs
        path.write_bytes(lzma.compress(data) if path.suffix == ".xz" else data)
    (tmp_path / "6.1.0" / "modules.builtin").write_text("kernel/drivers/block/virtio_blk.ko\nkernel/lib/crc-itu-t.ko\n")
    return tmp_path / "6.1.0"


def test_each_module_comes_after_what_it_needs(modules: Path) -> None:
    names = [name for name, _ in initrd.in_order(modules, ("9pnet_virtio", "9p", "ext4", "not_there"))]
    assert sorted(names) == sorted(set(names)) and "snd" not in names
    for first, later in (
        ("9pnet", "9p"), ("netfs", "9p"), ("virtio_ring", "9pnet_virtio"), ("jbd2", "ext4"), ("crc32c", "ext4"),
    ):  # fmt: skip
        assert names.index(first) < names.index(later)
    assert dict(initrd.in_order(modules, ("virtio_ring",)))["virtio_ring"].startswith(b"\x7fELF")
    assert initrd.built_in(modules) == {"virtio_blk", "crc_itu_t"}


def test_two_archives_are_read_as_one(modules: Path, tmp_path: Path) -> None:
    (tmp_path / "busybox").write_bytes(b"static")
    archive = initrd.base(modules, tmp_path / "busybox") + initrd.job({"command": b"#!/bin/sh\n", "binds": b"/opt/x\n"})
    content = {name: (mode, data) for name, mode, data in unpacked(archive)}
    assert content["bin/sh"] == (initrd.LINK, b"busybox") and content["bin/busybox"] == (FILE, b"static")
    assert content["init"][1].startswith(b"#!/bin/sh") and content["dev/console"][0] == initrd.DEVICE
    order = content["mod/order"][1].decode().split()
    assert order and all(f"mod/{name}.ko" in content for name in order)
    assert content["job/command"] == (FILE, b"#!/bin/sh\n") and content["job/binds"][1] == b"/opt/x\n"

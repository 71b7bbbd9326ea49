"""Kernels of labels and paths: the contents of a folder, refusals, and the record of a configuration."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from engine.core.errors import UserError
from engine.core.kernel import GuestMachine, scheduler_of
from engine.guest import distribution, kernels, machine, tools
from engine.guest.initrd import REQUIRED
from engine.guest.machine import Job
from engine.guest.tools import Tools
from engine.tracing import selection

RELEASE = "6.12.95+deb12-amd64"
CONFIG = "CONFIG_HZ=250\nCONFIG_PREEMPT_VOLUNTARY=y\n# CONFIG_PREEMPT_LAZY is not set\nCONFIG_DEBUG_INFO_BTF=y\n"


def image(release: str = RELEASE) -> bytes:
    """The head of a bzImage: magic, and where its version stands."""
    head = bytearray(0x4000)
    head[0x202:0x206] = b"HdrS"
    head[0x20E:0x210] = (0x3000 - 0x200).to_bytes(2, "little")
    said = f"{release} (builder@host) #1 SMP".encode()
    head[0x3000 : 0x3000 + len(said)] = said
    return bytes(head)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A kernel's folder: half of a guest's needs are built in."""
    place = tmp_path / "lib" / "modules" / RELEASE
    for name in REQUIRED[::2]:
        (place / "kernel" / f"{name}.ko").parent.mkdir(parents=True, exist_ok=True)
        (place / "kernel" / f"{name}.ko").write_bytes(b"depends=\0")
    (place / "modules.builtin").write_text("".join(f"kernel/{name}.ko\n" for name in REQUIRED[1::2]))
    (tmp_path / "bzImage").write_bytes(image())
    (tmp_path / "config").write_text(CONFIG)
    return tmp_path


def test_a_kernel_of_ones_own_is_known_by_what_its_image_says(folder: Path) -> None:
    (folder / "kernel.json").write_text('{"package": "linux-image 6.12.95-1", "archives": {"a.deb": "00"}, "new": 1}')
    for spec in (f"mine={folder}", f"mine={folder / 'bzImage'}"):
        kernel = kernels.resolve(spec, lambda _: None)
        assert (kernel.label, kernel.release, kernel.provenance) == ("mine", RELEASE, "local")
        assert (kernel.scheduler, kernel.package, kernel.archives) == (
            "EEVDF",
            "linux-image 6.12.95-1",
            {"a.deb": "00"},
        )
        assert len(kernel.digest) == len(kernel.config_digest) == 64
        assert kernel.options["HZ"] == "250" and kernel.options["PREEMPT_LAZY"] == "n"
        assert kernels.config_of(kernel).decode() == CONFIG
    assert [scheduler_of(release) for release in ("5.10.262", "6.5.1", "6.6", "7.0-rc1")] == [
        "CFS", "CFS", "EEVDF", "EEVDF",
    ]  # fmt: skip


def test_what_cannot_be_a_guests_kernel_is_refused_in_one_line(folder: Path) -> None:
    def refused(said: str) -> None:
        with pytest.raises(UserError, match=said) as caught:
            kernels.resolve(f"mine={folder}", lambda _: None)
        assert "\n" not in str(caught.value)

    modules = folder / "lib" / "modules" / RELEASE
    (modules / "modules.builtin").write_text("")
    refused(f"cannot run in a guest: it lacks {', '.join(REQUIRED[1::2])}")
    modules.rename(modules.with_name("6.1.0-50-amd64"))
    refused(
        rf"lib/modules/{re.escape(RELEASE)} must be next to the image, and there is only a folder for 6.1.0-50-amd64"
    )
    (folder / "bzImage").write_bytes(b"\x7fELF" + bytes(0x4000))
    refused("bzImage is not a bootable x86 kernel image")
    (folder / "bzImage").unlink()
    refused("no kernel image")


def test_what_a_guest_lacks_is_named_before_anything_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "config").write_text("CONFIG_HZ=250\n# CONFIG_DEBUG_INFO_BTF is not set\n")
    offered = selection.in_guest(kernels.resolve(f"mine={folder}", lambda _: None))
    newer = replace(offered, linux=True, bpftrace=(0, 25), wrapper="")
    assert "kernel has no BTF (CONFIG_DEBUG_INFO_BTF)" in selection.lacks(("runq",), newer)["runq"]
    assert not selection.lacks(("runq",), replace(newer, btf=True)), "in a guest the engine is root"
    monkeypatch.delenv("PGBED_GUEST_TOOLS", raising=False)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(tools, "SYSTEM_PATH", "")
    with pytest.raises(UserError, match=r"needs qemu-system-x86, busybox-static, e2fsprogs: install these"):
        tools.find(lambda _: None, folder)


def test_names_are_checked_before_anything_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distribution, "known", lambda: distribution.DEBIAN)
    kernels.check_names(("host", "6.1-distro", "mine=/boot/vmlinuz"))
    for specs, said in (
        (("6.11-distro",), r"unknown kernel '6.11-distro' \(nearest: .*6.1"),
        (("host", "host"), "kernel given twice: host"),
        (("host=/boot/vmlinuz",), "'host' is the label of another kernel"),
        (("../x=/boot/vmlinuz",), r"'../x' is no name"),
        ((), "no kernel given"),
    ):
        with pytest.raises(UserError, match=said):
            kernels.check_names(specs)


def test_the_newest_package_of_a_series_is_unpacked_in_part() -> None:
    names = [
        "linux-image-6.1.0-9-amd64", "linux-image-6.1.0-50-amd64", "linux-image-6.1.0-51-cloud-amd64",
        "linux-image-6.12.95+deb12-amd64", "linux-image-6.12.9+bpo-amd64", "linux-image-6.12.99+deb12-rt-amd64",
        "linux-image-6.1.0-50-amd64-dbg", "linux-image-amd64", "linux-image-6.12.99+deb12-amd64-unsigned",
    ]  # fmt: skip
    assert distribution.newest(names, "6.1") == "linux-image-6.1.0-50-amd64"
    assert distribution.newest(names, "6.12") == "linux-image-6.12.95+deb12-amd64"
    assert distribution.newest(names, "5.10") is None
    places = {
        "./boot/vmlinuz-6.1.0-50-amd64": "bzImage",
        "./boot/config-6.1.0-50-amd64": "config",
        "./lib/modules/7.2.1/vmlinuz": "bzImage",
        "./usr/lib/modules/6.1.0/kernel/fs/9p/9p.ko.xz": "lib/modules/6.1.0/kernel/fs/9p/9p.ko.xz",
        "./lib/modules/6.1.0/modules.builtin": "lib/modules/6.1.0/modules.builtin",
        "./lib/modules/6.1.0/kernel/sound/core/snd.ko": None,
        "./boot/System.map-6.1.0": None,
        "./lib/modules/6.1.0/kernel/fs/../../../../../etc/passwd": None,
    }
    assert {name: distribution.place_of(name) for name in places} == places


def test_qemu_gets_no_path_to_write_to_but_the_disk() -> None:
    tools = Tools(Path("/nowhere/qemu"), Path("/nowhere/busybox"), Path("/nowhere/mkfs.ext4"), "7.2")
    guest = GuestMachine("kvm", 4, 2048, "image", 512, "qemu 7.2")
    job = Job("", ("/tmp/a\nb",), {}, "none")
    words = machine.command(tools, guest, (5, 6), ("a", "b", "/proc/self/fd/7", None), job, "")
    said = " ".join(words)
    assert "-accel kvm -cpu host,migratable=off -smp 4 -m 2048M" in said
    assert "path=/,security_model=none,multidevs=remap,readonly=on" in said
    assert "cache=none,aio=native,file=/proc/self/fd/7" in said
    assert "-no-reboot" in words and "-device pvpanic-pci -device i6300esb" in said
    huge = machine.command(tools, replace(guest, huge_pages=True), (5, 6), ("a", "b", None, None), job, "")
    assert "memory-backend-memfd,id=memory,size=2048M,hugetlb=on,prealloc=on" in huge
    assert "-object" not in words and huge[-1] == "memory-backend=memory"
    in_memory = GuestMachine("tcg", 1, 768, "tmpfs", 9, "qemu 7.2")
    emulated = machine.command(tools, in_memory, (5, 6), ("a", "b", None, None), job, "")
    assert "-drive" not in emulated and emulated[emulated.index("-accel") + 1] == "tcg,thread=multi"
    with pytest.raises(UserError, match="cannot have a folder of that name"):
        job.archive()

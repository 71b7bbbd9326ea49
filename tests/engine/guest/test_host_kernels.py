"""Kernels that this machine can be booted into: where they are found, how they are booted, what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from engine.cli.host_kernels import host_kernels as command
from engine.core.errors import UserError
from engine.guest import host_kernels, kernels
from engine.host import kexec
from tests.engine.guest.test_kernels import RELEASE, image
from tests.support.benchcall import Bench


@contextmanager
def unprivileged() -> Iterator[None]:
    """As another user than root, to whom every file is open."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def root(new_folder: Callable[[], Path]) -> Path:
    """A machine with a kernel of each origin."""
    tmp_path = new_folder()
    installed, special = tmp_path / host_kernels.PLACE / "6.12-distro", tmp_path / "store"
    for folder in (installed, special, tmp_path / "boot", tmp_path / "lib/modules" / RELEASE):
        folder.mkdir(parents=True)
    for place in (installed / "bzImage", special / "kernel", tmp_path / f"boot/vmlinuz-{RELEASE}"):
        place.write_bytes(image())
    for place in (installed / "initrd", special / "initrd", tmp_path / f"boot/initrd.img-{RELEASE}"):
        place.touch()
    (installed / "config").write_text("CONFIG_HZ=250\n")
    (special / "kernel-params").write_text("loglevel=4 quiet")
    (tmp_path / host_kernels.SPECIALISATIONS).mkdir(parents=True)
    (tmp_path / host_kernels.SPECIALISATIONS / "pgbed-6_12").symlink_to(special)
    (tmp_path / "boot/vmlinuz-5.0").write_bytes(image("5.0"))  # without an initial file system
    return tmp_path


def test_kernels_of_each_origin_are_found_with_their_command_lines(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = root / "cmdline"
    line.write_text(f"BOOT_IMAGE=/vmlinuz root=UUID=1 ro initrd=/i {kexec.MARK} quiet\n")
    monkeypatch.setattr(kexec, "COMMAND_LINE", line)
    named = "6.12.95_deb12-amd64"
    assert [(each.label, each.origin) for each in host_kernels.known(root)] == [
        ("6.12-distro", "installed"), ("6.12", "specialisation"), (named, "system"),
    ]  # fmt: skip
    installed, special, own = (host_kernels.resolve(label, root) for label in ("6.12-distro", "6.12", named))
    assert installed.command_line == own.command_line == "root=UUID=1 ro quiet"
    assert special.command_line == f"init={root}/store/init loglevel=4 quiet"
    assert (installed.release, installed.version, installed.provenance) == (RELEASE, "#1 SMP", "host")
    assert installed.options["HZ"] == "250" and special.options == {}
    with pytest.raises(UserError, match=r"6\.11.*6\.12.*bench host-kernels install adds some"):
        host_kernels.resolve("6.11", root)


def test_what_is_installed_is_removed_with_its_link_and_nothing_else_is(root: Path) -> None:
    modules = root / host_kernels.PLACE / "6.12-distro/lib/modules/6.12.1"
    modules.mkdir(parents=True)
    (root / "lib/modules/6.12.1").symlink_to(modules)
    with pytest.raises(UserError, match="unknown installed kernel"):
        host_kernels.check_removal(["6.12"], root)
    host_kernels.check_removal(["6.12-distro"], root)
    host_kernels.remove("6.12-distro", root)
    assert [path.name for path in (root / "lib/modules").iterdir()] == [RELEASE]
    assert not list((root / host_kernels.PLACE).iterdir())


def test_nixos_is_told_how_it_has_kernels(root: Path) -> None:
    (root / "etc").mkdir()
    (root / "etc/NIXOS").touch()
    with pytest.raises(UserError, match=r'programs\.pgbed\.hostKernels = \[ "6\.12" \]'):
        host_kernels.check_install(["6.12"], root)


def test_an_image_says_release_and_version(root: Path) -> None:
    assert kernels.told_by(root / f"boot/vmlinuz-{RELEASE}") == (RELEASE, "#1 SMP")
    with pytest.raises(UserError, match="not a bootable x86 kernel image"):
        kernels.told_by(root / "store/initrd")


def test_a_kernel_whose_image_cannot_be_read_is_listed_as_such(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = host_kernels.known(root)
    found[0].image.write_bytes(b"none")
    (closed := found[2].image).chmod(0)
    monkeypatch.setattr(host_kernels, "known", lambda: found)
    with unprivileged():
        done = CliRunner().invoke(command, ["list", "--json"])
    assert done.exit_code == 0
    rows = json.loads(done.stdout)
    assert [row["state"] for row in rows] == ["cannot be read", "", "cannot be read"] and rows[2]["release"] is None
    assert f"{found[0].image}: not a bootable x86 kernel image" in "".join(done.stderr.split("\n"))
    assert f"{closed}: Permission denied; only root may read it" in done.stderr.replace("\n", "")


@pytest.mark.outside
@pytest.mark.timeout(600)
def test_what_a_kernel_needs_to_boot_this_machine_is_made_and_taken_away() -> None:
    label = "6.12-distro"
    boot, modules = sorted(Path("/boot").iterdir()), sorted(Path("/lib/modules").glob("*"))
    installed = host_kernels.install(label, print)
    try:
        kernel = host_kernels.resolve(label)
        assert (kernel.initrd, kernel.provenance) == (str(installed.initrd), "host") and kernel.options["HZ"]
        words = ["lsinitramfs", str(installed.initrd)]
        files = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
        assert "init" in files
        assert any(f"modules/{kernel.release}/" in name and "/virtio_blk.ko" in name for name in files)
        assert Path(f"/lib/modules/{kernel.release}/modules.dep").stat().st_size
    finally:
        host_kernels.remove(label)
    assert (sorted(Path("/boot").iterdir()), sorted(Path("/lib/modules").glob("*"))) == (boot, modules)


def called(*words: str) -> subprocess.CompletedProcess[str]:
    """`bench host-kernels …`."""
    command = [sys.executable, "-m", "engine", "host-kernels", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.skipif(not kexec.hindrance(), reason="this machine could be booted")
def test_where_no_kernel_can_be_booted_nothing_is_done_and_why_is_said(bench: Bench, label: str) -> None:
    why = kexec.hindrance()
    done = called("install", "6.1-distro")
    assert (done.returncode, done.stderr) == (2, f"bench: no kernel can be installed: {why}\n")
    assert why in " ".join(called("list").stderr.split())
    done = bench("--pg", label, "--kernel", "6.1-distro,6.12-distro", "--kernel-by", "reboot")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, f"bench: --kernel-by reboot: {why}")
    done = bench("--pg", label, "--kernel-by", "reboot")
    assert done.returncode == 2 and "name the kernels with --kernel" in done.stderr

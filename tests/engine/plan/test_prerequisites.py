"""Requirements of a plan on the machine: present, or refused in one line before any server is fetched."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from probes import bpftrace

pytestmark = pytest.mark.outside

DELETE = ("--preset", "planner-delete", "--pg", "14.10,16.3", "--dry-run")


def without_bpftrace(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`bench` on a machine that has no bpftrace."""
    return without(str(bpftrace.find()), *arguments, **environment)


def without(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`bench` as its wrapper starts it, on a machine that has not this program."""
    hidden = ("unshare", "--mount", "sh", "-c", 'mount --bind /etc/passwd "$0" && exec "$@"', program)
    return subprocess.run(
        [*hidden, os.environ["PGBED_BENCH"], *arguments],
        env=os.environ | {"HOME": "/root"} | environment,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_a_plan_that_needs_bpftrace_is_refused_early(tmp_path: Path) -> None:
    done = without_bpftrace(*DELETE, "--out", str(tmp_path / "runs"))
    assert done.returncode == 2 and done.stdout == ""
    (line,) = done.stderr.splitlines()  # no build was begun
    assert line.startswith("bench: probe endpoint is not available: bpftrace not found (looked for ")
    assert line.count("/usr/bin/bpftrace") == 1 and "install bpftrace" in line and "Continuing" not in line
    assert not (tmp_path / "runs").exists()


def test_a_guest_that_needs_bpftrace_is_refused_as_soon(tmp_path: Path) -> None:
    done = without_bpftrace(
        "--pg", "16.3", "--kernel", "6.1-distro,6.12-distro", "--probes", "sched", "--out", str(tmp_path / "runs")
    )
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert "probe sched is not available" in done.stderr


def test_what_can_be_installed_is_installed_first(tmp_path: Path) -> None:
    installer = tmp_path / "install"
    installer.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\numount {bpftrace.find()}\n')
    installer.chmod(0o755)
    done = without_bpftrace(*DELETE, "--out", str(tmp_path / "runs"), PGBED_INSTALL=str(installer))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "asked").read_text() == "bpftrace=bpftrace\n"
    assert done.stderr.startswith("installing bpftrace\n") and "probes: endpoint" in done.stdout


def test_what_cannot_be_installed_says_why(tmp_path: Path) -> None:
    installer = tmp_path / "install"
    installer.write_text("#!/bin/sh\necho 'E: Unable to locate package bpftrace' >&2\nexit 100\n")
    installer.chmod(0o755)
    done = without_bpftrace(*DELETE, "--out", str(tmp_path / "runs"), PGBED_INSTALL=str(installer))
    assert done.returncode == 2
    _, why, refused = done.stderr.splitlines()
    assert why == "not installed: E: Unable to locate package bpftrace" and "bpftrace not found" in refused


def test_guest_tools_are_installed_once_for_valid_arguments(tmp_path: Path) -> None:
    installer, erofs = tmp_path / "install", shutil.which("mkfs.erofs")
    assert erofs is not None
    installer.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n')
    installer.chmod(0o755)
    environment = {"PGBED_INSTALL": str(installer)}
    plan = ("--pg", "16.3", "--kernel", "6.1-distro,6.12-distro", "--accelerator", "tcg", "--dry-run")
    for memory, code in (("1X", 2), ("1GB", 0)):
        done = without(erofs, *plan, "--guest-memory", memory, "--out", str(tmp_path / "runs"), **environment)
        assert done.returncode == code, done.stderr
        assert (tmp_path / "asked").exists() == (code == 0)
    assert (tmp_path / "asked").read_text() == "mkfs.erofs=erofs-utils\n"

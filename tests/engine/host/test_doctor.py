"""The machine's checks: each fault is found with its reason and its remedy, and a good machine has none."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

import pytest

from engine.host import environment
from engine.host.doctor import examine, judge


@pytest.fixture(scope="module")
def good() -> dict[str, Any]:
    """A record of a machine without faults, made from the one of this machine."""
    record = copy.deepcopy(environment.record(Path("/")))
    record["cpu"] |= {
        "threads": 8, "numa_nodes": 1, "hypervisor": False, "governor": "performance", "boost": False, "smt": False,
    }  # fmt: skip
    record["memory"] |= {"total_bytes": 32 << 30, "swap_used_bytes": 0, "transparent_huge_pages": "madvise"}
    record["kernel"] |= {"clock_source": "tsc"}
    record["storage"] |= {
        "filesystem": "ext4", "mount_options": "rw,relatime", "source": "/dev/nvme0n1", "device": "nvme0n1",
        "read_ahead_kb": 128,
    }  # fmt: skip
    record["state"] |= {"busy_share": 0.01, "temperature_c": 40.0, "on_battery": False}
    return record


def test_a_good_machine_has_no_warnings(good: dict[str, Any]) -> None:
    assert {check.status for check in judge(good)} == {"ok"}
    assert len(judge(good)) >= 10


@pytest.mark.parametrize("section, key, value, name", [
    ("cpu", "governor", "powersave", "CPU governor"),
    ("cpu", "boost", True, "CPU boost"),
    ("cpu", "smt", True, "SMT"),
    ("cpu", "threads", 1, "CPU"),
    ("cpu", "numa_nodes", 2, "CPU"),
    ("cpu", "hypervisor", True, "virtual machine"),
    ("memory", "swap_used_bytes", 1 << 20, "memory"),
    ("memory", "transparent_huge_pages", "always", "transparent huge pages"),
    ("kernel", "clock_source", "hpet", "clock source"),
    ("storage", "filesystem", "tmpfs", "filesystem"),
    ("storage", "filesystem", "fuse.sshfs", "filesystem"),
    ("storage", "mount_options", "rw,nobarrier", "filesystem"),
    ("storage", "device", None, "disk"),
    ("storage", "read_ahead_kb", 8192, "disk"),
    ("state", "busy_share", 0.5, "other work"),
    ("state", "on_battery", True, "power"),
    ("state", "temperature_c", 90.0, "temperature"),
])  # fmt: skip
def test_each_fault_is_found(section: str, key: str, value: object, name: str, good: dict[str, Any]) -> None:
    record = copy.deepcopy(good)
    record[section][key] = value
    (warning,) = (check for check in judge(record) if check.status != "ok")
    assert (warning.name, warning.status) == (name, "warn")
    assert warning.reason and warning.remedy


def test_what_the_machine_does_not_tell_is_not_judged(good: dict[str, Any]) -> None:
    record = copy.deepcopy(good)
    for section, keys in {"cpu": ("governor", "boost", "smt"), "state": ("on_battery", "temperature_c")}.items():
        record[section] |= dict.fromkeys(keys)
    names = {check.name for check in judge(record)}
    assert names.isdisjoint({"CPU governor", "CPU boost", "SMT", "power", "temperature"})


def test_without_a_user_for_servers_the_doctor_says_so(monkeypatch: pytest.MonkeyPatch, new_folder: Any) -> None:
    monkeypatch.setenv("PGBED_USER", "no_such_user_here")
    checks = {check.name: check for check in examine(new_folder())}
    if os.geteuid() == 0:
        assert checks["servers' user"].status == "fail" and "no_such_user_here" in checks["servers' user"].reason
    else:
        assert checks["servers' user"].status == "ok"  # only root needs another user


def test_a_socket_folder_that_does_not_do_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, new_folder: Any, tmp_path: Path
) -> None:
    monkeypatch.setenv("PGBED_SOCKETS", str(tmp_path / "absent"))
    checks = {check.name: check for check in examine(new_folder())}
    assert checks["socket folder"].status == "fail" and "PGBED_SOCKETS" in checks["socket folder"].remedy


def test_an_output_folder_that_cannot_be_written_is_a_failure() -> None:
    checks = {check.name: check for check in examine(Path("/proc/pgbed"))}
    folder_check = checks["output folder"]
    assert (folder_check.status, folder_check.found) == ("fail", "/proc/pgbed")
    assert folder_check.reason.startswith("/proc cannot be written: ") and "--out" in folder_check.remedy


@pytest.mark.outside  # only root can make files of another user
def test_an_output_folder_that_others_may_replace_fails(new_folder: Any) -> None:
    folder = new_folder()
    folder.chmod(0o1777)
    (folder / "runs").symlink_to("/var")
    os.chown(folder / "runs", 65534, -1, follow_symlinks=False)
    folder_check = next(check for check in examine(folder / "runs" / "x") if check.name == "output folder")
    assert (folder_check.status, folder_check.remedy) == ("fail", "choose another folder with --out")
    assert folder_check.reason.endswith(f"{folder / 'runs'} was made by another user")

"""`bench doctor`: what is wrong is said with its reason and its remedy, what is well is left in peace."""

from __future__ import annotations

import copy
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from engine.cli import doctor
from engine.cli.doctor import Check, judge, report
from engine.host import environment
from engine.tracing import selection
from probes import helper
from probes.requirements import Facts


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


def test_this_machine_can_run_the_tests(new_folder: Any) -> None:
    checks = report(new_folder())
    assert {"servers' user", "free space", "socket folder", "schedstat", "CPU", "kernel"} <= {c.name for c in checks}
    assert [check for check in checks if check.status == "fail"] == []


def test_every_warning_has_a_reason_and_a_remedy(new_folder: Any) -> None:
    for check in report(new_folder()):
        assert bool(check.reason) == bool(check.remedy) == (check.status != "ok"), check


@pytest.mark.parametrize(
    ("program", "status", "told"),
    [
        ("/nonexistent", "warn", "counters"),
        ("/nix/store/a-perf.drv", "ok", "the first run with --counters fetches perf"),
        ("/bin/false", "warn", "perf stat: it ended without a word"),
    ],
)
def test_it_says_what_can_be_counted(
    new_folder: Any, monkeypatch: pytest.MonkeyPatch, program: str, status: str, told: str
) -> None:
    monkeypatch.setenv("PGBED_PERF", program)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    (found,) = (check for check in report(new_folder()) if check.name == "counters")
    assert found.status == status and told in f"{found.name} {found.found} {found.reason}"


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
    checks = {check.name: check for check in report(new_folder())}
    if os.geteuid() == 0:
        assert checks["servers' user"].status == "fail" and "no_such_user_here" in checks["servers' user"].reason
    else:
        assert checks["servers' user"].status == "ok"  # only root needs another user


def test_a_socket_folder_that_does_not_do_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, new_folder: Any, tmp_path: Path
) -> None:
    monkeypatch.setenv("PGBED_SOCKETS", str(tmp_path / "absent"))
    checks = {check.name: check for check in report(new_folder())}
    assert checks["socket folder"].status == "fail" and "PGBED_SOCKETS" in checks["socket folder"].remedy


def test_an_output_folder_that_cannot_be_written_is_a_failure() -> None:
    checks = {check.name: check for check in report(Path("/proc/pgbed"))}
    found = checks["output folder"]
    assert (found.status, found.found) == ("fail", "/proc/pgbed")
    assert found.reason.startswith("/proc cannot be written: ") and "--out" in found.remedy


@pytest.mark.outside  # only root can make files of another user
def test_an_output_folder_that_somebody_else_may_replace_is_a_failure(new_folder: Any) -> None:
    folder = new_folder()
    folder.chmod(0o1777)
    (folder / "runs").symlink_to("/var")
    os.chown(folder / "runs", 65534, -1, follow_symlinks=False)
    found = next(check for check in report(folder / "runs" / "x") if check.name == "output folder")
    assert (found.status, found.remedy) == ("fail", "choose another folder with --out")
    assert found.reason.endswith(f"{folder / 'runs'} was made by another user")


def test_table_and_json_hold_every_check(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = (
        Check("one", "ok", "fine"),
        Check("two", "warn", "so so", "because of this", "do that"),
        Check("three", "fail", "no", "it is gone", "bring it back"),
    )
    monkeypatch.setattr(doctor, "report", lambda out: checks)
    called = CliRunner().invoke(doctor.doctor, ["--json"])
    assert [record["status"] for record in json.loads(called.output)] == ["ok", "warn", "fail"]
    assert called.exit_code == 1
    called = CliRunner().invoke(doctor.doctor)
    for text in ("✓ ok", "! warn", "✗ fail", "because of this", "→ do that", "bring it back"):
        assert text in called.output
    assert called.exit_code == 1
    monkeypatch.setattr(doctor, "report", lambda out: checks[:2])
    assert CliRunner().invoke(doctor.doctor).exit_code == 0


@pytest.mark.outside
def test_a_helper_that_others_may_change_is_warned_of_where_sudo_runs_it(
    monkeypatch: pytest.MonkeyPatch, new_folder: Any
) -> None:
    package = new_folder() / "probes"
    shutil.copytree(Path(helper.__file__).parent, package)
    monkeypatch.setattr(doctor, "direct_command", lambda: ("/usr/bin/python3", "-I", str(package / "helper.py")))

    def said() -> list[tuple[str, str]]:
        return [(check.status, check.found) for check in doctor.of_probes() if check.name == "probe helper"]

    assert said() == []  # root needs no sudo
    monkeypatch.setattr(selection, "by_sudo", lambda: True)
    assert said() == [("ok", f"{package / 'helper.py'}, started by sudo")]
    for loose in (package / "elf.py", package, package.parent):
        mode = loose.stat().st_mode
        loose.chmod(0o777)
        assert said() == [("warn", f"{loose} can be changed by users other than root")]
        loose.chmod(mode)
    os.chown(package / "table.py", 65534, -1)
    assert said() == [("warn", f"{package / 'table.py'} can be changed by users other than root")]


def test_a_program_that_workloads_call_is_missed_by_name(new_folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGBED_HYPERFINE", "/none")
    (check,) = (each for each in report(new_folder()) if each.name == "hyperfine")
    assert (check.status, check.found) == ("warn", "/none: no such program") and "PGBED_HYPERFINE" in check.remedy
    monkeypatch.delenv("PGBED_HYPERFINE")
    monkeypatch.setenv("PATH", "/none")
    (check,) = (each for each in report(new_folder()) if each.name == "hyperfine")
    assert (check.status, check.found) == ("warn", "none") and "cannot run" in check.reason


@pytest.mark.parametrize("uid", [0, 1000])
def test_doctor_and_the_list_of_probes_say_the_same(monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    """The helper of root mounts the tracing file system: what is not mounted keeps nobody else's probes off."""
    found = Facts(linux=True, kernel=(6, 12), bpftrace=(0, 21), uid=uid, capabilities=0, sudo=True, tracefs=False,
                  tracepoints=None, btf=True, uprobes=True)  # fmt: skip
    monkeypatch.setattr(selection, "facts", lambda: found)
    off = {name for check in doctor.of_probes() if check.found.startswith("off: ")
           for name in check.found.removeprefix("off: ").split(", ")}  # fmt: skip
    listed = {row["probe"] for row in selection.listing() if row["state"] not in ("ready", "always on")}
    assert off == listed and (not off) == (uid == 0)

"""The record of the machine: complete, JSON, never an error; and the rules of drift."""

from __future__ import annotations

import copy
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from engine.host import environment, machine_counters
from engine.host.drift import GAUGES, SETTINGS, drift
from engine.host.machine_counters import mount_of


@pytest.fixture(scope="module")
def here() -> dict[str, Any]:
    return environment.record(Path("/"))


def changed(record: dict[str, Any], section: str, key: str, value: object) -> dict[str, Any]:
    copied = copy.deepcopy(record)
    copied[section][key] = value
    return copied


def test_record_is_json_and_knows_the_machine(here: dict[str, Any]) -> None:
    assert json.loads(json.dumps(here)) == here
    assert here["cpu"]["threads"] >= 1 and here["cpu"]["probe_us"] > 0
    assert here["memory"]["total_bytes"] > 1 << 28
    assert here["kernel"]["release"] == Path("/proc/sys/kernel/osrelease").read_text().strip()
    assert here["storage"]["mount_point"] == "/" and here["storage"]["filesystem"]
    assert 0 <= here["state"]["busy_share"] <= 1


def test_record_says_which_cpus_may_be_used() -> None:
    every = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {max(every)})
        assert environment.record(Path("/"))["cpu"]["allowed"] == str(max(every))
    finally:
        os.sched_setaffinity(0, every)
    assert environment.cpu_list({9, 0, 1, 3, 2, 8, 5}) == "0-3,5,8-9"


def test_documented_keys_are_those_of_the_record(here: dict[str, Any]) -> None:
    documented = environment.__doc__ or ""
    for section, values in here.items():
        assert f"    {section} " in documented
        for key in values:
            assert key in documented, f"{section}.{key}"


def test_rules_of_drift_name_keys_of_the_record(here: dict[str, Any]) -> None:
    for section, key, _ in SETTINGS:
        assert key in here[section], key
    for gauge in GAUGES:
        assert gauge.key in here[gauge.section], gauge.key


def test_the_scheduler_of_sched_ext_is_known_by_its_name(tmp_path: Path) -> None:
    assert environment.sched_ext(tmp_path) is None
    (tmp_path / "state").write_text("disabled\n")
    assert environment.sched_ext(tmp_path) == ""
    (tmp_path / "root").mkdir()
    (tmp_path / "root/ops").write_text("rusty_1.0.9\n")
    assert environment.sched_ext(tmp_path) == "rusty_1.0.9"


def test_a_machine_that_tells_nothing_gives_nulls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(environment, "_text", lambda path: None)
    monkeypatch.setattr(machine_counters, "MOUNTS", tmp_path / "nothing")
    monkeypatch.setattr(environment, "CPU", tmp_path / "nothing")
    record = environment.record(tmp_path / "not" / "there")
    assert record["cpu"]["governor"] is record["cpu"]["boost"] is record["memory"]["total_bytes"] is None
    assert record["storage"]["mount_point"] is record["kernel"]["mitigations"] is None
    assert drift(record, record) == () or "other programs used" in drift(record, record)[0]


def test_nothing_changed_is_no_drift(here: dict[str, Any]) -> None:
    quiet = changed(here, "state", "busy_share", 0.0)
    assert drift(quiet, quiet) == ()
    assert drift({}, {}) == drift(quiet, {}) == drift({}, quiet) == ()


@pytest.mark.parametrize("section, key, old, new, said", [
    ("kernel", "release", "6.1.0", "6.18.0", "the kernel changed: 6.1.0, then 6.18.0"),
    ("cpu", "governor", "performance", "powersave", "the CPU governor changed: performance, then powersave"),
    ("cpu", "boost", True, False, "CPU boost changed: on, then off"),
    ("memory", "transparent_huge_pages", "madvise", "always", "transparent huge pages changed: madvise, then always"),
    ("kernel", "clock_source", "tsc", "hpet", "the clock source changed: tsc, then hpet"),
    ("storage", "read_ahead_kb", 128, 8192, "the disk's read-ahead changed: 128, then 8192"),
    ("cpu", "probe_us", 100.0, 105.2, "CPU speed changed: a fixed amount of work took 100.0 us, then 105.2 us"),
    ("cpu", "mhz", 3000.0, 2800.0, "the CPU's clock changed: 3000.0 MHz, then 2800.0 MHz"),
    ("state", "temperature_c", 40.0, 56.0, "the CPU's temperature changed: 40.0 C, then 56.0 C"),
    ("state", "device_temperature_c", 60.0, 40.0, "the disk's temperature changed: 60.0 C, then 40.0 C"),
    ("state", "busy_share", 0.0, 0.4, "other programs used 40% of the CPUs while no cell was running"),
    ("cpu", "probe_us", 100.0, 104.0, ""),
    ("cpu", "mhz", 3000.0, 2900.0, ""),
    ("state", "temperature_c", 40.0, 54.0, ""),
    ("state", "load1", 0.1, 5.0, ""),
    ("storage", "free_bytes", 10**12, 10**9, ""),
    ("cpu", "boost", None, True, ""),
])  # fmt: skip
def test_drift_shows_both_values_unless_small_or_unknown(
    section: str, key: str, old: object, new: object, said: str, here: dict[str, Any]
) -> None:
    base = changed(changed(here, "state", "busy_share", 0.0), "cpu", "governor", None)
    assert "\n".join(drift(changed(base, section, key, old), changed(base, section, key, new))) == said


def test_a_machine_without_an_id_is_known_by_its_adapters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    id_file, boot, network = tmp_path / "machine-id", tmp_path / "boot_id", tmp_path / "net"
    monkeypatch.setattr(environment, "MACHINE_NAME", str(tmp_path / "none"))
    monkeypatch.setattr(environment, "MACHINE_IDS", (str(id_file),))
    monkeypatch.setattr(environment, "BOOT_ID", str(boot))
    monkeypatch.setattr(environment, "NETWORK", network)
    monkeypatch.delenv(environment.SANDBOX, raising=False)
    ids = []
    for name in ("boot 1", "boot 2"):
        boot.write_text(name)
        assert environment.machine_id() is None, "a boot is no machine"
        with monkeypatch.context() as sandbox:
            sandbox.setenv(environment.SANDBOX, "block1")
            ids.append(environment.machine_id())
    assert None not in ids and ids[0] != ids[1], "of two builders nothing else is known"
    for name, device, assigned, address in (
        ("eth0", True, "0", "52:54:00:00:00:01"), ("veth1", False, "0", "1"), ("eth1", True, "3", "2"),
        ("usb0", True, "0", "00:00:00:00:00:00"),
    ):  # fmt: skip
        (network / name).mkdir(parents=True)
        (network / name / "address").write_text(address)
        (network / name / "addr_assign_type").write_text(assigned)
        if device:
            (network / name / "device").touch()
    id_file.write_text("uninitialized\n")
    known = environment.machine_id()
    (network / "veth1/address").write_text("3")
    (network / "eth1/address").write_text("3")
    assert known is not None and environment.machine_id() == known
    (network / "eth0/address").write_text("52:54:00:00:00:02")
    assert environment.machine_id() not in (None, known)
    id_file.write_text("0123\n")
    assert environment.machine_id() == hashlib.sha256(b"pgbed 0123").hexdigest()[:12]


def test_an_idle_clock_under_a_saving_governor_is_not_compared(here: dict[str, Any]) -> None:
    base = changed(changed(here, "state", "busy_share", 0.0), "cpu", "governor", "powersave")
    assert drift(changed(base, "cpu", "mhz", 3000.0), changed(base, "cpu", "mhz", 800.0)) == ()


def test_mount_of_is_the_innermost() -> None:
    root, proc = mount_of(Path("/")), mount_of(Path("/proc/self"))
    assert root is not None and root.point == "/"
    assert proc is not None and proc[:2] == ("/proc", "proc")


def test_the_mount_on_top_is_the_one_that_holds_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(
        "1 0 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
        "2 1 8:2 / /a\\040b rw - xfs /dev/sdb1 rw,noquota\n"
        "3 2 0:9 / /a\\040b ro shared:1 - tmpfs none rw,size=1g\n"
    )
    monkeypatch.setattr(machine_counters, "MOUNTS", table)
    assert mount_of(Path("/a b/c")) == ("/a b", "tmpfs", "ro,rw,size=1g", "none")
    assert mount_of(Path("/ab")) == ("/", "ext4", "rw,relatime", "/dev/sda1")
    monkeypatch.setattr(machine_counters, "MOUNTS", tmp_path / "none")
    assert mount_of(Path("/")) is None


@pytest.mark.parametrize("groups, files, expected", [
    ("0::/run\n", {"run/memory.max": "1000", "memory.max": "max"}, 1000),
    ("0::/a/b\n", {"a/b/memory.max": "max", "a/memory.max": "500"}, 500),
    ("4:cpu,memory:/x\n", {"memory/x/memory.limit_in_bytes": "700"}, 700),
    ("4:memory:/x\n", {"memory/x/memory.limit_in_bytes": "9223372036854771712"}, None),
    ("0::/\n", {}, None),
])  # fmt: skip
def test_memory_limit_is_the_lowest_on_the_way_up(
    groups: str, files: dict[str, str], expected: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "own").write_text(groups)
    monkeypatch.setattr(environment, "GROUPS", tmp_path)
    monkeypatch.setattr(environment, "OWN_GROUPS", tmp_path / "own")
    assert environment.group_limit_bytes() == expected

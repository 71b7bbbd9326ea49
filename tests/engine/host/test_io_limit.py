"""A limit on a server's reads and writes: what the kernel is told, that it holds, and that nothing of it is left."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.core.errors import UserError
from engine.host import block_device, io_limit
from engine.host.block_device import restore_left, tuned
from engine.host.procfs import children
from engine.journal.reader import JournalReader
from tests.support.benchcall import LONG, Bench, nothing_left, postmaster, wait_for

READS, PER_S = 30, 40
READ = ("dd", "of=/dev/null", "bs=4k", f"count={READS}", "iflag=direct", "status=none")


@pytest.fixture
def unified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files as version 2 of control groups has them."""
    monkeypatch.setattr(io_limit, "BLKIO", tmp_path / "none")
    monkeypatch.setattr(io_limit, "UNIFIED", tmp_path)
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory\n")
    (tmp_path / io_limit.CONTROLLERS).write_text("cpu memory\n")
    return tmp_path


def test_version_2_is_told_the_limits_of_the_disk_and_switched_off_again(
    unified: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = unified / io_limit.NAME
    numbers = tmp_path / "sda" / "dev"
    numbers.parent.mkdir()
    numbers.write_text("8:0\n")
    monkeypatch.setattr(io_limit, "DISKS", tmp_path)
    before = io_limit.before()
    assert before == {str(group): "absent", str(unified / io_limit.CONTROLLERS): "-io"}
    io_limit.limit({"read_iops": "200"}, "sda")
    assert (group / "io.max").read_text() == "8:0 wiops=max"  # each is a write of its own: the last one
    (group / "io.max").unlink()
    assert all(io_limit.is_ours(path, value) for path, value in before.items())
    assert not io_limit.is_ours(str(group), "-io") and not io_limit.is_ours(str(tmp_path / "other"), "absent")
    assert block_device.restore({**before, str(tmp_path): "absent"}) == {}
    assert not group.exists() and (unified / io_limit.CONTROLLERS).read_text() == "-io" and tmp_path.exists()
    (unified / io_limit.CONTROLLERS).write_text("cpu io memory\n")
    assert list(io_limit.before()) == [str(group)]


def test_a_kernel_without_limits_says_so(unified: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_device, "device_of", lambda _: "sda")
    (unified / "cgroup.controllers").write_text("cpuset cpu memory\n")
    with pytest.raises(UserError, match="read_iops: this kernel limits no I/O of control groups"):
        block_device.check((("read_iops", "5"),), unified)


HOLDER = """
import subprocess, sys, time
from pathlib import Path
from engine.host import block_device, io_limit
block_device.LEFT = Path(sys.argv[2])
with block_device.tuned((("read_iops", "16"),), Path(sys.argv[1])):
    server = subprocess.Popen(["sleep", "600"])
    io_limit.join(server.pid)
    print(server.pid, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def disk(disk: Path) -> Path:
    """The folder, with a file to read."""
    (disk / "file").write_bytes(bytes(4096 * READS))
    subprocess.run(["sync", disk / "file"], check=True)
    return disk


@pytest.fixture
def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of records of its own: engines of other tests restore what is in the usual one."""
    folder = tmp_path / "left"
    monkeypatch.setattr(block_device, "LEFT", folder)
    return folder


def timed(command: Sequence[str]) -> float:
    began_s = time.monotonic()
    subprocess.run(command, check=True)
    return time.monotonic() - began_s


@pytest.mark.outside
def test_reads_of_who_is_in_the_group_take_as_long_as_the_limit_says_and_no_others(disk: Path) -> None:
    settings = (("read_iops", str(PER_S)),)
    block_device.check(settings, disk)
    group = io_limit.parent() / io_limit.NAME
    read = (*READ, f"if={disk}/file")
    with tuned(settings, disk):
        with subprocess.Popen(["sh", "-c", 'read go && "$@"', "sh", *read], stdin=subprocess.PIPE, text=True) as within:
            io_limit.join(within.pid)
            began_s = time.monotonic()
            within.communicate("go\n")
        took_s = time.monotonic() - began_s
        free_s = min(timed(read) for _ in range(3))  # the disk may have other work
        assert within.returncode == 0 and group.exists()
    assert took_s > 0.8 * READS / PER_S > 2 * free_s, (took_s, free_s)
    assert not group.exists()


@pytest.mark.outside
def test_what_a_killed_engine_leaves_is_removed_once_its_server_has_ended(
    disk: Path, left: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(io_limit, "REMOVAL_S", 0.2)
    group, kept = io_limit.parent() / io_limit.NAME, left / "device-cgroup.json"
    command = [sys.executable, "-c", HOLDER, str(disk), str(left)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        server = int(holder.stdout.readline())
        assert str(server) in (group / "cgroup.procs").read_text().split()
        with (
            pytest.raises(UserError, match="another run has changed settings of cgroup"),
            tuned((("read_iops", "9"),), disk),
        ):
            pass
        holder.kill()
    assert restore_left(left) == [] and json.loads(kept.read_text()) == {str(group): "absent"}
    subprocess.run(["kill", "-9", str(server)], check=True)
    wait_for(lambda: not (group / "cgroup.procs").read_text(), "the server to end")
    assert restore_left(left) == [f"restored {group} to absent, as a run before had left it"]
    assert not group.exists() and not kept.exists()


@pytest.mark.outside
def test_a_group_whose_processes_outlive_a_cell_stays_on_record(
    disk: Path, left: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(io_limit, "REMOVAL_S", 0.1)
    group, kept = io_limit.parent() / io_limit.NAME, left / "device-cgroup.json"
    server = subprocess.Popen(["sleep", "600"])
    try:
        with tuned((("read_iops", "16"),), disk):
            io_limit.join(server.pid)
        assert group.exists() and json.loads(kept.read_text()) == {str(group): "absent"}
    finally:
        server.kill()
        server.wait()
    assert restore_left(left) == [f"restored {group} to absent, as a run before had left it"]
    assert not group.exists() and not kept.exists()


@pytest.mark.outside
def test_all_of_a_server_is_limited_and_the_group_goes_with_an_engine_that_is_killed(
    bench: Bench, label: str, tmp_path: Path
) -> None:
    (tmp_path / "limited.toml").write_text('extends = "auto"\n[device]\nread_iops = 50_000\n')
    group = io_limit.parent() / io_limit.NAME
    bench.detached("--pg", label, "--config", str(tmp_path / "limited.toml"), "--repeats", "1", *LONG)
    bench.await_step("l.i1")
    server = postmaster(bench)
    members = set(map(int, (group / "cgroup.procs").read_text().split()))
    assert members > {server} and set(children(server)) <= members
    with JournalReader(bench.run) as reader:
        assert reader.origin(1)["server"]["device"] == {"read_iops": "50000"}
    bench.stop()
    wait_for(lambda: not group.exists(), "the group to be removed")
    wait_for(lambda: not (block_device.LEFT / "device-cgroup.json").exists(), "its record to be removed")
    nothing_left(bench)

"""Block device settings of a config: read strictly, and restored whoever ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.core.errors import UserError
from engine.host import block_device
from engine.host.block_device import parsed, restore, restore_left, tuned
from engine.host.machine_counters import device_of
from engine.postgres import configs


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"scheduler": 1}, "has 'scheduler'; known: read_ahead_kb"),
        ({"read_ahead_kb": -1}, "whole number from 0 to 65536"),
        ({"read_ahead_kb": "9; reboot"}, "whole number from 0 to 65536"),
        ({"read_ahead_kb": True}, "whole number"),
        ({"read_ahead_kb": 65537}, "whole number"),
        ({"transparent_hugepage": "sometimes"}, "transparent_hugepage must be one of always, madvise, never"),
        ({"nr_hugepages": "many"}, "nr_hugepages must be a whole number from 0 to"),
        ([128], "must be a table"),
    ],
)
def test_nothing_else_can_be_asked_for(record: object, said: str) -> None:
    with pytest.raises(UserError, match=said):
        parsed(record, "config x")


def test_a_config_has_its_device_settings_and_hands_them_down(tmp_path: Path) -> None:
    assert parsed({"read_ahead_kb": 500, "nr_hugepages": "9"}, "x") == (("read_ahead_kb", "500"), ("nr_hugepages", "9"))
    (spec,) = configs.resolve(["readahead-0"])
    assert spec.device == (("read_ahead_kb", "0"),)
    (tmp_path / "mine.toml").write_text('extends = "readahead-128"\n[settings]\nwork_mem = "8MB"\n')
    (mine,) = configs.resolve([str(tmp_path / "mine.toml")])
    assert mine.device == (("read_ahead_kb", "128"),) and configs.Setting("work_mem", "8MB") in mine.settings
    (tmp_path / "mine.toml").write_text("[device]\nnr_requests = 1\n")
    with pytest.raises(UserError, match=r"mine.toml: config 'mine': \[device\] has 'nr_requests'"):
        configs.resolve([str(tmp_path / "mine.toml")])


def test_a_folder_without_a_device_is_refused(tmp_path: Path) -> None:
    settings = (("read_ahead_kb", "0"),)
    assert device_of(Path("/proc")) is None
    with pytest.raises(UserError, match="is not on a block device"):
        block_device.check(settings, Path("/proc/none"))
    file = tmp_path / "file"
    restore({str(file): "1", f"/sys/block/../../{file}/queue/read_ahead_kb": "1"})
    assert not file.exists() and restore_left(tmp_path) == []


def test_what_a_config_sets_of_memory_is_no_drift() -> None:
    environment = {"memory": {"transparent_huge_pages": "always", "huge_pages": 5}, "storage": {"read_ahead_kb": 1}}
    without = block_device.without(environment, (("nr_hugepages", "9"), ("read_ahead_kb", "2")))
    assert without == {
        "memory": {"transparent_huge_pages": "always", "huge_pages": None},
        "storage": {"read_ahead_kb": None},
    }


HOLDER = """
import sys, time
from pathlib import Path
from engine.host import block_device
with block_device.tuned((("read_ahead_kb", "16"),), Path(sys.argv[1])):
    print("set", flush=True)
    time.sleep(600)
"""


@pytest.mark.outside
def test_memory_is_set_and_restored(tmp_path: Path) -> None:
    place = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    settings = (("transparent_hugepage", "madvise"), ("nr_hugepages", "1"))
    before = block_device.values(settings, tmp_path)
    with tuned(settings, tmp_path):
        assert "[madvise]" in place.read_text() and block_device.values(settings, tmp_path)[str(place)] == "madvise"
    assert block_device.values(settings, tmp_path) == before


@pytest.mark.outside
def test_the_next_start_restores_what_a_killed_one_has_set(disk: Path) -> None:
    assert os.geteuid() == 0
    device = device_of(disk)
    place = Path(f"/sys/block/{device}/queue/read_ahead_kb")
    before, settings = place.read_text().strip(), (("read_ahead_kb", "32"),)
    block_device.check(settings, disk)
    with tuned(settings, disk):
        assert place.read_text().strip() == "32" and block_device.values(settings, disk) == {str(place): "32"}
        assert restore_left() == [], "which is not left: it is there"
    assert place.read_text().strip() == before
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(disk)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "set\n"
        assert place.read_text().strip() == "16"
        kept = block_device.LEFT / f"device-{device}.json"
        assert json.loads(kept.read_text()) == {str(place): before}
        with pytest.raises(UserError, match=f"another run has changed settings of {device}"), tuned(settings, disk):
            pass
        holder.kill()
    assert restore_left() == [f"restored {place} to {before}, as a run before had left it"]
    assert place.read_text().strip() == before and not kept.exists() and restore_left() == []

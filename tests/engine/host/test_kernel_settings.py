"""Settings of the kernel: set by one run at a time, and restored whoever ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.core.errors import UserError
from engine.host import kernel_settings
from engine.host.kernel_settings import changed, check, restore, restore_left
from engine.host.machine_counters import device_of


def test_only_settings_of_the_kernel_are_restored(tmp_path: Path) -> None:
    file = tmp_path / "file"
    restore({str(file): "1", f"/sys/block/../../{file}/queue/read_ahead_kb": "1", "/proc/sys/vm/../../../nr": "1"})
    assert not file.exists() and restore_left(tmp_path) == []


def test_a_missing_file_explains_what_to_mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_settings, "DEBUGFS", tmp_path / "debug")
    file = tmp_path / "debug/sched/nr_migrate"
    (tmp_path / "debug").mkdir()
    with pytest.raises(UserError, match=f"x: mount -t debugfs debugfs {tmp_path}/debug provides {file}"):
        check({"x": (file, "8")})
    file.parent.mkdir()
    with pytest.raises(UserError, match=f"x: this machine has no {file}"):
        check({"x": (file, "8")})
    file.write_text("32\n")
    check({"x": (file, "8")})


HOLDER = """
import sys, time
from pathlib import Path
from engine.host import kernel_settings
with kernel_settings.changed({"read-ahead": (Path(sys.argv[1]), "16")}):
    print("set", flush=True)
    time.sleep(600)
"""


@pytest.mark.outside
def test_memory_is_set_and_restored() -> None:
    place, pages = Path("/sys/kernel/mm/transparent_hugepage/enabled"), Path("/proc/sys/vm/nr_hugepages")
    before = [file.read_text() for file in (place, pages)]
    with changed({"thp": (place, "madvise"), "pages": (pages, "1")}):
        assert "[madvise]" in place.read_text() and pages.read_text() == "1\n"
    assert [file.read_text() for file in (place, pages)] == before


@pytest.mark.outside
def test_the_next_start_restores_what_a_killed_one_has_set(disk: Path) -> None:
    assert os.geteuid() == 0
    device = device_of(disk)
    place = Path(f"/sys/block/{device}/queue/read_ahead_kb")
    before, settings = place.read_text().strip(), {"read-ahead": (place, "32")}
    with changed(settings):
        assert place.read_text().strip() == "32"
        assert restore_left() == [], "which is not left: it is there"
    assert place.read_text().strip() == before
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(place)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "set\n"
        assert place.read_text().strip() == "16"
        kept = kernel_settings.LEFT / f"settings-{device}.json"
        assert json.loads(kept.read_text()) == {str(place): before}
        with pytest.raises(UserError, match=f"another run has changed settings of {device}"), changed(settings):
            pass
        holder.kill()
    assert restore_left() == [f"restored {place} to {before}, as a run before had left it"]
    assert place.read_text().strip() == before and not kept.exists() and restore_left() == []

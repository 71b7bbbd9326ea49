"""Settings of the kernel: set by one run at a time, and restored whoever ends."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from engine.core.errors import UserError
from engine.host import kernel_settings
from engine.host.kernel_settings import changed, check, restore, restore_left


def test_only_settings_of_the_kernel_are_restored(tmp_path: Path) -> None:
    file = tmp_path / "file"
    restore({str(file): "1", f"/sys/block/../../{file}/queue/read_ahead_kb": "1", "/proc/sys/vm/../../../nr": "1"})
    assert not file.exists() and restore_left(tmp_path) == []
    file.touch()
    with pytest.raises(UserError, match=f"x: {file} is no setting of the kernel"), changed({"x": (file, "1")}):
        pass


def test_a_missing_file_explains_what_to_mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_settings, "DEBUGFS", tmp_path / "debug")
    file = tmp_path / "debug/sched/nr_migrate"
    (tmp_path / "debug").mkdir()
    with pytest.raises(UserError, match=f"x: mount -t debugfs debugfs {tmp_path}/debug provides {file}"):
        check({"x": (file, "8")})
    file.parent.mkdir()
    with pytest.raises(UserError, match=f"x: this machine has no {file}"):
        check({"x": (file, "8")})
    os.mkfifo(file)  # without seeking, like a file of debugfs
    check({"x": (file, "8")})


def test_a_value_that_could_not_be_restored_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_settings, "PLACES", re.compile(r".*/file"))
    monkeypatch.setattr(kernel_settings, "LEFT", tmp_path / "left")
    (file := tmp_path / "file").write_text("-1\n")
    refused = pytest.raises(UserError, match=f"{file} is -1, which could not be restored")
    with refused, changed({"x": (file, "8")}):
        pass
    assert file.read_text() == "-1\n"
    assert restore({str(file): "8\n9"}) == {str(file): "8\n9"} and file.read_text() == "-1\n"


@pytest.mark.outside  # records of root are restored, and of nobody else
def test_a_value_that_cannot_be_restored_stays_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_settings, "PLACES", re.compile(r".*/file"))
    monkeypatch.setattr(kernel_settings, "LEFT", tmp_path)
    (file := tmp_path / "a" / "file").parent.mkdir()
    file.write_text("4\n")
    with changed({"x": (file, "8")}):
        file.unlink()
        file.mkdir()
    (other := tmp_path / "b" / "file").parent.mkdir()
    other.write_text("5\n")
    with changed({"y": (other, "8")}):
        pass
    assert other.read_text() == "5"
    for _ in range(2):
        (line,) = restore_left(tmp_path)
        assert line == f"{file} could not be restored to 4, as it was before a run: set it yourself"
    file.rmdir()
    assert restore_left(tmp_path) == [f"restored {file} to 4, as a run before had left it"]
    assert file.read_text() == "4" and restore_left(tmp_path) == []


@pytest.mark.outside
def test_memory_is_set_and_restored() -> None:
    place, pages = Path("/sys/kernel/mm/transparent_hugepage/enabled"), Path("/proc/sys/vm/nr_hugepages")
    before = [file.read_text() for file in (place, pages)]
    with changed({"thp": (place, "madvise"), "pages": (pages, "1")}):
        assert "[madvise]" in place.read_text() and pages.read_text() == "1\n"
    assert [file.read_text() for file in (place, pages)] == before

"""Files that a user wants written: whole, and without waiting for somebody to read them."""

from __future__ import annotations

import errno
import os
import re
import sqlite3
import subprocess
import threading
from contextlib import closing, suppress
from pathlib import Path

import pytest

from engine.core.errors import UserError
from engine.core.text import visible
from engine.host import disk, machine_counters


@pytest.mark.timeout(120)
def test_a_pipe_is_written_to_only_with_a_reader(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(OSError, match="No such device or address"):
        disk.write_text(fifo, visible("text"))
    with os.fdopen(os.open(fifo, os.O_RDWR), "rb") as reader:
        writing = threading.Thread(target=disk.write_text, args=(fifo, "x" * 200_000))
        writing.start()
        assert len(reader.read(200_000)) == 200_000
        writing.join()


def test_a_full_disk_leaves_no_half_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        disk.write_text(Path("/dev/full"), visible("text"))
    assert Path("/dev/full").exists()


def test_whatever_finds_a_disk_full_names_it(tmp_path: Path) -> None:
    def write_file() -> None:
        Path("/dev/full").write_text("x")

    def write_journal() -> None:
        with closing(sqlite3.connect(tmp_path / "journal.db")) as journal:
            journal.execute("PRAGMA max_page_count = 2")
            journal.execute("CREATE TABLE sample (data)")
            journal.executemany("INSERT INTO sample VALUES (?)", [(9000 * "x",)])

    mount = machine_counters.mount_of(tmp_path)
    assert mount is not None
    for write in (write_file, write_journal):
        named = re.escape(f"mounted at {mount.point}")
        with pytest.raises(disk.DiskFull, match=named) as caught, disk.named_when_full(tmp_path):
            write()
        assert caught.value.__cause__ is not None
        text = str(caught.value.__cause__)
        message = disk.with_name(text, tmp_path)
        assert message.startswith(f"{text} (the disk mounted at {mount.point}")
        for named_already in (message, str(caught.value)):
            assert disk.with_name(named_already, tmp_path) == named_already
    damaged = sqlite3.OperationalError("disk I/O error")
    damaged.sqlite_errorcode = sqlite3.SQLITE_IOERR_READ
    with pytest.raises(sqlite3.OperationalError), disk.named_when_full(tmp_path):
        raise damaged
    with pytest.raises(FileNotFoundError), disk.named_when_full(tmp_path):
        (tmp_path / "absent").read_text()
    assert disk.with_name("relation t does not exist", tmp_path) == "relation t does not exist"


def test_the_disk_that_is_named_is_the_one_that_is_full(tmp_path: Path) -> None:
    without_room, shared = "No space left on device", disk.full(Path("/dev/shm"))
    if shared == disk.full(tmp_path):  # the files of tests are there
        tmp_path = Path(__file__).parent
    assert shared != disk.full(tmp_path)
    segment = f'could not resize shared memory segment "/PostgreSQL.1" to 8 bytes: {without_room}'
    folder = f"no socket folder can be made in /dev/shm: {without_room} (log: {tmp_path}/server.log)"
    for text in (segment, folder):
        assert disk.with_name(text, tmp_path) == f"{text} ({shared})"
    of_disk = f'could not write to file "base/pgsql_tmp/1": {without_room}'
    assert disk.with_name(of_disk, tmp_path) == f"{of_disk} ({disk.full(tmp_path)})"
    with pytest.raises(UserError, match="/dev/shm/x: cannot be written") as raised, disk.named_when_full(tmp_path):
        raise OSError(errno.ENOSPC, without_room, "/dev/shm/x")
    assert not isinstance(raised.value, disk.DiskFull)


@pytest.mark.outside
def test_a_message_without_its_cause_names_the_disk_that_is_full(tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", tmp_path], check=True)
    try:
        text = "FATAL: could not write init file"
        assert disk.with_name(text, tmp_path) == text
        with suppress(OSError), (tmp_path / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(1 << 20))
        assert disk.with_name(text, tmp_path) == f"{text} (the disk mounted at {tmp_path} (tmpfs) is full)"
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_a_link_stays_one_and_an_open_file_keeps_its_place(tmp_path: Path) -> None:
    file, link = tmp_path / "page", tmp_path / "link"
    file.write_text("before")
    link.symlink_to(file)
    disk.check_writable(link)
    disk.replace_text(link, visible("after"))
    assert link.is_symlink() and file.read_text() == "after" and len(list(tmp_path.iterdir())) == 2
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    disk.replace_text(loop, visible("a file now"))
    assert loop.read_text() == "a file now"
    with file.open("r+") as opened:
        standing = Path(f"/proc/self/fd/{opened.fileno()}")
        disk.check_writable(standing)
        disk.replace_text(standing, visible("through"))
        assert os.fstat(opened.fileno()).st_ino == file.stat().st_ino and opened.read() == "through"

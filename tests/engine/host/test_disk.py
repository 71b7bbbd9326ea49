"""Files that a user wants written: whole, and without waiting for somebody to read them."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from engine.host import disk


@pytest.mark.timeout(20)
def test_a_pipe_is_written_to_when_somebody_reads_and_not_waited_for(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(OSError, match="No such device or address"):
        disk.write_text(fifo, "text")
    with os.fdopen(os.open(fifo, os.O_RDWR), "rb") as reader:
        writing = threading.Thread(target=disk.write_text, args=(fifo, "x" * 200_000))
        writing.start()
        assert len(reader.read(200_000)) == 200_000
        writing.join()


def test_a_full_disk_leaves_no_half_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        disk.write_text(Path("/dev/full"), "text")
    assert Path("/dev/full").exists()

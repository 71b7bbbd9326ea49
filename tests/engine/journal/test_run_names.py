"""Plans that are made in the same second are runs of different names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from engine.journal.runs import free_name

CLAIM = """\
import sys
from pathlib import Path
from engine.journal.runs import free_name
print(free_name(Path(sys.argv[1]), "then-16"), flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_processes_at_work_at_once_have_names_of_their_own(tmp_path: Path) -> None:
    command = (sys.executable, "-c", CLAIM, str(tmp_path))
    pipe = subprocess.PIPE
    processes = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(4)]
    names = {process.stdout.readline().strip() for process in processes if process.stdout}
    assert names == {"then-16", "then-16-2", "then-16-3", "then-16-4"}
    for process in processes:
        process.communicate()
    assert free_name(tmp_path, "then-16") == "then-16"  # nothing came of them


def test_what_is_there_keeps_its_name(tmp_path: Path) -> None:
    assert free_name(tmp_path, "then-16") == free_name(tmp_path, "then-16") == "then-16"
    (tmp_path / "then-16").mkdir()
    (tmp_path / "then-16-2").symlink_to("nowhere")
    assert free_name(tmp_path, "then-16") == "then-16-3"

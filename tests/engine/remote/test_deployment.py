"""Packing of clients for another host, whoever installed packages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

ARCHIVE = """
import sys
from pathlib import Path
from engine.remote.deployment import archive
with open(sys.argv[1], "wb") as file:
    archive(file, ["workloads.insert.launch"], {})
"""


@pytest.mark.slow
def test_packages_of_a_system_that_lists_no_files_go_there_too(tmp_path: Path) -> None:
    site, there = tmp_path / "site", tmp_path / "there"
    site.mkdir()
    there.mkdir()
    for path in Path(psycopg.__file__).parents[1].iterdir():
        if path.suffix != ".dist-info":
            (site / path.name).symlink_to(path)
    root = Path(__file__).parents[3]
    command = [sys.executable, "-S", "-c", ARCHIVE, str(tmp_path / "tar")]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": f"{root}:{site}"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    subprocess.run(["tar", "-xf", tmp_path / "tar", "-C", there], check=True)
    asked = "import msgspec, numpy, psycopg.pq as pq; print(pq.__impl__, pq.__file__, numpy.arange(3).sum())"
    printed = subprocess.run(
        ["sh", str(there / "python"), "-c", asked], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert printed.stdout.split() == [psycopg.pq.__impl__, f"{there}/code/psycopg/pq/__init__.py", "3"], printed.stderr

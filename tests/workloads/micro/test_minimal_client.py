"""The small client of one-shot timings: one statement on a real server, and whose child a server is that it starts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.postgres.server import Server
from tests.support.benchcall import wait_for
from workloads.micro.preparation import MINIMAL_CLIENT


def call(*arguments: str, folder: Path = Path("/")) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*MINIMAL_CLIENT, *arguments], capture_output=True, text=True, check=False, timeout=60, cwd=folder, env={}
    )


@pytest.mark.parametrize("major", [12, 17])
def test_a_statement_is_asked_and_its_error_told(server: Callable[[int | str], Server], major: int) -> None:
    place = f"{server(major).socket_dir}/.s.PGSQL.5432"
    assert call("ask", place, "bench", "ib", "SELECT repeat('x', 200000)").returncode == 0
    for database, sql, told in (
        ("ib", "SELECT 1/0", "division by zero"),
        ("none", "", 'database "none" does not exist'),
    ):
        done = call("ask", place, "bench", database, sql)
        assert done.returncode == 1 and told in done.stderr
    assert "No such file" in call("ask", "/nowhere", "bench", "ib", "").stderr


def test_a_server_that_ends_is_not_waited_for(tmp_path: Path) -> None:
    log = tmp_path / "log"
    fails = (sys.executable, "-c", "raise SystemExit('/nowhere')")
    done = call("start", "socket", "bench", "postgres", str(os.getpid()), str(log), *fails, folder=tmp_path)
    assert done.returncode == 1 and "ended before it answered" in done.stderr
    assert "/nowhere" in log.read_text()


def test_a_server_ends_with_the_launcher_whoever_waited_for_its_answer(tmp_path: Path) -> None:
    launcher = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    command = [*MINIMAL_CLIENT, "start", "socket", "bench", "postgres", str(launcher.pid), str(tmp_path / "log")]
    script = f"import os, time; open('{tmp_path}/server', 'w').write(str(os.getpid())); time.sleep(600)"
    client = subprocess.Popen([*command, sys.executable, "-c", script], cwd=tmp_path)
    try:
        pid = wait_for(lambda: (tmp_path / "server").exists() and (tmp_path / "server").read_text(), "the server")
        client.kill()
        client.wait()
        assert Path(f"/proc/{pid}").exists()
        launcher.kill()
        launcher.wait()
        wait_for(lambda: not Path(f"/proc/{pid}").exists(), "the server to end")
    finally:
        for process in (launcher, client):
            process.kill()
            process.wait()


def test_it_imports_no_more_than_it_needs() -> None:
    call = [MINIMAL_CLIENT[0], "-X", "importtime", *MINIMAL_CLIENT[1:], "ask", "/nowhere", "bench", "ib", ""]
    told = subprocess.run(call, capture_output=True, text=True, check=False).stderr
    loaded = {line.rpartition("|")[2].strip() for line in told.splitlines()}
    assert "_socket" in loaded and not {"socket", "enum", "typing", "dataclasses", "pathlib", "ctypes"} & loaded

"""The launcher of one-shot timings over a real server: what it has done when it says that the task is done."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from engine.builds import client_programs
from engine.host.procfs import processes_in
from engine.postgres.server import Server
from engine.system.account import Account
from tests.support.benchcall import wait_for
from workloads.client.counter_page import Control, Page, State, Word
from workloads.micro.options import Options
from workloads.micro.spec import MicroSpec

ROOT = Path(__file__).parents[3]


def test_a_timed_servers_later_work_is_not_counted(
    server: Callable[[int | str], Server], account: Account, new_folder: Callable[[], Path]
) -> None:
    """It has ended before anybody is told that the task is done, so that nobody has to come in time."""
    timed, page = server(16), Page.create(1)
    hyperfine = client_programs.find(("hyperfine",), (), lambda _: None, new_folder())["hyperfine"]["path"]
    kit = timed.kit()
    spec = MicroSpec(
        page_fd=page.fd,
        dsn=timed.dsn(),
        folder=str(timed.data_folder),
        step="start",
        options=Options(no_sync=True),
        programs={"hyperfine": hyperfine},
        kit=kit,
    )
    launcher = subprocess.Popen(
        [sys.executable, "-m", "workloads.micro.launch"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=(page.fd,),
        cwd=ROOT,
        **account.identity(),
    )
    try:
        assert launcher.stdin is not None
        launcher.stdin.write(msgspec.json.encode(spec))
        launcher.stdin.close()
        wait_for(lambda: page.word(0, Word.STATE) == State.READY, "the task to be prepared")
        page.words[Control.START_NS] = time.monotonic_ns()
        wait_for(lambda: page.word(0, Word.STATE) == State.DONE, "the task to be done")
        assert not processes_in(Path(kit.folder) / "start")
        page.words[Control.RELEASE] = 1
        assert launcher.stdout is not None
        timing = msgspec.json.decode(launcher.stdout.read())["timing"]
        assert launcher.wait(30) == 0
        assert 0 < timing["server_cpu_s"] < 60
        # To end the server is no part of the step.
        assert page.word(0, Word.ENDED_NS) == page.word(0, Word.LAST_ENDED_NS)
    finally:
        launcher.kill()
        launcher.wait()
        page.close()


LAUNCHER = """
import os, sys, time
from pathlib import Path
import msgspec
from workloads.api.base import Kit
from workloads.micro.hyperfine import call
from workloads.micro.task_cluster import Cluster
kit = msgspec.json.decode(sys.stdin.buffer.read(), type=Kit)
with Cluster(kit, Path(kit.folder) / "guarded") as own:
    own.initialise(lambda: None, False, "")
    call(own.start, str(own.data), kit.environment, lambda: None)
    print(own.postmaster(), flush=True)
    time.sleep(600)
"""


def test_a_server_ends_with_its_launcher_whatever_kills_that(
    server: Callable[[int | str], Server], account: Account
) -> None:
    kit = server(16).kit()
    launcher = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, **account.identity()
    )
    try:
        assert launcher.stdin is not None and launcher.stdout is not None
        launcher.stdin.write(msgspec.json.encode(kit))
        launcher.stdin.close()
        pid = int(launcher.stdout.readline())
        assert processes_in(Path(kit.folder) / "guarded")
        launcher.kill()
        launcher.wait()
        wait_for(lambda: not Path(f"/proc/{pid}").exists(), "the server to end")
        wait_for(lambda: not processes_in(Path(kit.folder) / "guarded"), "its processes to end")
    finally:
        launcher.kill()
        launcher.wait()
        shutil.rmtree(Path(kit.folder) / "guarded", ignore_errors=True)

"""Interfaces that start beside a run that is measured: one after another, behind who works, and only while starting."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.support.journal import growing, make_run
from tests.tui.test_terminal_lost import wait_for
from tui import starting

ROOT = Path(__file__).parents[2]
REAL = starting.SESSION


@pytest.fixture(autouse=True)
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What stands for the priority of the session, which is that of all tests."""
    stand_in = tmp_path / "autogroup"
    stand_in.write_text("/autogroup-1 nice 0\n")
    monkeypatch.setattr(starting, "SESSION", stand_in)
    return stand_in


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_a_run_that_is_measured_is_given_way_to_while_the_interface_starts(tmp_path: Path, session: Path) -> None:
    usual, seen = niceness(), []
    with growing(tmp_path) as live:
        shown = starting.gently(live.run, lambda: seen.append(niceness()))
        assert session.read_text() == str(starting.LOWEST), "else each terminal has a share of its own"
        assert seen == [starting.LOWEST] and niceness() == usual, "what is started later is to be as quick as ever"
        others: list[float] = []

        def start() -> None:
            starting.gently(live.run, lambda: others.append(time.monotonic()))()

        threads = [threading.Thread(target=start) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(5 * starting.LOOK_S)
        assert not others, "they wait for the one that has not shown anything yet"
        shown()
        for thread in threads:
            thread.join(10)
        assert len(others) == 3
        wait_for(lambda: session.read_text() == "0", "the session to have what it had")


@pytest.mark.skipif(not REAL.exists(), reason="this kernel does not share the CPUs among sessions")
def test_a_session_gets_back_what_it_had_when_the_interface_is_killed_while_it_starts(tmp_path: Path) -> None:
    script = (
        "import os, signal, subprocess, sys\n"
        "from pathlib import Path\n"
        "from tui import starting\n"
        "def load():\n"
        "    stays = subprocess.Popen(['sleep', '60'], stdout=subprocess.DEVNULL)\n"
        "    print(starting.SESSION.read_text().split()[-1], stays.pid, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "starting.gently(Path(sys.argv[1]), load)\n"
    )
    given = os.environ | {"PYTHONPATH": str(ROOT)}
    with growing(tmp_path) as live:
        command = [sys.executable, "-c", script, str(live.run)]
        done = subprocess.run(command, env=given, stdout=subprocess.PIPE, start_new_session=True, check=False)
    meanwhile, pid = done.stdout.split()
    try:
        if meanwhile == b"0":
            pytest.skip("the tests are in a control group of their own, where sessions count for nothing")
        assert int(meanwhile) == starting.LOWEST
        wait_for(lambda: Path(f"/proc/{int(pid)}/autogroup").read_text().endswith("nice 0\n"), "the session")
    finally:
        os.kill(int(pid), signal.SIGKILL)


def test_nobody_waits_for_ever_or_beside_a_run_that_is_over(tmp_path: Path) -> None:
    usual, seen = niceness(), []
    over = make_run(tmp_path / "over", repeats=1)
    for run in (over, tmp_path / "none", None):
        starting.gently(run, lambda: seen.append(niceness()))()
    assert seen == [usual] * 3
    with growing(tmp_path) as live:
        starting.PATIENCE_S, patience_s = 0.1, starting.PATIENCE_S
        try:
            first, second = (starting.gently(live.run, lambda: seen.append(0)) for _ in range(2))
        finally:
            starting.PATIENCE_S = patience_s
        assert len(seen) == 5
        second()
        first()


@pytest.mark.parametrize("lower", [0, 10, 19])
def test_where_no_cpu_is_idle_it_begins_again_with_more(tmp_path: Path, lower: int) -> None:
    script = (
        "import os, sys, threading, time\n"
        "from pathlib import Path\n"
        "from tui import starting\n"
        "starting.LOADING_S = 0.1\n"
        "again = starting.LOW_FROM in os.environ\n"
        "def load():\n"
        "    print(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()), flush=True)\n"
        "    time.sleep(0 if again else 60)\n"
        "starting.gently(Path(sys.argv[1]), load)()\n"
        "print(starting.LOW_FROM in os.environ)\n"
    )
    own = min(niceness() + lower, starting.LOWEST)
    with growing(tmp_path) as live:
        command = ["nice", "-n", str(lower), sys.executable, "-c", script, str(live.run)]
        given = os.environ | {"PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, env=given, capture_output=True, text=True, start_new_session=True)
    assert done.stdout.split() == [str(starting.LOWEST), str(max(own, starting.LOW)), "False"], done.stderr

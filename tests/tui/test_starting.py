"""Interfaces that start beside a run that is measured: one after another, behind who works, and only while starting."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.support.growing import growing
from tests.support.made_run import make_run
from tui import starting

ROOT = Path(__file__).parents[2]


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_a_run_that_is_measured_is_given_way_to_while_the_interface_starts(tmp_path: Path) -> None:
    usual, seen = niceness(), []
    with growing(tmp_path) as live:
        shown = starting.gently(live.run, lambda: seen.append(niceness()))
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
        done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.stdout.split() == [str(starting.LOWEST), str(max(own, starting.LOW)), "False"], done.stderr

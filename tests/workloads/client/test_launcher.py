"""The launcher where the machine gives it no process, or no descriptor to watch one: a step that failed, in words."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.steprun import ROOT
from workloads.client.counter_page import Page, State, Word
from workloads.client.launcher import report_file, reported

# A launcher of two roles whose server never answers; the second call of a function of `os` fails.
LAUNCHER = """
import errno, os, sys
from workloads.api.base import Role
from workloads.client.launcher import Team, run
from workloads.client.counter_page import Page
real, calls = getattr(os, sys.argv[1]), []
def failing(*arguments):
    calls.append(arguments)
    if len(calls) == 2:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return real(*arguments)
setattr(os, sys.argv[1], failing)
roles = (Role(1, "insert"), Role(1, "delete"))
page = Page(int(sys.argv[2]), 2)
sys.exit(run(Team("x", roles, page, f"host={sys.argv[3]}", lambda *_: None), os.getppid()))
"""


@pytest.mark.parametrize(("call", "what"), [("fork", "started"), ("pidfd_open", "watched")])
def test_a_process_that_cannot_be_had_fails_the_step_in_one_line(call: str, what: str, tmp_path: Path) -> None:
    page = Page.create(2)
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(tmp_path / ".s.PGSQL.5432"))
        mute.listen()
        command = [sys.executable, "-c", LAUNCHER, call, str(page.fd), str(tmp_path)]
        done = subprocess.run(
            command, cwd=ROOT, pass_fds=(page.fd,), capture_output=True, text=True, timeout=60, check=False
        )
    assert (done.returncode, done.stderr) == (1, "")
    assert page.word(1, Word.STATE) == State.FAILED
    text = f"client process cannot be {what}: Resource temporarily unavailable (client 1 delete)"
    assert page.error(1) == text
    page.close()


def test_lines_of_concurrent_writers_are_whole() -> None:
    report_fd, length, lines, processes = report_file(), 3000, 2000, 4
    pids = []
    for number in range(processes):
        if (pid := os.fork()) == 0:
            try:
                for _ in range(lines):
                    os.write(report_fd, b"%d" % number * length + b"\n")
            finally:
                os._exit(0)
        pids.append(pid)
    assert all(os.waitpid(pid, 0)[1] == 0 for pid in pids)
    text = reported(report_fd)
    os.close(report_fd)
    lines_of = [b"%d" % number * length for number in range(processes)]
    assert sorted(text.splitlines()) == sorted(lines_of * lines)

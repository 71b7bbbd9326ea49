"""The place where a process hangs: the kernel's files as text, and real processes in known places."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from probes import snapshot
from probes.snapshot import UserStack
from tests.support.benchcall import wait_for

READ_A_PIPE = "import os; r, w = os.pipe(); print(r, flush=True); os.read(r, 1)"
SLEEP = "import time; print('ready', flush=True); time.sleep(600)"
SPIN = "print('ready', flush=True)\nwhile True: pass"
A_TOOL_THAT_HANGS = "#!/bin/sh\nexec sleep 60\n"


@contextmanager
def child(program: str) -> Iterator[tuple[int, str]]:
    """A process that runs a program, and the line by which it says that it has come to its place."""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.pid, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def await_state(pid: int, letter: str) -> None:
    wait_for(lambda: snapshot.take(pid).state == letter, letter)


def finished(stack: UserStack) -> UserStack:
    wait_for(stack.poll, "the stack")
    return stack


def tool() -> str:
    path = snapshot.find_stack_tool()
    assert path, "eu-stack not found: install elfutils"
    return path


@pytest.mark.slow
def test_a_process_reading_a_pipe_is_found_in_that_read() -> None:
    with child(READ_A_PIPE) as (pid, descriptor):
        await_state(pid, "S")
        shot = snapshot.take(pid)
        pipe = Path(f"/proc/{pid}/fd/{descriptor}").readlink()
    assert shot.syscall == f"read {pipe}"
    assert "pipe" in shot.wchan
    assert not shot.kernel or "pipe" in shot.kernel[0]
    assert (os.geteuid() == 0) == bool(shot.kernel)


@pytest.mark.slow
def test_a_process_that_sleeps_is_found_sleeping() -> None:
    with child(SLEEP) as (pid, _):
        await_state(pid, "S")
        shot = snapshot.take(pid)
        assert snapshot.reason_not_to_attach(shot) == ""
    assert shot.syscall in ("clock_nanosleep", "select", "pselect6")
    assert "sleep" in shot.wchan or "select" in shot.wchan or "poll" in shot.wchan


@pytest.mark.slow
def test_a_process_that_runs_is_in_no_call() -> None:
    with child(SPIN) as (pid, _):
        await_state(pid, "R")
        assert snapshot.take(pid).syscall in ("running", "")


@pytest.mark.slow
def test_a_process_that_has_gone_is_a_note_and_no_error() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    shot = snapshot.take(process.pid)
    assert (shot.state, shot.syscall, shot.kernel) == ("", "", ())
    assert shot.notes == (f"process {process.pid} has exited",)
    assert snapshot.reason_not_to_attach(shot) == "the process has exited"


@pytest.mark.outside
def test_a_sleepers_stack_names_the_call_and_lets_it_sleep() -> None:
    with child(SLEEP) as (pid, _):
        await_state(pid, "S")
        stack = finished(UserStack(pid, tool()))
        assert any("nanosleep" in frame or "select" in frame for frame in stack.frames), (stack.frames, stack.note)
        assert stack.note == ""
        await_state(pid, "S")


@pytest.mark.outside
def test_nobody_waits_for_a_user_stack() -> None:
    with child(SLEEP) as (pid, _):
        stack = UserStack(pid, tool())
        assert not stack.done or stack.frames
        stack.cancel()
        assert stack.done
        await_state(pid, "S")


@pytest.mark.slow
def test_a_stopped_process_is_not_attached_to() -> None:
    with child(SLEEP) as (pid, _):
        os.kill(pid, signal.SIGSTOP)
        await_state(pid, "T")
        assert "stopped" in snapshot.reason_not_to_attach(snapshot.take(pid))


@pytest.mark.slow
def test_a_tool_that_hangs_is_given_up_and_the_process_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "STACK_TIMEOUT_S", 0.2)
    hanging = tmp_path / "eu-stack"
    hanging.write_text(A_TOOL_THAT_HANGS)
    hanging.chmod(0o755)
    with child(SLEEP) as (pid, _):
        await_state(pid, "S")
        stack = UserStack(pid, str(hanging))
        os.kill(pid, signal.SIGSTOP)  # what a killed tracer leaves behind
        finished(stack)
        await_state(pid, "S")
    assert stack.frames == () and "abandoned" in stack.note


@pytest.mark.outside
def test_a_killed_tracer_leaves_its_process_running() -> None:
    """Attaching leaves a signal to stop; see ptrace(2)."""
    with child(SLEEP) as (pid, _):
        tracer = subprocess.Popen([sys.executable, "-c", ATTACH_AND_HOLD, str(pid)], stdout=subprocess.PIPE)
        assert tracer.stdout is not None and tracer.stdout.readline()
        await_state(pid, "t")
        tracer.kill()
        tracer.communicate()
        snapshot.let_go(pid)
        time.sleep(0.2)
        await_state(pid, "S")


ATTACH_AND_HOLD = """
import ctypes, os, sys, time
PTRACE_ATTACH = 16
pid = int(sys.argv[1])
assert ctypes.CDLL(None).ptrace(PTRACE_ATTACH, pid, None, None) == 0
os.waitpid(pid, 0)
print("held", flush=True)
time.sleep(600)
"""


@pytest.mark.slow
def test_a_tool_that_is_not_there_is_a_note() -> None:
    stack = UserStack(os.getpid(), "/nowhere/eu-stack")
    assert stack.done and stack.frames == ()
    assert "cannot be started" in stack.note


def test_the_kernels_stack_is_read_innermost_first() -> None:
    text = (
        "[<0>] do_semtimedop+0x74/0xf0\n[<0>] [ext4] jbd2_log_wait+0xce/0x140 [jbd2]\n[<0>] do_syscall_64+0x71/0x280\n"
    )
    assert snapshot.parse_kernel_stack(text) == ("do_semtimedop", "jbd2_log_wait", "do_syscall_64")
    assert snapshot.parse_kernel_stack("") == ()


@pytest.mark.parametrize(
    ("text", "machine", "expected"),
    [
        ("running\n", "x86_64", ("running", None)),
        ("", "x86_64", ("", None)),
        ("-1 0x7ffc 0x7f7a\n", "x86_64", ("", None)),
        ("232 0x4 0x55 0x1 0xffffffffffffffff 0x0 0x8 0x7ffc 0x7f7a\n", "x86_64", ("epoll_wait", None)),
        ("75 0x1a 0x0 0x0 0x0 0x0 0x0 0x7ffc 0x7f7a\n", "x86_64", ("fdatasync", 26)),
        ("83 0x1a 0x0 0x0 0x0 0x0 0x0 0x7ffc 0x7f7a\n", "aarch64", ("fdatasync", 26)),
        ("999 0x1a 0x0 0x0 0x0 0x0 0x0 0x7ffc 0x7f7a\n", "x86_64", ("syscall 999", None)),
        ("75 0x1a 0x0 0x0 0x0 0x0 0x0 0x7ffc 0x7f7a\n", "riscv64", ("syscall 75", None)),
    ],
)
def test_a_system_call_is_named(text: str, machine: str, expected: tuple[str, int | None]) -> None:
    assert snapshot.parse_syscall(text, machine) == expected


def test_nameless_frames_of_a_stack_show_addresses() -> None:
    text = (
        "PID 12 - process\nTID 12:\n#0  0x00007f23007ac503     epoll_wait@@GLIBC_2.3.2\n"
        "#1  0x000055a71bf0df81 - 1 WaitEventSetWait\n#2  0x000000003b9a600b\n#3  0x000000003b9a600c main\n"
        "eu-stack: dwfl_thread_getframes tid 12: No DWARF information found\n"
    )
    assert snapshot.parse_user_stack(text) == ("epoll_wait", "WaitEventSetWait", "0x000000003b9a600b", "main")

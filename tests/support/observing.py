"""A program that is watched, and the observations: its frames, and the processes that count."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path

from engine.host.procfs import state_of
from probes import processes
from probes.frames import Frame
from probes.session import ProbeSession, Target
from tests.support.programs import ENDBR, PUSH

ROOT = Path(processes.__file__).parents[1]
Helper = tuple[str, ...]  # the command that starts one
S = 1_000_000_000
PATIENCE_S = 60.0
FUNCTIONS = (*PUSH, "-DSTART=", "-DDONE=")
SITES = (*ENDBR, '-DSTART=SITE("postgresql", "query__plan__start");', '-DDONE=SITE("postgresql", "query__plan__done");')


def helper_with(bpftrace: Path, folder: Path) -> Helper:
    """A helper in which this bpftrace is pinned, as an installation writes it (nix/package.nix)."""
    script = folder / "helper"
    script.write_text(
        f"#!{sys.executable} -IB\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        f"from probes.helper import main\nsys.exit(main(sys.argv[1:], {str(bpftrace)!r}))\n"
    )
    script.chmod(0o755)
    return (str(script),)


class Program:
    """A program that waits for a line, works, says done, and waits again."""

    def __init__(self, path: Path, *arguments: object) -> None:
        self.path = path
        self.process = subprocess.Popen(
            [str(path), *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def work(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def target(self) -> Target:
        return Target(self.process.pid, self.path, 16)

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def frames_for(
    running: ProbeSession, seconds: float, until: Callable[[list[Frame]], bool] = lambda _: False
) -> list[Frame]:
    """The frames of so many seconds, or until there are enough."""
    received: list[Frame] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end and not until(received):
        received += running.poll()
        time.sleep(0.02)
    return received


def frames_until(running: ProbeSession, enough: Callable[[list[Frame]], bool]) -> list[Frame]:
    """The frames until there are enough, however long a busy machine takes."""
    received = frames_for(running, PATIENCE_S, enough)
    assert enough(received), (running.messages, received)
    return received


def frames_to_now(running: ProbeSession) -> list[Frame]:
    """The frames up to one that ends after now."""
    now_ns = time.monotonic_ns()
    return frames_until(running, lambda frames: bool(frames) and frames[-1].t_ns > now_ns)


def halt(pids: Collection[int]) -> None:
    """Stop processes, and return once they stand still."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    end = time.monotonic() + PATIENCE_S
    for pid in pids:
        while state_of(pid) != "T":
            assert time.monotonic() < end, f"process {pid} is {state_of(pid)!r}"
            time.sleep(0.01)


def total(frames: list[Frame], field: str, pid: int | None = None) -> int:
    return sum(
        record.get(field, 0) for frame in frames for of, record in frame.records.items() if pid is None or of == pid
    )


def gone(pids: set[int]) -> bool:
    """Whether all of these processes end (or are left for someone to reap)."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if all(state_of(pid) in ("Z", "") for pid in pids):
            return True
        time.sleep(0.05)
    return False


def bpftrace_of(running: ProbeSession) -> tuple[int, int]:
    """The pids of the helper and of the bpftrace that it started."""
    assert running.tracer is not None
    helper_pid = running.tracer.process.pid
    (child,) = processes.descendants(helper_pid, processes.parents()) - {helper_pid}
    return helper_pid, child

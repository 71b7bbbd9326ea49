"""A program that is watched, and what is seen of it: its frames, and the processes that count."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from probes import processes
from probes.frames import Frame
from probes.session import ProbeSession, Target
from tests.support.programs import ENDBR, PUSH

ROOT = Path(processes.__file__).parents[1]
Helper = tuple[str, ...]  # the command that starts one
S = 1_000_000_000
FUNCTIONS = (*PUSH, "-DSTART=", "-DDONE=")
SITES = (
    *ENDBR,
    '-DSTART=SITE("postgresql", "query__plan__start");',
    '-DDONE=SITE("postgresql", "query__plan__done");',
)


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
    found: list[Frame] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end and not until(found):
        found += running.poll()
        time.sleep(0.02)
    return found


def total(found: list[Frame], field: str, pid: int | None = None) -> int:
    return sum(
        record.get(field, 0) for frame in found for of, record in frame.records.items() if pid is None or of == pid
    )


def gone(pids: set[int], timeout_s: float = 10.0) -> bool:
    """Whether all of these processes end (or are left for someone to reap)."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if all(state(pid) in ("Z", "") for pid in pids):
            return True
        time.sleep(0.05)
    return False


def state(pid: int) -> str:
    try:
        data = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return ""
    return data[data.rindex(b")") + 2 :].split()[0].decode()


def bpftrace_of(running: ProbeSession) -> tuple[int, int]:
    """The pids of the helper and of the bpftrace that it started."""
    assert running._tracer is not None
    helper_pid = running._tracer.process.pid
    (child,) = processes.descendants(helper_pid, processes.parents()) - {helper_pid}
    return helper_pid, child

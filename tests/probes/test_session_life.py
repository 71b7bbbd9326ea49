"""A probe's session from before its start to after its end: refusals, files in its folder, and nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.host.procfs import state_of
from probes import helper, processes, session
from probes.errors import ProbeError
from probes.frames import Frame
from probes.session import ProbeSession, ProbeState, Target
from tests.support.benchcall import wait_for
from tests.support.observing import Helper, Program, bpftrace_of, frames_until, total
from tests.support.programs import Compile

pytestmark = pytest.mark.outside


def test_stopping_leaves_nothing_behind(idle: Program, helpers: tuple[Helper, ...]) -> None:
    with ProbeSession(idle.target(), "planner", command=helpers[-1]) as running:
        assert running.wait_baseline(), running.messages
        left = set(bpftrace_of(running))
    assert running.state is ProbeState.ENDED
    assert all(state_of(pid) == "" for pid in left)


def test_unavailable_probes_are_one_line_before_any_start(compile_c: Compile, helpers: tuple[Helper, ...]) -> None:
    with Program(compile_c("server", "#include <stdio.h>\nint main(void) { getchar(); return 0; }"), 0) as program:
        running = ProbeSession(program.target(), "planner", command=helpers[-1])
        with pytest.raises(ProbeError, match="no attach point for 'plan_start'"):
            running.start()
        assert running.stop() == ()


def test_a_refusal_of_the_helper_is_told(idle: Program, helpers: tuple[Helper, ...]) -> None:
    other = Target(os.getpid(), idle.path, 16)
    with ProbeSession(other, "planner", command=helpers[-1]) as running:
        assert not running.wait_baseline()
        assert running.state is ProbeState.FAILED
        assert any("was started from another file" in message for message in running.messages)


def test_a_probe_that_counts_nothing_is_silent(idle: Program, helpers: tuple[Helper, ...]) -> None:
    with ProbeSession(idle.target(), "planner", command=helpers[-1]) as running:
        assert running.wait_baseline() and not running.silent
        frames_until(running, lambda _: running.silent)
        idle.work()
        frames_until(running, lambda seen: total(seen, "n") > 0)
        assert not running.silent


def test_a_folder_keeps_the_script_the_origin_and_the_stream(
    idle: Program, helpers: tuple[Helper, ...], tmp_path: Path
) -> None:
    with ProbeSession(idle.target(), "planner", command=helpers[-1], folder=tmp_path / "probes") as running:
        assert running.wait_baseline(), running.messages
    kept = {path.name for path in (tmp_path / "probes").iterdir()}
    assert kept == {"planner.bt", "planner.json", "planner.raw.jsonl"}
    assert '"attach": "function"' in (tmp_path / "probes" / "planner.json").read_text()


def test_root_who_came_by_sudo_watches_servers_of_others(
    idle: Program, helpers: tuple[Helper, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sudo bench run`: the servers belong to another user again."""
    monkeypatch.setenv("SUDO_UID", "65534")
    with ProbeSession(idle.target(), "runq", command=helpers[-1]) as running:
        assert running.wait_baseline(), running.messages


def test_a_setuid_program_of_a_users_own_is_not_sampled(
    compile_c: Compile, cell_dir: Path, helpers: tuple[Helper, ...]
) -> None:
    """Its addresses would tell the user where its code lies."""
    program = compile_c("spin", "int main(void) { for (;;) { } }")
    plain, raised = (Path(shutil.copy(program, cell_dir / name)) for name in ("plain", "raised"))
    raised.chmod(0o4755)
    shell = Path("/bin/sh").resolve()
    started = f"read line; {plain} & {raised} & echo $!; wait"
    with subprocess.Popen(
        [shell, "-c", started], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        user=65534, group=65534, extra_groups=[],
    ) as parent:  # fmt: skip
        command = ("env", "SUDO_UID=65534", *helpers[-1])
        with ProbeSession(Target(parent.pid, shell, 16), "stacks", command=command) as running:
            assert running.wait_baseline(), running.messages
            assert parent.stdin is not None and parent.stdout is not None
            parent.stdin.write("go\n")
            parent.stdin.flush()
            pid = int(parent.stdout.readline())
            # Until it is executed, it is the shell's own child.
            wait_for(lambda: processes.owner(pid) == 0, "the program's owner (or the folder is mounted nosuid)")
            raised_ns = time.monotonic_ns()

            def later(seen: list[Frame]) -> list[Frame]:
                return [frame for frame in seen if frame.t_ns - frame.dt_ns >= raised_ns]

            def enough(seen: list[Frame]) -> bool:
                return len(later(seen)) >= 4 and total(later(seen), "samples") > 50

            got = later(frames_until(running, enough))
            children = processes.descendants(parent.pid, processes.parents())
        for one in children:
            os.kill(one, signal.SIGKILL)
    assert total(got, "samples", pid) == 0 and pid not in {stack.pid for frame in got for stack in frame.stacks}


def test_a_folder_bounds_the_stream_over_all_attachments(
    idle: Program, helpers: tuple[Helper, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "RAW_CAP_BYTES", 1)
    sizes = []
    for _ in range(2):
        with ProbeSession(idle.target(), "planner", command=helpers[-1], folder=tmp_path) as running:
            assert running.wait_baseline(), running.messages
        sizes.append((tmp_path / "planner.raw.jsonl").stat().st_size)
    assert sizes[0] == sizes[1] > 0


def test_a_wrapper_named_in_the_environment_starts_the_helper(
    idle: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapper = tmp_path / "wrapper"
    used = tmp_path / "used"
    wrapper.write_text(f'#!/bin/sh\n: > {used}\nexec {sys.executable} -I {helper.__file__} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PGBED_PROBE_HELPER", str(wrapper))
    with ProbeSession(idle.target(), "runq") as running:
        assert running.wait_baseline(), running.messages
    assert used.exists()

"""Probes of an engine that is not root: sudo starts the helper, by a rule that permits it and nothing else."""

from __future__ import annotations

import os
import pwd
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.core.model import Build
from engine.journal.reader import JournalReader
from probes import helper
from probes.tracer import direct_command
from tests.support.accounts import temporary_account
from tests.support.benchcall import LONG, SMALL, Bench, wait_for

pytestmark = pytest.mark.outside

ROOT = Path(__file__).parents[3]
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def user() -> Iterator[pwd.struct_passwd]:
    """A user who may run exactly the helper as root. Both user and rule are gone afterwards."""
    if os.geteuid() != 0:
        pytest.fail("these tests need root; run ./check as root", pytrace=False)
    helper.mount_tracefs()
    name = f"pgbed{os.getpid()}"
    rule = Path("/etc/sudoers.d") / name
    command = " ".join(re.sub(r"([\\ ,:=*?\[\]!])", r"\\\1", word) for word in direct_command())
    with temporary_account(name, "--system", "--no-create-home", "--shell", "/usr/sbin/nologin") as account:
        try:
            rule.touch(0o440)
            rule.write_text(f"{name} ALL=(root) NOPASSWD: {command} *\n")
            subprocess.run(["visudo", "--check", "--quiet", "--file", rule], check=True)
            yield account
        finally:
            rule.unlink()


@pytest.fixture
def theirs(bench: Bench, user: pwd.struct_passwd) -> Run:
    """Runs a command as that user; `before` comes before the change of user."""
    os.chown(bench.out.parent, user.pw_uid, user.pw_gid)

    def run(command: list[str], before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        switch = ("setpriv", "--reuid", str(user.pw_uid), "--regid", str(user.pw_gid), "--clear-groups", "--")
        return subprocess.run(
            [*before, *switch, *command],
            cwd=ROOT, env=os.environ | {"HOME": str(bench.out.parent), "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip

    return run


def test_a_user_with_a_rule_for_the_helper_sees_what_root_sees(
    bench: Bench, theirs: Run, build: Callable[[int | str], Build]
) -> None:
    arguments = ("run", "--pg", build(16).label, "--probes", "sched,planner", "--steps", "l.i0,l.i1", "--repeats", "1")
    done = theirs(bench.command(*arguments, *SMALL))
    assert done.returncode == 0, done.stdout + done.stderr
    (attempt,) = bench.attempts()
    assert attempt.state == "finished"
    with JournalReader(bench.run) as reader:
        for step in (step for step in reader.steps(attempt.id) if step.kind in ("load", "write")):
            assert step.totals is not None and step.totals.observers == ("planner", "sched")
            seen = {(frame.probe, frame.role) for frame in reader.probe_frames(step.id)}
            for role, totals in step.totals.roles.items():
                assert {("planner", role), ("sched", role)} <= seen
                assert totals.statements <= step.totals.probes[role]["planner"]["n"] <= totals.statements + 5
        texts = [event.data["text"] for event in reader.events() if event.kind == "probe"]
    assert not [text for text in texts if "s missed" not in text], "a busy machine misses a second"


def test_no_tracer_of_roots_survives_an_engine_that_is_killed(
    bench: Bench, theirs: Run, build: Callable[[int | str], Build]
) -> None:
    arguments = ("run", "--detach", "--pg", build(16).label, "--probes", "sched,planner", "--repeats", "1")
    done = theirs(bench.command(*arguments, *LONG))
    assert done.returncode == 0, done.stdout + done.stderr
    bench.await_step("l.i1")
    engine = bench.engine_pid()
    pids = wait_for(lambda: pids if len(pids := tracers(engine)) == 2 else None, "two bpftraces of root's")
    os.kill(engine, signal.SIGKILL)
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "bpftrace to end")


def tracers(engine: int) -> list[int]:
    """The bpftraces of root's that descend from an engine."""
    parents, pids = dict[int, int](), list[int]()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat, owner = (entry / "stat").read_text(), entry.stat().st_uid
            except OSError:
                continue
            parents[int(entry.name)] = int(stat[stat.rindex(")") + 2 :].split()[1])
            if "(bpftrace)" in stat and owner == 0:
                pids.append(int(entry.name))

    def descends(pid: int) -> bool:
        return pid == engine or (pid in parents and descends(parents[pid]))

    return [pid for pid in pids if descends(pid)]


def test_the_rule_reaches_neither_other_programs_nor_other_users(theirs: Run, build: Callable[..., Build]) -> None:
    for command in ([sys.executable, "-c", "pass"], [sys.executable, "-I", "-B", "/dev/null", "runq"], ["/usr/bin/id"]):
        assert "a password is required" in theirs(["sudo", "-n", "--", *command]).stderr
    wanted = ["runq", "--binary", str(build(16).bin / "postgres"), "--major", "16"]
    done = theirs(["sudo", "-n", "--", *direct_command(), *wanted, "--server", "1"])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "probes: process 1 belongs to user 0; only your own may be watched\n"


def test_the_doctor_looks_through_sudo(bench: Bench, theirs: Run) -> None:
    done = theirs(bench.command("doctor", "--probes"))
    assert "can run: procsched" in done.stdout and "planner" in done.stdout
    assert "probe helper" in done.stdout


def test_a_missing_tracefs_explains_how_to_mount_it(
    bench: Bench, theirs: Run, build: Callable[[int | str], Build]
) -> None:
    without = ("unshare", "--mount", "sh", "-c", f'umount {helper.TRACEFS} && exec "$@"', "sh")
    arguments = ("run", "--pg", build(16).label, "--repeats", "1", *SMALL)
    refused = theirs(bench.command(*arguments, "--probes", "sched"), before=without)
    assert refused.returncode == 2
    assert refused.stderr == f"bench: probe sched is not available: {helper.NO_TRACEFS.removeprefix('probes: ')}\n"
    assert not bench.out.exists()
    assert "mount -t tracefs" in theirs(bench.command("doctor", "--probes"), before=without).stdout

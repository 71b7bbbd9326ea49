"""One run of a user at a time: over network namespaces, and whatever other users do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from engine.core.errors import UserError
from engine.system import host_lock

HOLD = """
import sys
from engine.system.host_lock import exclusive_run
with exclusive_run(concurrent=False):
    print("held", flush=True)
    sys.stdin.read()
"""
UIDS = (64801, 64802)  # nobody's
ROOT = Path(__file__).parents[3]


@contextmanager
def held(*before: str, uid: int | None = None) -> Iterator[str]:
    """A process that holds the lock; what it says. A command comes before it."""
    command = [*before, sys.executable, "-c", HOLD]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True, cwd=ROOT, user=uid
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        yield process.stdout.readline() + ("" if process.poll() is None else process.stdout.read())
        process.stdin.close()


@pytest.fixture
def users() -> Iterator[Sequence[int]]:
    """Users of this test's own, whose lock files go at its end."""
    yield UIDS
    for folder in host_lock.FOLDERS:
        for uid in UIDS:
            (Path(folder.format(uid)) / f"{host_lock.NAME}{uid}").unlink(missing_ok=True)


def refused(uid: int | None = None) -> str:
    """The refusal of a second run of a user; empty without one."""
    script = "\n".join(HOLD.splitlines()[:-1]).replace('print("held", flush=True)', "pass")
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, user=uid, check=False
    )
    return done.stderr.strip().rpartition("\n")[2]


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nobody else's folder for locks: a run may measure on the machine that tests this."""
    monkeypatch.setattr(host_lock, "FOLDERS", (str(tmp_path),))
    return tmp_path


@pytest.mark.slow
def test_a_second_run_is_refused_with_the_name_of_the_first(alone: Path) -> None:
    with host_lock.exclusive_run(concurrent=False):
        assert host_lock.is_held() and not host_lock.others()
        message = rf"measuring on this machine \(process {os.getpid()}\), .* --allow-concurrent"
        with pytest.raises(UserError, match=message), host_lock.exclusive_run(concurrent=False):
            pytest.fail("two have it")
        with host_lock.exclusive_run(concurrent=True):
            pass
        assert host_lock.is_held()
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    assert not host_lock.is_held()
    with host_lock.exclusive_run(concurrent=False):
        child.kill()
        child.wait()
    assert (alone / f"{host_lock.NAME}{os.geteuid()}").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("what", ["link", "fifo", "readable by all", "folder"])
def test_a_lock_file_that_others_could_hold_is_not_used(
    alone: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    (second := alone / "second").mkdir()
    monkeypatch.setattr(host_lock, "FOLDERS", (str(alone), str(second)))
    path = alone / f"{host_lock.NAME}{os.geteuid()}"
    if what == "link":
        path.symlink_to("/etc/passwd")
    elif what == "fifo":
        os.mkfifo(path, 0o600)
    elif what == "folder":
        path.mkdir()
    else:
        path.touch()
        path.chmod(0o644)
    with host_lock.exclusive_run(concurrent=False), pytest.raises(UserError), host_lock.exclusive_run(concurrent=False):
        pytest.fail("two have it")


@pytest.mark.outside
def test_another_network_namespace_is_the_same_machine(users: Sequence[int]) -> None:
    as_user = (sys.executable, "-c", f"import os, sys; os.setuid({users[0]}); os.execv(sys.argv[1], sys.argv[1:])")
    with held("unshare", "-n", *as_user) as said:
        assert said == "held\n" and "another run is measuring" in refused(users[0])
    assert refused(users[0]) == ""
    assert shutil.which("ip"), "this test needs iproute2"
    with ExitStack() as stack:
        subprocess.run(["ip", "netns", "add", "pgbed-lock"], check=True)
        stack.callback(subprocess.run, ["ip", "netns", "del", "pgbed-lock"], check=True)
        with held(uid=users[0]) as said, held("ip", "netns", "exec", "pgbed-lock", *as_user) as second:
            assert said == "held\n" and "another run is measuring" in second + refused(users[0])


@pytest.mark.outside
def test_another_users_run_is_told_of_and_keeps_nobody_off(users: Sequence[int]) -> None:
    one, other = users
    with held(uid=one) as said:
        assert said == "held\n" and refused(other) == "", "nobody obeys another"
        assert any(f"a run of user {one} is also measuring" in line for line in host_lock.others())
        for folder in host_lock.FOLDERS:  # and it lays files in the other's way, which it holds
            place = Path(folder.format(other))
            if place.is_dir() and place.stat().st_mode & 0o002:
                (place / f"{host_lock.NAME}{other}").unlink(missing_ok=True)
                (place / f"{host_lock.NAME}{other}").touch()
                os.chown(place / f"{host_lock.NAME}{other}", one, one)
        assert refused(other) == ""
    assert not any(f"user {one} " in line for line in host_lock.others())

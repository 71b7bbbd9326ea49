"""`./bench` of somebody else's clone, as another user of the machine: builds made there, or by that user.

Needs root, Nix, git, useradd and setpriv.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.accounts import temporary_account
from tests.support.benchcall import wait_for

pytestmark = pytest.mark.outside

USER = "pgbedsecond"
ROOT = Path(__file__).parents[2]
SOCKET = Path("/nix/var/nix/daemon-socket/socket")


@pytest.fixture
def home(new_folder: Callable[[], Path]) -> Iterator[Path]:
    """A user of this machine, by the home that it has."""
    folder = new_folder() / "home"
    with temporary_account(USER, "--create-home", "--home-dir", folder):
        yield folder


def as_other(home: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    prefix = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "env", "-i", f"HOME={home}")
    command = [*prefix, f"PATH={os.environ['PATH']}", *map(str, words)]
    return subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture
def clone(new_folder: Callable[[], Path]) -> Path:
    """A clone of root's, in which bench was called once."""
    folder = new_folder() / "clone"
    git = ("git", "-c", f"safe.directory={ROOT}")
    subprocess.run([*git, "clone", "--quiet", "--no-hardlinks", str(ROOT), str(folder)], check=True)
    done = subprocess.run([folder / "bench", "--version"], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_another_user_runs_what_was_built_in_the_clone(home: Path, clone: Path) -> None:
    done = as_other(home, clone / "bench", "--version")
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("bench ")
    plan = ("--pg", "14.10-prebuilt,16.3-prebuilt", "--dry-run")
    assert subprocess.run([clone / "bench", *plan], cwd=home, capture_output=True, check=False).returncode == 0
    done = as_other(home, clone / "bench", *plan)
    assert (done.returncode, done.stderr) == (0, "")  # servers that are in the store, too


def test_another_user_builds_in_a_cache_of_its_own(home: Path, clone: Path) -> None:
    assert not SOCKET.exists(), "Nix's daemon is here already: all users may write to the store"
    with (clone / "README.md").open("a") as readme:
        readme.write("\n")  # another state, which nobody has built
    done = as_other(home, clone / "bench", "--version")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert f"is not built, and {USER} may not write to the Nix store: let root call {clone}/bench once" in done.stderr
    done = as_other(home, *clone.glob(".bench/*/bench/bin/bench"), "--pg", "12.99-prebuilt", "--dry-run")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1

    with subprocess.Popen(["nix-daemon"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as daemon:
        try:
            wait_for(listens, "Nix's daemon")
            done = as_other(home, clone / "bench", "--version")
        finally:
            daemon.send_signal(signal.SIGTERM)
            daemon.wait()
            shutil.rmtree(SOCKET.parent, ignore_errors=True)
    assert done.returncode == 0 and done.stdout.startswith("bench "), done.stderr
    assert list(home.glob(".cache/pgbed/bench/*/bench"))
    assert not [path for path in clone.rglob("*") if path.owner() == USER]


def test_packages_have_the_names_of_the_distribution() -> None:
    def named(distribution: str, package: str) -> str:
        call = [
            "bash",
            "-c",
            '. "$1"; package_of "$2" "$3"',
            "bash",
            str(ROOT / "nix/packages.sh"),
            distribution,
            package,
        ]
        return subprocess.run(call, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()

    assert named("debian", "linux-perf") == "linux-perf" and named("ubuntu", "tmux") == "tmux"
    assert named("linuxmint debian", "linux-perf") == "linux-perf"
    for distribution in ("ubuntu", "ubuntu debian", "linuxmint ubuntu debian"):
        assert named(distribution, "linux-perf") == f"linux-tools-{os.uname().release}"


def listens() -> bool:
    with socket.socket(socket.AF_UNIX) as client, suppress(OSError):
        client.connect(str(SOCKET))
        return True
    return False

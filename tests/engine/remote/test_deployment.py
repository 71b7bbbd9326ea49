"""What clients on another host need comes there, whoever installed packages and whatever ssh's options hold."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from engine.remote.deployment import nix_copy
from tests.support.benchcall import wait_for

SSHD = """
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/key
AuthorizedKeysFile {folder}/key.pub
StrictModes no
UsePAM no
PermitRootLogin yes
PidFile none
"""
# One process, which ends with ssh: one that outlives it holds its stderr open.
PROXY = """
import os, select, socket
there = socket.create_connection(("127.0.0.1", {port}))
ways = {{0: there.fileno(), there.fileno(): 1}}
part = b"begun"
while part:
    source = select.select([*ways], [], [])[0][0]
    part = os.read(source, 65536)
    os.write(ways[source], part)
"""
ARCHIVE = """
import sys
from pathlib import Path
from engine.remote.deployment import archive
with open(sys.argv[1], "wb") as file:
    archive(file, ["workloads.insert.launch"], {})
"""


def test_packages_of_a_system_that_lists_no_files_go_there_too(tmp_path: Path) -> None:
    site, there = tmp_path / "site", tmp_path / "there"
    site.mkdir()
    there.mkdir()
    for path in Path(psycopg.__file__).parents[1].iterdir():
        if path.suffix != ".dist-info":
            (site / path.name).symlink_to(path)
    root = Path(__file__).parents[3]
    command = [sys.executable, "-S", "-c", ARCHIVE, str(tmp_path / "tar")]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": f"{root}:{site}"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    subprocess.run(["tar", "-xf", tmp_path / "tar", "-C", there], check=True)
    asked = "import msgspec, numpy, psycopg.pq as pq; print(pq.__impl__, pq.__file__, numpy.arange(3).sum())"
    told = subprocess.run(
        ["sh", str(there / "python"), "-c", asked], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert told.stdout.split() == [psycopg.pq.__impl__, f"{there}/code/psycopg/pq/__init__.py", "3"], told.stderr


@pytest.fixture
def options(tmp_path: Path) -> Iterator[tuple[str, ...]]:
    """ssh's options for a server of ssh on this machine, which is reached by a program with arguments."""
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    assert sshd is not None, "this test needs openssh-server"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = tmp_path / "sshd_config"
    config.write_text(SSHD.format(port=port, folder=tmp_path))
    Path("/run/sshd").mkdir(exist_ok=True)
    proxy = tmp_path / "a way.py"
    proxy.write_text(PROXY.format(port=port))
    with subprocess.Popen([sshd, "-D", "-f", config], stderr=subprocess.DEVNULL) as server:
        yield (
            "BatchMode=yes", "User=root", f"IdentityFile={tmp_path}/key", "StrictHostKeyChecking=no",
            "UserKnownHostsFile=/dev/null", f'ProxyCommand={sys.executable} "{proxy}" %h %p',
        )  # fmt: skip
        server.terminate()


@pytest.mark.outside
def test_options_with_blanks_reach_nix_and_what_fails_is_said(options: tuple[str, ...]) -> None:
    path = [str(Path("/nix/store") / Path(psycopg.__file__).parts[3])]
    words = [
        "ssh",
        "-F",
        "none",
        "-o",
        "ConnectTimeout=10",
        *(word for option in options for word in ("-o", option)),
        "nowhere.invalid",
        "true",
    ]
    wait_for(lambda: subprocess.run(words, capture_output=True, check=False).returncode == 0, "sshd to answer")
    assert nix_copy("nowhere.invalid", path, options) == ""
    assert nix_copy("nowhere.invalid", path, ("BatchMode=yes", "ProxyCommand=false or true"))

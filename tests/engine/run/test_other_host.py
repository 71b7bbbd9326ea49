"""Clients on another host by real ssh: a network namespace, and a clock of its own where the kernel can, is that host.

Needs root, `sshd` and `ip`. Held up are all bytes on the way where the kernel can do that (netem). Where it cannot, a
small relay of the test's own holds back what ssh sends and gets: then PostgreSQL's connections are as fast as before.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from engine.journal.manifest import read_manifest
from engine.journal.reader import JournalReader
from engine.remote.deployment import nix_copy
from tests.support.benchcall import LONG, Bench, nothing_left, wait_for
from tests.support.otherhost import BROUGHT_S

pytestmark = [pytest.mark.outside, pytest.mark.first]

NAME, HERE, THERE, PORT = "pgbed-there", "10.231.77.1", "10.231.77.2", 2022
AHEAD_S = 5000
DELAY_MS = 4
SMALL = ("--rows", "2000", "--rows-written", "1000", "--query-seconds", "1", "--set", "shared_buffers=32MB")
CONFIG = """
Port {port}
ListenAddress {address}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
PidFile none
SetEnv TMPDIR={folder}/there
"""
# It ends with ssh: one that outlives it holds its stderr open.
RELAY = """
import os, socket, sys
from tests.support.otherhost import _carry
from threading import Thread
there = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def carry(source, target):
    _carry(source, target, float(sys.argv[3]) / 1000)
    os._exit(0)
Thread(target=carry, args=(0, there.fileno()), daemon=True).start()
carry(there.fileno(), 1)
"""


def call(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)


def needed(*words: str) -> None:
    done = call(*words)
    if done.returncode:
        pytest.fail(f"{' '.join(words)}: {done.stderr.strip()}", pytrace=False)


@dataclass(frozen=True)
class Host:
    """The other host, and how to get there."""

    folder: Path
    options: tuple[str, ...]
    own_clock: bool
    held_by: str
    way: str  # an option of ssh that holds blanks: a program with arguments that leads there

    @property
    def words(self) -> tuple[str, ...]:
        options = (word for option in self.options for word in ("--ssh-option", option))
        return ("--client-host", f"root@{THERE}", *options)

    def left(self) -> list[str]:
        """Its temporary files, and its processes but for sshd."""
        pids = call("ip", "netns", "pids", NAME).stdout.split()
        names = [Path(f"/proc/{pid}/comm").read_text().strip() for pid in pids if Path(f"/proc/{pid}").exists()]
        return [
            *map(str, (self.folder / "there").iterdir()),
            *(name for name in names if name not in ("sshd", "unshare")),
        ]


def remove() -> None:
    """The other host, if there is one: tests that were killed leave theirs."""
    for pid in call("ip", "netns", "pids", NAME).stdout.split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    call("ip", "link", "del", "pgbed-here")
    call("ip", "netns", "del", NAME)


@pytest.fixture(scope="module")
def host(new_folder: Callable[[], Path]) -> Iterator[Host]:
    """A namespace with an sshd, and a veth pair to it."""
    sshd = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin")
    if sshd is None or shutil.which("ip") is None:
        pytest.fail("no sshd or no ip on PATH: these tests need openssh-server and iproute2", pytrace=False)
    folder = new_folder()
    (folder / "there").mkdir()
    with ExitStack() as stack:
        remove()
        stack.callback(remove)
        needed("ip", "netns", "add", NAME)
        needed("ip", "link", "add", "pgbed-here", "type", "veth", "peer", "name", "pgbed-there", "netns", NAME)
        needed("ip", "addr", "add", f"{HERE}/30", "dev", "pgbed-here")
        needed("ip", "link", "set", "pgbed-here", "up")
        within = ("ip", "netns", "exec", NAME)
        needed(*within, "ip", "addr", "add", f"{THERE}/30", "dev", "pgbed-there")
        needed(*within, "ip", "link", "set", "pgbed-there", "up")
        for key in ("key", "host_key"):
            needed("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key))
        (folder / "sshd_config").write_text(CONFIG.format(port=PORT, address=THERE, folder=folder))
        Path("/run/sshd").mkdir(exist_ok=True)
        own_clock = call("unshare", "-T", "--monotonic", "1", "true").returncode == 0
        clock = ("unshare", "-T", "--monotonic", f"{AHEAD_S}", "--fork", "--kill-child") if own_clock else ()
        server = subprocess.Popen(
            [*within, *clock, sshd, "-D", "-e", "-f", str(folder / "sshd_config")], stderr=subprocess.PIPE, text=True
        )
        stack.callback(server.wait)
        stack.callback(server.kill)
        options = [
            f"Port={PORT}", f"IdentityFile={folder}/key", "IdentitiesOnly=yes", "StrictHostKeyChecking=no",
            "UserKnownHostsFile=/dev/null",
        ]  # fmt: skip
        ssh = ("ssh", "-F", "none", "-o", "BatchMode=yes", *(w for option in options for w in ("-o", option)))
        wait_for(lambda: call(*ssh, f"root@{THERE}", "true").returncode == 0, "sshd to answer")
        held = [call(*words, "netem", "delay", f"{DELAY_MS}ms").returncode == 0 for words in (
            ("tc", "qdisc", "add", "dev", "pgbed-here", "root"),
            (*within, "tc", "qdisc", "add", "dev", "pgbed-there", "root"),
        )] if shutil.which("tc") else [False]  # fmt: skip
        relay = folder / "a way.py"
        relay.write_text(f"import sys\nsys.path.insert(0, {str(Path(__file__).parents[3])!r})\n{RELAY}")
        way = f'ProxyCommand={sys.executable} "{relay}" %h %p {DELAY_MS}'
        if not all(held):
            options.append(way)
        yield Host(folder, tuple(options), own_clock, "netem" if all(held) else "a relay of the test's own", way)


@pytest.fixture(scope="module")
def finished(host: Host, new_folder: Callable[[], Path], build: Callable[[int | str], object]) -> Bench:
    bench = Bench(new_folder() / "runs")
    label = build(16).label  # type: ignore[attr-defined]
    done = bench("run", "--pg", label, "--repeats", "1", "--steps", "l.i0,qr100", *SMALL, *host.words)
    assert done.returncode == 0, done.stderr + done.stdout
    wait_for(lambda: not host.left(), "all to go on the other host")
    return bench


def test_the_server_listens_for_the_host_that_ssh_reaches(finished: Bench) -> None:
    route = read_manifest(finished.run).route
    assert (route.address, route.client) == (HERE, THERE)
    (attempt,) = finished.attempts()
    assert attempt.origin["server"]["harness_settings"]["listen_addresses"] == HERE
    assert attempt.origin["server"]["network"]["client"] == THERE


def test_times_are_told_by_the_clock_here_and_bytes_are_held_up(finished: Bench, host: Host) -> None:
    print(f"held up by {host.held_by}; {'a clock of its own' if host.own_clock else 'the same clock'}")
    (attempt,) = finished.attempts()
    with JournalReader(finished.run) as reader:
        for step in reader.steps(attempt.id):
            totals = step.totals
            assert totals is not None and 0 < totals.seconds < 60
            link = totals.report["client_clock"]
            assert abs(link["ahead_ms"] - 1000 * AHEAD_S * host.own_clock) <= link["error_ms"] + 0.01
            assert DELAY_MS <= link["error_ms"] < 20 and abs(link["drift_ppm"]) < 20_000
            for role in totals.roles.values():
                assert role.client_cpu_ns > 0 and role.statements > 0
                if host.held_by == "netem":
                    assert role.service_ns > role.statements * 2 * DELAY_MS * 1_000_000
            for row in reader.roles(step.id):
                ages = [second.in_flight_ns for second in reader.role_seconds(row.id)]
                assert all(0 <= age < 60_000_000_000 for age in ages)


def test_whatever_ends_nothing_is_left_there(host: Host, bench: Bench, label: str) -> None:
    bench.detached("--pg", label, "--repeats", "2", *LONG, *host.words)
    bench.await_step("l.i1", patience_s=BROUGHT_S)
    pids = Path(f"/proc/{bench.engine_pid()}/task/{bench.engine_pid()}/children").read_text().split()
    (ssh,) = [int(pid) for pid in pids if Path(f"/proc/{pid}/comm").read_text().strip() == "ssh"]
    (socket,) = bench.run.glob("cells/*/socket")
    folder = socket.resolve()
    assert (folder / "password").exists()
    os.kill(ssh, signal.SIGKILL)
    bench.await_step("l.i1", cell=2, patience_s=BROUGHT_S)
    first = bench.attempts()[0]
    assert not folder.exists()
    assert (first.state, first.reason) == ("failed", f"the clients' host root@{THERE}: the connection has ended")
    os.kill(bench.engine_pid(), signal.SIGKILL)
    nothing_left(bench)
    wait_for(lambda: not host.left(), "all to go on the other host")


def test_a_host_that_ssh_does_not_reach_is_refused(host: Host, bench: Bench, label: str) -> None:
    for words, message in (
        (("--client-host", f"root@{THERE}", "--ssh-option", "Port=1"), "Connection refused"),
        (("--client-host", "no-such-host.invalid"), "Could not resolve hostname no-such-host.invalid"),
    ):
        done = bench("run", "--pg", label, *SMALL, *words)
        assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert not list(bench.out.glob("*/manifest.json"))


def test_options_with_blanks_reach_nix_and_what_fails_is_said(host: Host) -> None:
    path = [str(Path("/nix/store") / Path(psycopg.__file__).parts[3])]
    options = ("BatchMode=yes", *host.options, host.way)  # ssh takes the first of two
    assert nix_copy(f"root@{THERE}", path, options) == ""
    assert nix_copy(f"root@{THERE}", path, ("BatchMode=yes", "ProxyCommand=false or true"))

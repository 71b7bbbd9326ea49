"""Blocks on two remote builders that are accounts of this machine, each with a store of its own, reached by real ssh.

Needs root, sshd and Nix. The builders' sandboxes are Nix's, in user namespaces.
"""

from __future__ import annotations

import json
import os
import platform
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.journal.manifest import read_manifest
from tests.support.accounts import kill_all, processes_of, temporary_account
from tests.support.benchcall import wait_for
from tests.support.realnix import wrapper_environment

pytestmark = [pytest.mark.outside, pytest.mark.first, pytest.mark.timeout(900)]

ACCOUNTS = ("pgbedfarm1", "pgbedfarm2")
FEATURE = "benchmark"
PLAN = """
builds = ["12.11-prebuilt", "16.3-prebuilt"]
interleave = "cells"
repeats = 1
steps = ["l.i0", "l.i1"]
rows = 2000
rows_written = {rows}
overrides = ["shared_buffers=32MB"]
allow_concurrent = true
probes = ["sched"]
"""
SSHD = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
StrictModes no
UsePAM no
PasswordAuthentication no
PidFile none
MaxStartups 100
"""
NIX_CONF = """
experimental-features = nix-command flakes
store = local?root={home}/store
substituters =
system-features = benchmark
sandbox = true
sandbox-paths = /bin /usr /lib /lib64 /etc/pgbed-machine={home}/machine
"""


def needed(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        pytest.fail(f"{' '.join(words)}: {done.stderr.strip()}", pytrace=False)


def seed(account: str, store: Path) -> None:
    """Gives an account's store what bench is made of, by links where it can: 400 MB are not sent by ssh.

    Nix itself copies servers, plans and the inputs of blocks.
    """
    bench = Path(os.environ["PGBED_BENCH"]).resolve().parents[1]
    closure = call("nix-store", "--query", "--requisites", str(bench)).split()
    (store / "nix" / "store").mkdir(parents=True)
    needed("chown", "-R", account, str(store.parent))
    linked = ["cp", "--archive", "--link", *closure, str(store / "nix" / "store")]
    if subprocess.run(linked, capture_output=True, check=False).returncode:
        call("cp", "--archive", "--no-clobber", *closure, str(store / "nix" / "store"))
    known = call("nix-store", "--dump-db", *closure)
    words = ["setpriv", f"--reuid={account}", f"--regid={account}", "--clear-groups", "env", "-i",
           f"HOME={store.parent}", f"PATH={os.environ['PATH']}", "nix-store", "--load-db"]  # fmt: skip
    done = subprocess.run(words, input=known, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def call(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def measures(account: str) -> bool:
    """Whether a server of PostgreSQL runs there."""
    for pid in processes_of(pwd.getpwnam(account).pw_uid):
        with suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text().strip() == "postgres":
                return True
    return False


@dataclass(frozen=True)
class Farm:
    """Calls of `bench farm`: with these builders, in this environment."""

    folder: Path
    spec: str
    environment: dict[str, str]

    def command(self, *words: str, builders: str | None = None) -> list[str]:
        spec = self.spec if builders is None else builders
        return [os.environ["PGBED_BENCH"], "farm", *words, "--to", str(self.folder / "out"), "--builders", spec]

    def __call__(self, *words: str, builders: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words, builders=builders), env=self.environment, capture_output=True, text=True, timeout=600,
            check=False,
        )  # fmt: skip

    def plan(self, text: str, name: str = "plan.toml") -> str:
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def spec_of(self, features: str) -> str:
        line = "ssh-ng://{}@127.0.0.1 {}-linux - 1 1 {}"
        return " ; ".join(line.format(account, platform.machine(), features) for account in ACCOUNTS)


@pytest.fixture(scope="module")
def farm(new_folder: Callable[[], Path]) -> Iterator[Farm]:
    wrapper_environment()
    sshd = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin")
    if sshd is None or os.geteuid():
        pytest.fail("these tests need root and openssh-server", pytrace=False)
    folder = new_folder()
    for key in ("key", "host_key"):
        needed("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "sshd_config").write_text(SSHD.format(port=port, folder=folder))
    Path("/run/sshd").mkdir(exist_ok=True)
    with ExitStack() as stack:
        for account in ACCOUNTS:
            given = temporary_account(account, "--create-home", "--shell", "/bin/bash", "--password", "*")
            home = Path(stack.enter_context(given).pw_dir)
            (home / "machine").write_text(account)
            (home / ".config" / "nix").mkdir(parents=True)
            (home / ".config" / "nix" / "nix.conf").write_text(NIX_CONF.format(home=home))
            seed(account, home / "store")
        server = subprocess.Popen([sshd, "-D", "-e", "-f", str(folder / "sshd_config")], stderr=subprocess.DEVNULL)
        stack.callback(server.wait)
        stack.callback(server.kill)
        options = ("-F", "none", "-p", str(port), "-i", f"{folder}/key", "-o", "BatchMode=yes", "-o",
                   "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null")  # fmt: skip
        environment = os.environ | {"NIX_SSHOPTS": " ".join(options), "XDG_CACHE_HOME": str(folder / "cache")}
        for name in [name for name in environment if name.startswith(("PGBED_", "PYTHON")) and name != "PGBED_BENCH"]:
            del environment[name]
        local_farm = Farm(folder, "", environment)
        yield Farm(folder, local_farm.spec_of(FEATURE), environment)


@pytest.mark.nightly("four blocks are whole runs")
def test_four_blocks_survive_the_death_of_one_builder(farm: Farm) -> None:
    plan = farm.plan(PLAN.format(rows=3000))
    with subprocess.Popen(
        farm.command(plan, "--blocks", "4", "--again", "--json"), env=farm.environment, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            wait_for(lambda: measures(ACCOUNTS[0]) or process.poll() is not None, "a block to be measured", 300)
            kill_all(pwd.getpwnam(ACCOUNTS[0]).pw_uid)
            out, errors = process.communicate(timeout=600)
        finally:
            process.kill()
    assert process.returncode == 0, errors
    blocks = json.loads(out)["blocks"]
    assert [(block["number"], block["state"]) for block in blocks] == [(n, "measured") for n in range(1, 5)]
    assert max(block["tries"] for block in blocks) == 2 and "; tried again" in errors, errors
    assert "probes are left out" in errors
    runs = [Path(block["link"]) for block in blocks]
    hosts = [read_manifest(run).environment["host"] for run in runs]
    assert {host["machine"] for host in hosts if host} == set(ACCOUNTS) and all(h and h["sandbox"] for h in hosts)
    for block, host in zip(blocks, hosts, strict=True):
        assert host and host["machine"] in block["builder"]

    done = subprocess.run(
        [farm.environment["PGBED_BENCH"], "compare", *map(str, runs), "--json"], env=farm.environment,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    comparison = json.loads(done.stdout)
    rates = [ratio for ratio in comparison["ratios"] if ratio["metric"] == "rate_per_s"]
    pooled = [ratio["machines"]["ratios"] for ratio in rates if ratio["machines"]]
    assert all(set(ratios) == set(ACCOUNTS) for ratios in pooled)
    assert pooled == [] or any("runs of 2 machines are pooled" in text for text in comparison["findings"])
    # Of a machine that was busy with other things a pair is left out, and perhaps a builder has no other.
    assert pooled or all("left out: pair" in " ".join(ratio["left_out"]) for ratio in rates)
    assert any("sandbox of a Nix build, without root and probes" in text for text in comparison["findings"])


def test_a_measured_block_is_cached_and_ctrl_c_leaves_nothing(farm: Farm) -> None:
    label = f"mine-{secrets.token_hex(4)}"  # a new one each time, as the store keeps blocks
    plan = farm.plan(PLAN.format(rows=1001).replace('"16.3-prebuilt"', f'"{label}=16.3-prebuilt"'))
    first, second = farm(plan, "--blocks", "1"), farm(plan, "--blocks", "1")
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    assert "block 1: cached" in second.stdout and "cached" not in first.stdout
    link = (farm.folder / "out" / "result-1").readlink()
    (theirs,) = (build for build in read_manifest(link).builds if build.label == label)
    assert theirs.provenance == "prebuilt" and theirs.digest in theirs.prefix, "its record came with it"
    wait_for(lambda: not any(map(measures, ACCOUNTS)), "the first block's servers to be gone")
    command = farm.command(farm.plan(PLAN.format(rows=50_000_000), "long.toml"), "--blocks", "2")
    with subprocess.Popen(command, env=farm.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            wait_for(lambda: any(map(measures, ACCOUNTS)) or process.poll() is not None, "a block to be measured", 300)
            process.send_signal(signal.SIGINT)
            assert process.wait(120) == 130
        finally:
            process.kill()
    wait_for(lambda: not any(map(measures, ACCOUNTS)), "the builders to end their servers")
    assert (farm.folder / "out" / "result-1").readlink() == link
    assert not [path for path in (farm.folder / "cache" / "pgbed").iterdir() if path.is_dir()]


@pytest.mark.parametrize(
    ("change", "builders", "message"),
    [
        ("", "big-parallel", f"ssh-ng://{ACCOUNTS[1]}@127.0.0.1' do not offer the feature {FEATURE}; a "),
        ("", "", "there are no builders: name them in /etc/nix/machines, or with --builders"),
        ('builds = ["mine=/opt/pg", "16.3-prebuilt"]', FEATURE, "there is no folder /opt/pg"),
        ('configs = ["my.conf"]', FEATURE, "my.conf is of this machine, not on"),
        ("minutes = 5", FEATURE, "minutes: builders have no time for the whole run: each block has the same size"),
    ],
)  # fmt: skip
def test_what_no_builder_can_do_is_one_line_and_nothing_is_left(
    farm: Farm, change: str, builders: str, message: str
) -> None:
    kept = [line for line in PLAN.format(rows=1001).splitlines() if line.split(" ")[0] != change.split(" ")[0]]
    plan = farm.plan("\n".join([*kept, change]).replace("repeats = 1", "" if "minutes" in change else "repeats = 1"))
    out = farm.folder / "refused"
    done = farm(plan, "--again", "--to", str(out), builders=farm.spec_of(builders) if builders else "")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and message in done.stderr, done.stderr
    assert not list((farm.folder / "out").glob("refused*"))
    assert not [path for path in (farm.folder / "cache" / "pgbed").glob("*") if path.is_dir()]

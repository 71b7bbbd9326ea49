"""The probe helper and bpftrace as an ordinary user who has a few capabilities, as nix/module.nix gives them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

import psycopg
import pytest

from engine.account import Account
from engine.server import Server
from probes import helper, requirements
from probes.frames import Frame
from probes.origin import bpftrace_version, parse_version
from probes.session import ProbeSession, State, Target
from probes.tracer import direct_command

pytestmark = pytest.mark.outside

FOR_SCHEDULER = ("bpf", "perfmon", "dac_read_search", "dac_override")
FOR_SERVER = (*FOR_SCHEDULER, "sys_admin")
STATEMENTS = 20
PATIENCE_S = 30.0

Servers = Callable[[int | str], Server]


def given(account: Account, capabilities: Iterable[str]) -> tuple[str, ...]:
    """The helper, started with the servers' user's rights and these capabilities, which bpftrace inherits."""
    only = "-all" + "".join(f",+{name}" for name in capabilities)
    sets = [word for option in ("--inh-caps", "--ambient-caps", "--bounding-set") for word in (option, only)]
    user = ("--reuid", str(account.uid), "--regid", str(account.gid), "--clear-groups", "--no-new-privs")
    return ("setpriv", *user, *sets, "--", *direct_command())


def takes_capabilities(program: Path) -> bool:
    return (parse_version(bpftrace_version(program)) or (0, 0)) >= requirements.CAPABILITIES


@pytest.fixture(scope="module")
def modern(bpftraces: tuple[Path, ...]) -> Path:
    """A bpftrace that asks for capabilities."""
    for program in bpftraces:
        if takes_capabilities(program):
            return program
    pytest.skip("no bpftrace here takes capabilities (0.25 and later do; PGBED_BPFTRACES can name one)")


def session(server: Server, probe: str, program: Path, command: tuple[str, ...]) -> ProbeSession:
    target = Target(server.pid, server.build.bin / "postgres", server.build.major)
    return ProbeSession(target, probe, bpftrace=program, command=command)


@pytest.mark.parametrize(
    ("probe", "field", "capabilities"),
    [
        ("sched", "oncpu_us", FOR_SCHEDULER),
        ("stacks", "samples", FOR_SCHEDULER),
        ("planner", "n", FOR_SERVER),
        ("endpoint", "plan_n", FOR_SERVER),
    ],
)
def test_capabilities_do_instead_of_root(
    probe: str, field: str, capabilities: tuple[str, ...], server: Servers, account: Account, modern: Path
) -> None:
    running = server(16)
    with session(running, probe, modern, given(account, capabilities)) as probed:
        assert probed.wait_baseline(), probed.messages
        probed.poll()
        with psycopg.connect(running.dsn(), autocommit=True, prepare_threshold=None) as connection:
            pid = connection.info.backend_pid
            for _ in range(STATEMENTS):
                connection.execute("select count(*) from generate_series(1, 30000)")
            now_ns, until_s, frames = time.monotonic_ns(), time.monotonic() + PATIENCE_S, list[Frame]()
            while time.monotonic() < until_s and not (frames and frames[-1].t_ns > now_ns):
                frames += probed.poll()
                time.sleep(0.02)
    counted = sum(frame.records[pid].get(field, 0) for frame in frames if pid in frame.records)
    assert counted == STATEMENTS if field in ("n", "plan_n") else counted > 0, probed.messages


@pytest.mark.parametrize("without", FOR_SCHEDULER)
def test_each_of_the_capabilities_is_needed(without: str, server: Servers, account: Account, modern: Path) -> None:
    capabilities = [name for name in FOR_SCHEDULER if name != without]
    with session(server(16), "sched", modern, given(account, capabilities)) as probed:
        assert not probed.wait_baseline()
    assert probed.state is State.FAILED
    assert f"Missing CAP_{without.upper()} capability" in " ".join(probed.messages)


def test_newer_kernels_want_more_for_functions_of_a_server(server: Servers, account: Account, modern: Path) -> None:
    with session(server(16), "planner", modern, given(account, FOR_SCHEDULER)) as probed:
        attached = probed.wait_baseline()
    if helper.kernel_version() >= (6, 16):
        assert not attached and probed.state is State.FAILED
        assert "Unable to attach probe" in " ".join(probed.messages)


def test_an_older_bpftrace_takes_none(server: Servers, account: Account, bpftraces: tuple[Path, ...]) -> None:
    older = [program for program in bpftraces if not takes_capabilities(program)]
    if not older:
        pytest.skip("every bpftrace here takes capabilities")
    with session(server(16), "sched", older[0], given(account, FOR_SERVER)) as probed:
        assert not probed.wait_baseline()
    assert "root" in " ".join(probed.messages)


def test_the_processes_of_others_stay_theirs(account: Account, server: Servers, bpftraces: tuple[Path, ...]) -> None:
    """A capability reaches further than its user, but the helper does not."""
    running = server(16)
    command = given(account, FOR_SERVER)
    target = Target(running.pid, running.build.bin / "postgres", running.build.major, clients=(1,))
    with ProbeSession(target, "sched", bpftrace=bpftraces[0], command=command) as probed:
        assert not probed.wait_baseline()
    assert "process 1 belongs to user 0; only your own may be watched" in " ".join(probed.messages)

"""The probe helper and bpftrace as an ordinary user who has a few capabilities, as nix/module.nix gives them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import psycopg
import pytest

from engine.postgres.server import Server
from engine.system.account import Account
from probes import helper, requirements
from probes.bpftrace import parse_version
from probes.frames import Frame
from probes.session import ProbeSession, ProbeState, Target
from probes.tracer import bpftrace_version
from tests.support.observing import Helper, frames_for, total

pytestmark = pytest.mark.outside

FOR_SCHEDULER = ("bpf", "perfmon", "dac_read_search", "dac_override")
FOR_SERVER = (*FOR_SCHEDULER, "sys_admin")
STATEMENTS = 20
PATIENCE_S = 60.0

Servers = Callable[[int | str], Server]


def given(account: Account, capabilities: Iterable[str], command: Helper) -> Helper:
    """The helper, started with the servers' user's rights and these capabilities, which bpftrace inherits."""
    only = "-all" + "".join(f",+{name}" for name in capabilities)
    sets = [word for option in ("--inh-caps", "--ambient-caps", "--bounding-set") for word in (option, only)]
    user = ("--reuid", str(account.uid), "--regid", str(account.gid), "--clear-groups", "--no-new-privs")
    return ("setpriv", *user, *sets, "--", *command)


def takes_capabilities(command: Helper) -> bool:
    return (parse_version(bpftrace_version(command)) or (0, 0)) >= requirements.CAPABILITIES


@pytest.fixture(scope="module")
def modern(helpers: tuple[Helper, ...]) -> Helper:
    """A helper with a bpftrace that asks for capabilities."""
    for command in helpers:
        if takes_capabilities(command):
            return command
    pytest.skip("no bpftrace here takes capabilities (0.25 and later do; PGBED_BPFTRACES can name one)")


def session(server: Server, probe: str, command: Helper) -> ProbeSession:
    target = Target(server.pid, server.build.bin / "postgres", server.build.major)
    return ProbeSession(target, probe, command=command)


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
    probe: str, field: str, capabilities: tuple[str, ...], server: Servers, account: Account, modern: Helper
) -> None:
    running = server(16)
    with session(running, probe, given(account, capabilities, modern)) as probed:
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
def test_each_of_the_capabilities_is_needed(without: str, server: Servers, account: Account, modern: Helper) -> None:
    capabilities = [name for name in FOR_SCHEDULER if name != without]
    with session(server(16), "sched", given(account, capabilities, modern)) as probed:
        assert not probed.wait_baseline()
    assert probed.state is ProbeState.FAILED
    assert f"Missing CAP_{without.upper()} capability" in " ".join(probed.messages)


def test_newer_kernels_want_more_for_functions_of_a_server(server: Servers, account: Account, modern: Helper) -> None:
    """Since 6.16, and older ones with the same fix: there it either counts or says why not."""
    running = server(16)
    with session(running, "planner", given(account, FOR_SCHEDULER, modern)) as probed:
        if not probed.wait_baseline():
            assert probed.state is ProbeState.FAILED
            assert "Unable to attach probe" in " ".join(probed.messages)
            return
        assert helper.kernel_version() < (6, 16), "attached without CAP_SYS_ADMIN"
        with psycopg.connect(running.dsn(), autocommit=True, prepare_threshold=None) as connection:
            connection.execute("select 1")
            pid = connection.info.backend_pid
        frames = frames_for(probed, PATIENCE_S, lambda seen: total(seen, "n", pid) > 0)
    assert total(frames, "n", pid) == 1, probed.messages


def test_an_older_bpftrace_takes_none(server: Servers, account: Account, helpers: tuple[Helper, ...]) -> None:
    older = [command for command in helpers if not takes_capabilities(command)]
    if not older:
        pytest.skip("every bpftrace here takes capabilities")
    with session(server(16), "sched", given(account, FOR_SERVER, older[0])) as probed:
        assert not probed.wait_baseline()
    assert "root" in " ".join(probed.messages)


def test_the_processes_of_others_stay_theirs(account: Account, server: Servers, helpers: tuple[Helper, ...]) -> None:
    """A capability reaches further than its user, but the helper does not."""
    running = server(16)
    command = given(account, FOR_SERVER, helpers[0])
    target = Target(running.pid, running.build.bin / "postgres", running.build.major, clients=(1,))
    with ProbeSession(target, "sched", command=command) as probed:
        assert not probed.wait_baseline()
    assert "process 1 belongs to user 0; only your own may be watched" in " ".join(probed.messages)

"""Runs with tunables of the scheduler: refusals, and the state afterwards."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from engine.core.errors import UserError
from engine.features.scheduler import FEATURE, Options, Part, parsed, settings
from engine.host import scheduler
from engine.plan import external_servers
from engine.plan.request import request_of
from tests.support.benchcall import LONG, Bench, nothing_left, wait_for
from tests.support.journal import plan_run

AUTOGROUP = Path("/proc/sys/kernel/sched_autogroup_enabled")


def test_each_kernel_has_its_own_tunables_in_its_own_place() -> None:
    old, cfs, eevdf = (scheduler.known(release) for release in ("5.10.262", "6.1.0-50-amd64", "6.12.95"))
    assert str(old["latency_ns"]) == "/proc/sys/kernel/sched_latency_ns"
    assert str(cfs["latency_ns"]) == f"{scheduler.DEBUG}latency_ns"
    assert "base_slice_ns" in eevdf and "base_slice_ns" not in cfs and "latency_ns" not in eevdf
    assert {str(kernel[scheduler.AUTOGROUP]) for kernel in (old, cfs, eevdf)} == {str(AUTOGROUP)}


def test_a_tunable_that_a_kernel_lacks_is_refused(tmp_path: Path) -> None:
    tunables = parsed(["base_slice_ns=03000000"])
    assert [value for _, value in settings(tunables, "6.12.95").values()] == ["3000000"]
    with pytest.raises(UserError, match=r"Linux 6\.1\.170 does not have it; it has latency_ns, min_granularity_ns"):
        settings(tunables, "6.1.170")
    for texts, message in (
        (["base_slice=1"], "base_slice: unknown; known: base_slice_ns"),
        (["base_slice_ns"], "give NAME=NUMBER"),
        (["base_slice_ns=-1"], "give NAME=NUMBER"),
        (["base_slice_ns=\u0661"], "give NAME=NUMBER"),
        (["nr_migrate=1", "nr_migrate=2"], "nr_migrate: given twice"),
        (["ext=scx_rusty"], "ext: unknown; known: base_slice_ns"),
    ):
        with pytest.raises(UserError, match=message):
            FEATURE.check(request_of({}), Options(sched=tuple(texts)))
    with pytest.raises(UserError, match="--sched cannot be used with a=…, an external server: nothing is set"):
        external_servers.check(request_of({"builds": ["a=postgresql://u@h/d"], "sched": ["nr_migrate=1"]}))
    with pytest.raises(UserError, match="--sched base: unknown"):
        FEATURE.check_resumed(Part((("base", "1"),)), plan_run(tmp_path / "run"), Path(), print)


@pytest.mark.outside  # root sets them
def test_tunables_are_restored_when_the_engine_is_killed(bench: Bench, label: str) -> None:
    before = AUTOGROUP.read_text().strip()
    other = "0" if before == "1" else "1"
    bench.detached("--pg", label, "--sched", f"autogroup_enabled={other}", *LONG)
    bench.await_step("l.i1")
    assert AUTOGROUP.read_text().strip() == other
    os.kill(bench.engine_pid(), signal.SIGKILL)
    wait_for(lambda: AUTOGROUP.read_text().strip() == before, "the tunable to be as it was")
    nothing_left(bench)

"""Settings of the device and of memory in a config: read strictly, set while a cell runs, and restored."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from engine.core.errors import UserError
from engine.features.device import FEATURE
from engine.features.feature import Nothing
from engine.host.kernel_settings import changed, restore_left
from engine.host.machine_counters import device_of
from engine.plan.prepare import prepare
from engine.plan.request import request_of
from engine.postgres import configs
from tests.support.benchcall import SECONDS, Bench, children_of, nothing_left, wait_for
from tests.support.journal import plan_run


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("scheduler = 1", "has 'scheduler'; known: read_ahead_kb"),
        ("read_ahead_kb = -1", "whole number from 0 to 65536"),
        ("read_ahead_kb = '9; reboot'", "whole number from 0 to 65536"),
        ("read_ahead_kb = true", "whole number"),
        ("read_ahead_kb = 65537", "whole number"),
        ("transparent_hugepage = 'sometimes'", "transparent_hugepage must be one of always, madvise, never"),
        ("nr_hugepages = 'many'", "nr_hugepages must be a whole number from 0 to"),
        ("", "must be a table"),
    ],
)
def test_nothing_else_can_be_asked_for(table: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(f"[device]\n{table}\n" if table else "device = [128]\n")
    with pytest.raises(UserError, match=f"mine.toml.*{message}"):
        configs.resolve([str(file)])


def test_a_config_has_its_device_settings_and_hands_them_down(tmp_path: Path) -> None:
    (spec,) = configs.resolve(["readahead-0"])
    assert spec.device == (("read_ahead_kb", "0"),)
    (tmp_path / "mine.toml").write_text('extends = "readahead-128"\n[settings]\nwork_mem = "8MB"\n')
    (mine,) = configs.resolve([str(tmp_path / "mine.toml")])
    assert mine.device == (("read_ahead_kb", "128"),) and configs.Setting("work_mem", "8MB") in mine.settings


def test_a_device_that_cannot_be_set_is_refused(label: str) -> None:
    plan = {"builds": [label], "configs": ["readahead-0"]}
    assert device_of(Path("/dev/shm")) is None
    with pytest.raises(UserError, match="is not on a block device"):
        prepare(request_of(plan), Path("/dev/shm/pgbed-none"), print)
    with pytest.raises(UserError, match="config 'readahead-0' sets devices or memory of this machine: not with"):
        FEATURE.check(request_of(plan | {"kernels": ["6.12"]}), Nothing())


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("scheduler", "none", "config 'auto' of the run: .* has 'scheduler'; known: read_ahead_kb"),
        ("read_ahead_kb", "-1", "config 'auto' of the run: read_ahead_kb must be a whole number"),
        ("read_ahead_kb", "8", "is not on a block device"),
    ],
)
def test_a_run_is_not_resumed_with_others(name: str, value: str, message: str, tmp_path: Path) -> None:
    manifest = plan_run(tmp_path / "run")
    configs_of = {key: replace(config, device=((name, value),)) for key, config in manifest.configs.items()}
    with pytest.raises(UserError, match=message):
        FEATURE.check_resumed(Nothing(), replace(manifest, configs=configs_of), Path("/dev/shm/run"), print)


@pytest.mark.outside
def test_the_next_start_restores_the_device_of_a_killed_run(disk: Path, label: str) -> None:
    place, bench = Path(f"/sys/block/{device_of(disk)}/queue/read_ahead_kb"), Bench(disk / "runs")
    before, plan = place.read_text(), ("--pg", label, *SECONDS, "--repeats", "1")
    bench.detached(*plan, "--config", "readahead-4096")
    bench.await_step("l.i1")
    assert place.read_text() == "4096\n" and restore_left() == [], "which is in use"
    with pytest.raises(UserError, match="another run has changed /sys/block/loop"), changed({"x": (place, "32")}):
        pass
    (attempt,) = bench.attempts()
    assert attempt.origin["environment"]["storage"]["read_ahead_kb"] is None
    (reaper,) = children_of(engine := bench.engine_pid(), b"engine.run.reaper")
    for pid in (reaper, engine):
        os.kill(pid, signal.SIGKILL)
    # It may be a run of another test that starts next, and says so.
    wait_for(lambda: not bench("run", *plan, "--dry-run").returncode and place.read_text() == before, "the next start")
    assert restore_left() == []
    assert bench("resume").returncode == 0 and place.read_text() == before
    nothing_left(bench)

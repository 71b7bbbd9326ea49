"""Settings of the device and of memory in a config: read strictly, set while a cell runs, and restored."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from engine.core.errors import UserError
from engine.features.device import FEATURE
from engine.features.feature import Nothing
from engine.host.machine_counters import device_of
from engine.plan.prepare import prepare
from engine.plan.request import request_of
from engine.postgres import configs
from tests.support.benchcall import SECONDS, Bench, nothing_left, wait_for


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


@pytest.mark.outside
def test_a_run_sets_the_device_until_its_engine_ends(disk: Path, label: str) -> None:
    place, bench = Path(f"/sys/block/{device_of(disk)}/queue/read_ahead_kb"), Bench(disk / "runs")
    before = place.read_text()
    bench.detached("--pg", label, "--config", "readahead-4096", *SECONDS)
    bench.await_step("l.i1")
    assert place.read_text() == "4096\n"
    (attempt,) = bench.attempts()
    assert attempt.origin["environment"]["storage"]["read_ahead_kb"] is None
    os.kill(bench.engine_pid(), signal.SIGKILL)
    wait_for(lambda: place.read_text() == before, "the device to be as it was")
    nothing_left(bench)

"""Changes since a run began are noticed before it is continued."""

from __future__ import annotations

import dataclasses
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.core.errors import UserError
from engine.core.model import INTERIM_ANALYSES, Config, Manifest, config_key
from engine.journal.manifest import read_manifest
from engine.journal.writer import JournalWriter
from engine.plan import resumption
from engine.plan.request import request_of
from tests.support.journal import make_run

TIMED: dict[str, Any] = {"minutes": 60.0, "interim_analyses": INTERIM_ANALYSES}


def planned(tmp_path: Path, config: Path) -> Manifest:
    """A run under a settings file."""
    manifest = read_manifest(make_run(tmp_path / "run", builds=("16.3",), unfinished=range(3)))
    recorded = Config(config.stem, (("work_mem", "4MB"), ("shared_buffers", "1GB")), str(config))
    return dataclasses.replace(
        manifest,
        configs={config_key(recorded.name, "16.3"): recorded},
        request={"builds": ["16.3"], "configs": [str(config)], "overrides": ["shared_buffers=1GB"]},
    )


def test_a_settings_file_that_has_changed_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "mine.conf"
    file.write_text("work_mem = 4MB\nshared_buffers = 2GB\n")  # the latter is overridden
    manifest = planned(tmp_path, file)
    request = request_of(manifest.request)
    resumption.check_configs(manifest, request)
    file.write_text("work_mem = 8MB\n")
    with pytest.raises(UserError, match="config 'mine' has changed since the run began: work_mem is 8MB, was 4MB"):
        resumption.check_configs(manifest, request)
    file.unlink()
    resumption.check_configs(manifest, request)


def test_a_recorded_setting_that_is_no_longer_taken_is_named(tmp_path: Path) -> None:
    manifest = planned(tmp_path, tmp_path / "mine.conf")
    archiving = Config("mine", (("archive_command", "touch /tmp/x"),), "mine.conf")
    with pytest.raises(UserError, match=r"config 'mine' of the run sets archive_command: .* start a new run"):
        resumption.check_configs(
            dataclasses.replace(manifest, configs={config_key("mine", "16.3"): archiving}), request_of(manifest.request)
        )


def test_a_changed_settings_file_below_a_value_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "mine.conf"
    file.write_text("work_mem = 4MB\njit = on\n")
    manifest = planned(tmp_path, file)
    for others in ([], ["auto"]):
        name = "mine jit=off" if others else "jit=off"
        config = Config(name, (("work_mem", "4MB"), ("jit", "off")), str(file))
        plan = dataclasses.replace(manifest, configs={config_key(name, "16.3"): config})
        file.write_text("work_mem = 4MB\njit = on\n")
        entries = manifest.request | {"configs": [str(file), *others], "set_each": "jit=off,on"}
        resumption.check_configs(plan, request_of(entries))
        file.write_text("work_mem = 8MB\n")
        with pytest.raises(UserError, match="config 'mine' has changed since the run began: work_mem is 8MB, was 4MB"):
            resumption.check_configs(plan, request_of(entries))


def test_an_interval_that_is_longer_in_slices_is_no_change(tmp_path: Path) -> None:
    file = tmp_path / "mine.conf"
    file.write_text("checkpoint_timeout = 5min\n")
    manifest = planned(tmp_path, file)
    longer = Config("mine", (("checkpoint_timeout", "600000ms"),), str(file))
    in_cells = dataclasses.replace(manifest, configs={config_key("mine", "16.3"): longer})
    slices = dataclasses.replace(manifest.design, interleave="slices")
    resumption.check_configs(dataclasses.replace(in_cells, design=slices), request_of(manifest.request))
    with pytest.raises(UserError, match="checkpoint_timeout is 5min, was 600000ms"):
        resumption.check_configs(in_cells, request_of(manifest.request))


def test_a_link_in_the_runs_folder_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", unfinished=range(6))
    (run / "cells").mkdir(exist_ok=True)
    (run / "engine.log").symlink_to("/etc/passwd")
    with pytest.raises(UserError, match=r"engine\.log: not a regular file"):
        resumption.check(run, read_manifest(run), print)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        ("'soon'", "journal.db: step qr100: plan: seconds is invalid: Expected `float`, got `str`"),
        ("-1", "journal.db: step qr100: plan: seconds is invalid: Expected `float` >= 0.0"),
        ("9999", "journal.db: table step: plan: qr100 of 9999 s: it is of 60 to 480 s"),
    ],
)
def test_a_damaged_length_that_time_is_divided_by_is_refused(tmp_path: Path, seconds: str, said: str) -> None:
    run = make_run(tmp_path / "run", repeats=4, unfinished=range(2, 8), blocks=4, **TIMED)
    with closing(sqlite3.connect(run / "journal.db")) as journal, journal:
        damaged = f"UPDATE step SET plan = json_set(plan, '$.seconds', {seconds}) WHERE name = 'qr100'"
        assert journal.execute(damaged).rowcount == 2
    with pytest.raises(UserError, match=re.escape(said)):
        resumption.check(run, read_manifest(run), print)


def test_a_damaged_division_of_the_time_left_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", repeats=4, unfinished=range(2, 8), blocks=4, **TIMED)
    with JournalWriter.open(run) as journal:
        data = {"repeats": 4, "text": "", "pairs": 1, "pair_s": 60.0, "steps": {"qr100": {"seconds": 9999}}}
        journal.add_event("plan", 1, data, ended_ns=1)
        journal.commit()
    with pytest.raises(UserError, match=r"journal\.db: table event: plan: qr100 of 9999 s: it is of 60 to 480 s"):
        resumption.check(run, read_manifest(run), print)


def test_a_finished_run_starts_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", builds=("nowhere",), repeats=1)
    assert resumption.check(run, read_manifest(run), print) == {}

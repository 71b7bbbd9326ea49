"""The plans of pgbench workloads: what follows from options and scripts before anything runs."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from pathlib import Path

import pytest

from workloads.pgbench import command, workload
from workloads.pgbench.options import Options, ScriptOptions
from workloads.pgbench.workload import SCRIPTS, SELECT, TPCB


def test_of_scripts_of_ones_own_each_transaction_is_in_the_log(tmp_path: Path) -> None:
    script = tmp_path / "slow.sql"
    script.write_text("SELECT pg_sleep(30);\n")
    assert SCRIPTS.plan(ScriptOptions(script=(str(script),))).record["log_every"] == 1
    assert SCRIPTS.plan(ScriptOptions(script=(str(script),), log_every=4)).record["log_every"] == 4
    assert [workload.plan(Options()).record["log_every"] for workload in (SELECT, TPCB)] == [16, 1]


@pytest.mark.parametrize("options", [Options(rate=100.0, log_every=2), Options(max_tries=2, log_every=16)])
def test_what_only_a_full_log_tells_excludes_another(options: Options) -> None:
    with pytest.raises(ValueError, match=r"--(rate|max-tries) and --log-every \d+ exclude each other"):
        SELECT.plan(options)
    SELECT.plan(Options(rate=100.0, log_every=1))


def test_another_pgbench_of_the_same_version_is_another_workload() -> None:
    record = SELECT.plan(Options()).record
    found = [
        SELECT.identity({**record, "programs": {"pgbench": {"path": "/x", "version": "18.6", "digest": digest * 64}}})
        for digest in "aab"
    ]
    assert found[0] == found[1] != found[2]
    assert found[0]["pgbench"] == "18.6 aaaaaaaaaaaa" and SELECT.identity(record)["pgbench"] == ""


def test_pgbench_never_ends_a_step_before_its_length() -> None:
    longest = Options(seconds=1_000_000)
    argv = command.run("/pgbench", 18, longest, [], "/tmp", clients=1, dsn="", seed=1)
    (time,) = (int(word.partition("=")[2]) for word in argv if word.startswith("--time="))
    assert longest.seconds is not None and time > 2 * longest.seconds


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("#!/bin/sh\nexec sleep 600\n", "cannot read the scripts: it did not end within"),
        ("no program\n", "cannot read the scripts: Exec format error"),
        ('#!/bin/sh\necho "pgbench: error: group $(id -g)" >&2\n', "group GID$"),
    ],
)
def test_a_pgbench_that_cannot_read_scripts_is_refused_in_one_line(
    new_folder: Callable[[], Path], monkeypatch: pytest.MonkeyPatch, text: str, told: str
) -> None:
    program = new_folder() / "pgbench"
    program.write_text(text)
    program.chmod(0o755)
    monkeypatch.setattr(workload, "CHECK_S", 2)
    record = SELECT.plan(Options()).record
    programs = {"pgbench": {"path": str(program), "version": "pgbench (PostgreSQL) 18.6", "digest": ""}}
    group = pwd.getpwnam("nobody").pw_gid if os.geteuid() == 0 else os.getegid()
    with pytest.raises(ValueError, match=told.replace("GID", str(group))):
        SELECT.check({**record, "programs": programs})
    for lacking in ({}, {"pgbench": {"path": str(program)}}):
        with pytest.raises(ValueError, match="names no pgbench"):
            SELECT.check({**record, "programs": lacking})

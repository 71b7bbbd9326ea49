"""The plans of pgbench workloads: what follows from options and scripts before anything runs."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from workloads.api.base import Place
from workloads.pgbench import command, workload
from workloads.pgbench.options import Options, ScriptOptions
from workloads.pgbench.spec import PgbenchSpec, WarmUp
from workloads.pgbench.workload import SCRIPTS, SELECT


def test_the_logging_rate_is_requested_or_from_the_warm_up(tmp_path: Path) -> None:
    script = tmp_path / "slow.sql"
    script.write_text("SELECT pg_sleep(30);\n")
    script_plan = SCRIPTS.plan(ScriptOptions(script=(str(script),))).record
    given = SCRIPTS.plan(ScriptOptions(script=(str(script),), log_every=4)).record
    select, limited = (SELECT.plan(options).record for options in (Options(jobs=2), Options(rate=900.0)))
    fast, slow = WarmUp.of(31_000, 1), WarmUp.of(200, 1)
    assert (fast.log_every, slow.log_every, WarmUp.of(1e7, 1).log_every) == (64, 1, 1024)
    for record, warm_up, every, by_line in (
        (script_plan, None, 1, True),
        (script_plan, slow, 1, True),
        (script_plan, fast, 64, False),
        (script_plan, WarmUp.of(31_000, 4), 64, True),
        (given, fast, 4, False),
        (select, None, 1, False),
        (select, slow, 1, True),
        (select, fast, 64, False),
        (limited, fast, 1, False),
    ):
        chosen = SELECT if record in (select, limited) else SCRIPTS
        complete = {**record, "programs": {"pgbench": {"path": "/x", "version": "pgbench (PostgreSQL) 18.6"}}}
        place = Place("", 0, 1, 1, "", "", msgspec.to_builtins(warm_up) if warm_up else {})
        steps = sorted(chosen.steps(complete)[1:], key=lambda step: step.record["clients"])
        few, warm = (
            msgspec.json.decode(chosen.launch(complete, step, place).stdin, type=PgbenchSpec)
            for step in (steps[0], steps[len(steps) // 2])
        )
        assert (warm.log_every, warm.log_by_line) == (every, by_line)
        assert few.log_by_line or warm_up is not fast or every < 64  # one client does little of several clients' work
    assert SELECT.identity(select)["log_every"] == "auto" and SELECT.identity(limited)["log_every"] == 1
    with pytest.raises(msgspec.ValidationError):  # a journal of another's
        msgspec.convert({"log_every": 0}, WarmUp)


@pytest.mark.parametrize("options", [Options(rate=100.0, log_every=2), Options(max_tries=2, log_every=16)])
def test_what_only_a_full_log_tells_excludes_another(options: Options) -> None:
    with pytest.raises(ValueError, match=r"--(rate|max-tries) and -O log_every=\d+ exclude each other"):
        SELECT.plan(options)
    SELECT.plan(Options(rate=100.0, log_every=1))


def test_what_goes_on_while_a_server_is_stopped_is_not_sliced(tmp_path: Path) -> None:
    for option in ({"rate": 9.0}, {"connect": True}, {"transactions": 5}):
        (name,) = option
        with pytest.raises(ValueError, match=f"--{name.replace('_', '-')}: "):
            SELECT.sliced_options(option)
        record = SELECT.plan(Options(**option)).record
        assert not any(step.sliced for step in SELECT.steps(record))
    script = tmp_path / "rests.sql"
    for text in ("SELECT 1;\n\\sleep 1 ms\n", "SELECT PG_Sleep (0.1);\n", "SELECT pg_sleep_for('1 s');\n"):
        script.write_text(text)
        with pytest.raises(ValueError, match=r"rests\.sql: it sleeps"):
            SCRIPTS.sliced_options({"script": (str(script),)})
        assert not SCRIPTS.steps(SCRIPTS.plan(ScriptOptions(script=(str(script),))).record)[1].sliced
    script.write_text("SELECT 'pg_sleep';\n")
    assert SCRIPTS.sliced_options({"script": (str(script),), "seconds": 4})["seconds"] == 4
    initial, *steps = SCRIPTS.steps(SCRIPTS.plan(ScriptOptions(script=(str(script),))).record)
    assert not initial.sliced and all(step.sliced == "time" and not step.gated for step in steps)
    assert (
        SCRIPTS.sliced_options({"script": ("none.sql",), "seconds": None})["seconds"] == 4
    )  # that is refused by the plan


def test_another_pgbench_of_the_same_version_is_another_workload() -> None:
    record = SELECT.plan(Options()).record
    identities = [
        SELECT.identity({**record, "programs": {"pgbench": {"path": "/x", "version": "18.6", "digest": digest * 64}}})
        for digest in "aab"
    ]
    assert identities[0] == identities[1] != identities[2]
    assert identities[0]["pgbench"] == "18.6 aaaaaaaaaaaa" and SELECT.identity(record)["pgbench"] == ""


def test_a_setup_is_one_more_script_of_a_plan(tmp_path: Path) -> None:
    load, make = tmp_path / "load.sql", tmp_path / "make.sql"
    load.write_text("SELECT 1 FROM made;\n")
    plans = []
    for text in ("CREATE TABLE made ();\n", "CREATE TABLE made (id int);\n"):
        make.write_text(text)
        plans.append(SCRIPTS.plan(ScriptOptions(script=(str(load),), setup=str(make))))
        assert dict(SCRIPTS.written(plans[-1].record)) == {"load.sql": load.read_text(), "make.sql": text}
    one, other = (SCRIPTS.identity(plan.record)["scripts"] for plan in plans)
    assert one != other and "may write files next to the data" in plans[0].own_server
    assert SCRIPTS.expected_bytes(plans[0].record, 1 << 40) > 1 << 40
    for wrong, message in (("none.sql", "none.sql: no such file"), (str(load), "a script has this name")):
        with pytest.raises(ValueError, match=message):
            SCRIPTS.plan(ScriptOptions(script=(str(load),), setup=wrong))
    for text, message in (
        ("\\shell true\n", r"make\.sql:1: \\shell and \\setshell run commands"),
        (
            "\\startpipeline\nSELECT 1;\n\\endpipeline\n",
            r"make\.sql:1: a pipeline needs --protocol extended or prepared",
        ),
    ):
        make.write_text(text)
        for options in (ScriptOptions(script=(str(make),)), ScriptOptions(script=(str(load),), setup=str(make))):
            with pytest.raises(ValueError, match=message):
                SCRIPTS.plan(options)


def test_pgbench_never_ends_a_step_before_its_length() -> None:
    longest = Options(seconds=1_000_000)
    argv = command.run("/pgbench", 18, longest, [], "/tmp", clients=1, dsn="", seed=1)
    (time,) = (int(word.partition("=")[2]) for word in argv if word.startswith("--time="))
    assert longest.seconds is not None and time > 2 * longest.seconds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#!/bin/sh\nexec sleep 600\n", "cannot read the scripts: it did not end within"),
        ("no program\n", "cannot read the scripts: Exec format error"),
        ('#!/bin/sh\necho "pgbench: error: group $(id -g)" >&2\n', "group GID$"),
    ],
)
def test_a_pgbench_that_cannot_read_scripts_is_refused(
    new_folder: Callable[[], Path], monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    program = new_folder() / "pgbench"
    program.write_text(text)
    program.chmod(0o755)
    monkeypatch.setattr(workload, "CHECK_S", 2)
    record = SELECT.plan(Options()).record
    programs = {"pgbench": {"path": str(program), "version": "pgbench (PostgreSQL) 18.6", "digest": ""}}
    group = pwd.getpwnam("nobody").pw_gid if os.geteuid() == 0 else os.getegid()
    with pytest.raises(ValueError, match=message.replace("GID", str(group))):
        SELECT.check({**record, "programs": programs})
    for lacking in ({}, {"pgbench": {"path": str(program)}}):
        with pytest.raises(ValueError, match="names no pgbench"):
            SELECT.check({**record, "programs": lacking})
    other = {"pgbench": {"path": "/nowhere/true", "version": "true (GNU coreutils) 9.1"}}
    with pytest.raises(ValueError, match=r"'true .GNU coreutils. 9.1' is not the version of a pgbench"):
        SELECT.check({**record, "programs": other})

"""pgbench as a workload: see `workloads.api.base`.

Its record has `options`, the differences from the defaults; `scripts`; `log_every`, the transactions per line of the
log (0: as the first cell's warm-up finds); and `programs`, the pgbench that was found. With `-O setup=FILE` it has
that script as `setup`.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from workloads.api.base import Launch, Listing, Maintenance, Place, Plan, PrimaryMetric, Record, Role, Step, Workload
from workloads.api.options import given, options_of
from workloads.pgbench import command
from workloads.pgbench.options import SHAPE, Options, ScriptOptions, check_scale, common, preset_parts, recorded
from workloads.pgbench.scripts import (
    BUILTIN,
    Script,
    checked,
    commands,
    error_of,
    read_all,
    read_setup,
    sleeps,
    waits,
    writes,
)
from workloads.pgbench.spec import PgbenchSpec, WarmUp
from workloads.pgbench.sweep import INIT, plan_steps, seed_of
from workloads.presets import shipped_scripts

PROGRAM = "pgbench"
ROLE = "pgbench"
INIT_STEPS = "dtgGvpf"
TABLES = ("pgbench_branches", "pgbench_tellers", "pgbench_accounts")
SLOW_LINES = 250.0  # a second: a block of the log then takes half of one to fill
ROUGH_TPS = 5000.0  # of a client, on a small machine
ROUGH_SCALE_S = 0.4  # to make 100,000 accounts
SCALE_BYTES = 16 << 20
CLUSTER_BYTES = 64 << 20
WRITTEN = 1.5  # growth of tables whose rows are replaced
SETUP_CONNECTIONS = 2  # of pgbench before its clients connect, and of its observer
CHECK_S = 10
SLICED_SECONDS = 4  # of each server, by default
# Options whose steps cannot be interleaved, with the reason: pgbench is stopped during another server's slice.
NOT_SLICED = {
    "rate": "transactions become due while their server is stopped",
    "connect": "server processes that live for one transaction cannot be stopped in time",
    "transactions": "its steps have no fixed length",
}
SET_UP = "-O setup=FILE may write files next to the data"
COLD = {
    "evict": "--between evict takes its relations out of shared buffers",
    "cold": "--between cold takes its files out of the page cache",
}
PIPELINE = re.compile(r"\\(start|end|sync)pipeline\b")


class Pgbench:
    """See `workloads.api.base.Workload`. One for each built-in script, and one for the user's own scripts."""

    def __init__(self, name: str, description: str, short: str, options: type[Options]) -> None:
        self.name = name
        self.description = description
        self.options = options
        self._short = short  # prefix of the steps' names

    def plan(self, options: Options) -> Plan:
        script_options = options if isinstance(options, ScriptOptions) else None
        scripts = read_all(script_options.script) if script_options else (Script(BUILTIN[self._short]),)
        setup = read_setup(script_options.setup, scripts) if script_options and script_options.setup else None
        _check(options, (*scripts, setup) if setup else scripts)
        check_scale(options)
        first, *steps = plan_steps(self._short, "transactions", options)
        write = any(map(writes, scripts))
        named, files = options.preset or "", _files(scripts)
        record: dict[str, Any] = {
            "name": self.name,
            "title": " ".join(filter(None, [named, f"scale {options.pgbench_scale}", options.protocol, files])),
            "clients": max((step["clients"] for step in steps), default=1),
            "steps": [first, *steps],
            "options": given(options),
            "scripts": [asdict(script) for script in scripts],
            "log_every": options.log_every or (1 if any(_needing_full_log(options).values()) else 0),
            "writes": write,
            **({"setup": asdict(setup)} if setup else {}),
        }
        beside = COLD.get(options.between, SET_UP if setup else "")
        return Plan(record, *preset_parts(options), programs=(PROGRAM,), own_server=beside)

    def check(self, record: Record) -> None:
        check_program(record, recorded(record), _all_scripts(record))

    def written(self, record: Record) -> Mapping[str, str]:
        ours = shipped_scripts()
        scripts = {
            script.name: script.text
            for script in _all_scripts(record)
            if not script.builtin and script.text not in ours
        }
        return scripts

    def sliced_options(self, entries: Record) -> dict[str, Any]:
        for name, why in NOT_SLICED.items():
            if entries.get(name):
                raise ValueError(f"--{name.replace('_', '-')}: {why}")
        for script in _read(entries.get("script") or ()):
            if waits([script]):
                raise ValueError(f"{script.name}: it sleeps, and the sleep continues while its server is stopped")
        return {"seconds": SLICED_SECONDS, **{name: value for name, value in entries.items() if value is not None}}

    def steps(self, record: Record) -> tuple[Step, ...]:
        options, scripts = recorded(record), _scripts(record)
        planned_step = Step(
            name=INIT,
            kind=INIT,
            record=record["steps"][0],
            roles=(Role(1, INIT),),
            connections=1 + len(scripts),
            expected_s=options.pgbench_scale * ROUGH_SCALE_S + options.warmup_seconds,
        )
        ages = "page" if options.connect else "active" if options.rate or sleeps(scripts) else "session"
        never = waits(scripts) or any(getattr(options, name) for name in NOT_SLICED)
        return (
            planned_step,
            *(
                Step(
                    name=step["name"],
                    kind=step["kind"],
                    record=step,
                    primary_metric=PrimaryMetric(ROLE, "tx/s"),
                    roles=tuple(Role(client, ROLE) for client in range(1, step["clients"] + 1)),
                    connections=step["clients"] + SETUP_CONNECTIONS,
                    expected_s=_expected_s(step),
                    sliced="" if never else "time",
                    gated=False,
                    interchangeable=True,
                    ages=ages,  # type: ignore[arg-type]
                    threads=min(options.jobs, step["clients"]),
                )
                for step in record["steps"][1:]
            ),
        )

    def maintenance(self, record: Record, step: Step, server_major: int) -> Maintenance:
        options = recorded(record)
        if options.between in COLD and step.kind != INIT:
            return Maintenance(before=(("CHECKPOINT",),), evict=True, cold=options.between == "cold")
        wanted = options.between == "vacuum" or (options.between == "auto" and record.get("writes", True))
        if step.kind == INIT or not wanted or "t" not in options.init_steps:
            return Maintenance()
        vacuums = tuple(f"VACUUM {table}" for table in TABLES)
        return Maintenance(before=(("TRUNCATE pgbench_history",), vacuums, ("CHECKPOINT",)))

    def launch(self, record: Record, step: Step, place: Place) -> Launch:
        program, options, scripts = record["programs"][PROGRAM], recorded(record), _scripts(record)
        clients = [step_record["clients"] for step_record in record["steps"][1:]]
        warm_clients = sorted(clients)[len(clients) // 2] if clients else 1
        warm_up = msgspec.convert(place.found, WarmUp)
        every = int(record["log_every"]) or warm_up.log_every
        spec = PgbenchSpec(
            page_fd=place.page_fd,
            folder=place.folder,
            data_folder=place.data_folder,
            dsn=place.dsn,
            program=program["path"],
            version=command.major(program),
            options=common(options),
            scripts=scripts,
            step=dict(step.record),
            warm_clients=warm_clients,
            log_every=every,
            log_by_line=_may_be_slow(
                options, scripts, every, warm_up, step.record.get("clients", warm_clients) / warm_clients
            ),
            log_thinned=not record["log_every"] and every > 1,
            seed=seed_of(place.seed, step.name, place.repeat),
            checkpoint=place.checkpoint,
            setup=next(iter(_setup(record)), None),
        )
        return Launch((sys.executable, "-m", "workloads.pgbench.launch"), msgspec.json.encode(spec).decode())

    def relations(self, record: Record, role: Role) -> frozenset[str]:
        return frozenset({*TABLES, "pgbench_history"})

    def expected_bytes(self, record: Record, max_wal_bytes: int) -> int:
        options = recorded(record)
        data = options.pgbench_scale * SCALE_BYTES * 100 / options.fillfactor
        wal = max_wal_bytes if _setup(record) else min(data, max_wal_bytes)  # a set-up's data may be of any size
        return int(CLUSTER_BYTES + data * (WRITTEN if record.get("writes", True) else 1.05) + wal)

    def identity(self, record: Record) -> dict[str, Any]:
        options = recorded(record)
        values = {
            option.name: getattr(options, option.name)
            for option in options_of(type(options))
            if option.name not in SHAPE
        }
        program = record.get("programs", {}).get(PROGRAM, {})
        text = "\n".join(f"{script.name}@{script.weight}\n{script.text}" for script in _all_scripts(record))
        return {
            **{name: list(value) if isinstance(value, tuple) else value for name, value in values.items()},
            "log_every": record.get("log_every", 1) or "auto",
            "scripts": hashlib.sha256(text.encode()).hexdigest()[:12],
            "pgbench": f"{program.get('version', '')} {program.get('digest', '')[:12]}".strip(),
        }

    def non_default(self, record: Record) -> tuple[str, ...]:
        left_out = {*SHAPE, "pgbench_scale", "protocol"}  # the title says these
        return tuple(
            f"{name.replace('_', ' ')} {' '.join(map(str, value)) if isinstance(value, (list, tuple)) else value}"
            for name, value in given(recorded(record)).items()
            if name not in left_out
        )

    def sizes(self) -> Listing:
        row = {"workload": self.name, "steps": ""}
        note = f"{self.name}: {INIT}, then {self._short}.cN for each number N of --clients: {self.description}"
        return Listing((row,), ("workload",), (note,))


def check_program(record: Record, options: Options, scripts: Sequence[Script]) -> None:
    """Refuse features that the plan's pgbench lacks, and scripts that it cannot read. Raises ValueError."""
    program = record.get("programs", {}).get(PROGRAM, {})
    if not {"path", "version"} <= program.keys():
        raise ValueError("the record names no pgbench")
    _check(options, scripts)
    version = command.major(program)
    for what, since in command.unknown(options, scripts):
        if version < since:
            raise ValueError(
                f"{what} needs the pgbench of PostgreSQL {since} or later; this is {program['version']} "
                f"({program['path']})"
            )
    own_scripts = [script for script in scripts if not script.builtin]
    as_root = os.geteuid() == 0  # run without privileges, by a user who may not enter a folder of root's
    with TemporaryDirectory(prefix="pgbed-scripts-", dir="/tmp" if as_root else None) as folder:
        Path(folder).chmod(0o755)
        for script in own_scripts:
            (Path(folder) / script.name).write_text(script.text)
        # It reads the scripts before it fails to connect: this folder has no server.
        call = command.run(program["path"], version, options, scripts, folder, clients=1, dsn="", seed=1)
        errors = _errors([*call[:-1], f"host={folder} connect_timeout=1"], as_nobody=as_root)
        if "connection to server" not in errors and "could not connect" not in errors:
            raise ValueError(error_of(errors, scripts, folder))


def _errors(call: Sequence[str], *, as_nobody: bool) -> str:
    """Standard error of a program that should end soon. Raises ValueError if it does not start or end."""
    try:
        account = pwd.getpwnam("nobody") if as_nobody else None
        return subprocess.run(
            call,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=CHECK_S,
            check=False,
            env={name: value for name, value in os.environ.items() if not name.startswith("PG")} | {"LC_ALL": "C"},
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
        ).stderr
    except subprocess.TimeoutExpired:
        reason = f"it did not end within {CHECK_S} s"
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "strerror", None) or "it does not start"
    except KeyError:
        reason = "there is no user 'nobody' to run it as"
    raise ValueError(f"{call[0]} cannot read the scripts: {reason}")


def _check(options: Options, scripts: Sequence[Script]) -> None:
    unknown = set(options.init_steps) - set(INIT_STEPS)
    if unknown or not options.init_steps:
        raise ValueError(f"-O init_steps={options.init_steps}: a step is one of {', '.join(INIT_STEPS)}")
    if "t" not in options.init_steps and any(script.builtin for script in scripts):
        raise ValueError(f"-O init_steps={options.init_steps}: pgbench's own scripts need its tables, which t makes")
    for flag, used in _needing_full_log(options).items():
        if used and (options.log_every or 1) > 1:
            raise ValueError(
                f"{flag} and -O log_every={options.log_every} exclude each other: only a full log counts late, "
                "skipped and retried transactions"
            )
    for definition in options.define:
        if not re.fullmatch(r"\w+=.*", definition):
            raise ValueError(f"-D {definition}: give NAME=VALUE")
    for script in scripts:
        if shell := command.SHELL.search(script.text):
            line = script.text.count("\n", 0, shell.start()) + 1
            raise ValueError(f"{script.name}:{line}: \\shell and \\setshell run commands of the shell; leave them out")
        for line, text in commands(script.text):
            if PIPELINE.match(text) and options.protocol == "simple":
                raise ValueError(f"{script.name}:{line}: a pipeline needs --protocol extended or prepared")


def _may_be_slow(options: Options, scripts: Sequence[Script], every: int, warm_up: WarmUp, clients: float) -> bool:
    """Whether a block of a thread's log, with one of `every` transactions in it, may take long to fill.

    `clients` is the ratio of the step's to the warm-up's. Without a warm-up, nothing is known about the user's own
    scripts; built-in ones do hundreds of transactions a second, unless limited.
    """
    if options.rate is not None:
        return options.rate <= SLOW_LINES
    if warm_up.lines_per_s is None:
        return every == 1 and not any(script.builtin for script in scripts)
    return warm_up.lines_per_s * warm_up.log_every / every * min(1.0, clients) <= SLOW_LINES


def _expected_s(step: Record) -> float:
    return float(step["seconds"] or step["transactions"] * step["clients"] / ROUGH_TPS)


def _read(specs: Sequence[str]) -> tuple[Script, ...]:
    """The user's own scripts; none if one cannot be read, which planning reports."""
    try:
        return read_all(specs)
    except ValueError:
        return ()


def _files(scripts: Sequence[Script]) -> str:
    return ", ".join(script.name for script in scripts if not script.builtin or len(scripts) > 1)


def _scripts(record: Record) -> tuple[Script, ...]:
    return tuple(map(checked, msgspec.convert(record["scripts"], tuple[Script, ...])))


def _setup(record: Record) -> tuple[Script, ...]:
    """The script that is run once; empty without one."""
    return tuple(checked(msgspec.convert(record[name], Script)) for name in ("setup",) if name in record)


def _all_scripts(record: Record) -> tuple[Script, ...]:
    return (*_scripts(record), *_setup(record))


SELECT: Workload = Pgbench("pgbench-select", "pgbench: one row by its key", "select", Options)
TPCB: Workload = Pgbench("pgbench-tpcb", "pgbench: five statements like TPC-B", "tpcb", Options)
SIMPLE: Workload = Pgbench("pgbench-simple", "pgbench: one row updated, one inserted", "simple", Options)
SCRIPTS: Workload = Pgbench("pgbench", "pgbench: scripts of your own (pgbench:FILE.sql)", "script", ScriptOptions)


def _needing_full_log(options: Options) -> dict[str, bool]:
    """Whether each of the options is used that would be estimated from a sample."""
    return {
        "--rate": options.rate is not None,
        "--max-tries": options.max_tries > 1,
        "-o continue_on_error": options.continue_on_error,
    }

"""Statements as a folder of pgbench scripts: each is a step of workload pgbench, over the application's data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from psycopg.conninfo import make_conninfo

from workloads.api.base import Launch, Place, Record, Step
from workloads.own.options import Options
from workloads.own.spec import APP, MIX
from workloads.own.statements import MOST, NAME, RESERVED
from workloads.pgbench.options import ScriptOptions
from workloads.pgbench.workload import SCRIPTS

KIND, PGBENCH = "script", "pgbench"


def plan(folder: Path, options: Options) -> dict[str, Any]:
    """The record of a plan of workload pgbench, by the step's name. Raises ValueError in one line."""
    files = sorted(folder.glob("*.sql"))
    if not files:
        raise ValueError(f"--statements {folder}: no script *.sql in that folder")
    if len(files) > MOST:
        raise ValueError(f"--statements {folder}: {len(files):,} scripts are more than {MOST:,}")
    if options.plans_only or options.check_results:
        flag = "--plans-only" if options.plans_only else "--check-results"
        raise ValueError(f"{flag}: what pgbench scripts execute is pgbench's affair; give a file of statements")
    for file in files:
        if not NAME.fullmatch(file.stem) or file.stem in RESERVED:
            raise ValueError(f"--statements {folder}: '{file.stem}' is no name for a step: letters, digits, _ . -")
    groups = {MIX: files} if options.mix else {file.stem: [file] for file in files}
    return {name: _plan(script_plan, options) for name, script_plan in groups.items()}


def _plan(files: list[Path], options: Options) -> dict[str, Any]:
    return SCRIPTS.plan(
        ScriptOptions(
            script=tuple(f"{file}@1" for file in files),
            clients=(options.clients,),
            seconds=options.seconds,
            protocol="prepared",
        )
    ).record


def step_record(name: str, planned: Record) -> dict[str, Any]:
    step_options = {key: value for key, value in planned["steps"][1].items() if key != "sweep"}
    return {**step_options, "name": name, "kind": KIND}


def step(record: Record, planned: Mapping[str, Any]) -> Step:
    _, steps = SCRIPTS.steps(planned[record["name"]])
    return replace(steps, name=record["name"], kind=KIND, record=record)


def check(planned: Mapping[str, Any], programs: Record) -> None:
    for script_plan in planned.values():
        SCRIPTS.check({**script_plan, "programs": programs})


def launch(record: Record, step: Step, place: Place) -> Launch:
    script_record = {**record["scripts"][step.name], "programs": record["programs"]}
    return SCRIPTS.launch(script_record, step, replace(place, dsn=make_conninfo(place.dsn, user=APP)))


def texts(planned: Mapping[str, Any]) -> dict[str, str]:
    return {script["name"]: script["text"] for script_plan in planned.values() for script in script_plan["scripts"]}

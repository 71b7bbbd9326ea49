"""One-shot timings as a workload: see `workloads.api.base`.

Its record has `options`, the differences from the defaults, and the `programs` that were found; each step is a task of
`workloads.micro.tasks`, done once or a few times in a cell, so that builds alternate.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from workloads.api.base import Launch, Listing, Maintenance, Place, Plan, PrimaryMetric, Record, Role, Step, Workload
from workloads.api.options import given, options_of
from workloads.micro import hyperfine
from workloads.micro.options import Options, recorded
from workloads.micro.spec import MicroSpec
from workloads.micro.tasks import BY_STEP, EMPTY_CLUSTER, SEGMENTS, TASKS, MicroTask, chosen

ROLE, PLAN_ROLE = "task", "plan"
HYPERFINE = "hyperfine"
SLICED_RUNS = 4
PROGRAMS = (HYPERFINE, "pgbench", "pg_dump", "psql")


class Micro:
    name = "micro"
    description = "one-shot timings: initdb, start, crash recovery, pgbench -i, index, vacuum, dump, planning"
    options = Options

    def plan(self, options: Options) -> Plan:
        tasks = chosen(options.steps)
        record: dict[str, Any] = {
            "name": self.name,
            "title": _title(options, tasks),
            "clients": 1,
            "steps": [{"name": task.step, "kind": "task"} for task in tasks],
            "options": given(options),
        }
        return Plan(record, programs=_programs(tasks), own_server="its tasks make clusters of each build")

    def check(self, record: Record) -> None:
        for name in _programs([_task(step) for step in record["steps"]]):
            program = record.get("programs", {}).get(name, {})
            if not {"path", "version"} <= program.keys():
                raise ValueError(f"the record names no {name}")
            if name == HYPERFINE and hyperfine.version(program["version"]) < hyperfine.SINCE:
                least = ".".join(map(str, hyperfine.SINCE))
                raise ValueError(
                    f"{program['path']} is {program['version']}, and {least} or later is needed: "
                    "set hyperfine in config.toml"
                )

    def written(self, record: Record) -> Mapping[str, str]:
        return {}

    def sliced_options(self, entries: Record) -> dict[str, Any]:
        names = entries.get("steps") or ()
        tasks = chosen(names.split(",") if isinstance(names, str) else names)
        if not all(task.statement for task in tasks):
            cut = " and ".join(task.step for task in TASKS if task.statement)
            raise ValueError(f"one-shot timings cannot be interleaved, except {cut}: programs run without a pause")
        return {"runs": SLICED_RUNS, **{name: value for name, value in entries.items() if value is not None}}

    def steps(self, record: Record) -> tuple[Step, ...]:
        options = recorded(record)
        return tuple(_step(step, _task(step), options) for step in record["steps"])

    def maintenance(self, record: Record, step: Step, server_major: int) -> Maintenance:
        return Maintenance()

    def launch(self, record: Record, step: Step, place: Place) -> Launch:
        spec = MicroSpec(
            page_fd=place.page_fd,
            dsn=place.dsn,
            folder=place.folder,
            step=_task(step.record).step,
            options=recorded(record),
            programs={name: program["path"] for name, program in record.get("programs", {}).items()},
            kit=place.kit,
        )
        return Launch((sys.executable, "-m", "workloads.micro.launch"), msgspec.json.encode(spec).decode())

    def relations(self, record: Record, role: Role) -> frozenset[str]:
        return frozenset()

    def expected_bytes(self, record: Record, max_wal_bytes: int) -> int:
        options, tasks = recorded(record), [_task(step) for step in record["steps"]]
        kept = sum(task.bytes(options) for task in tasks if not task.apart)
        passing = max((task.bytes(options) for task in tasks if task.apart), default=0)
        return EMPTY_CLUSTER + SEGMENTS + kept + passing + min(kept, max_wal_bytes)

    def identity(self, record: Record) -> dict[str, Any]:
        options = recorded(record)
        values = {
            option.name: getattr(options, option.name) for option in options_of(Options) if option.name != "steps"
        }
        programs = record.get("programs", {})
        return values | {
            name: f"{programs[name].get('version', '')} {programs[name].get('digest', '')[:12]}".strip()
            for name in PROGRAMS
            if name in programs
        }

    def non_default(self, record: Record) -> tuple[str, ...]:
        return tuple(
            name.replace("_", " ") + ("" if value is True else f" {value}")
            for name, value in given(recorded(record)).items()
            if name != "steps"
        )

    def sizes(self) -> Listing:
        usual = Options()
        row = {
            "workload": self.name,
            "steps": " ".join(task.step for task in TASKS),
            **{option.name: getattr(usual, option.name) for option in options_of(Options) if option.kind == "int"},
        }
        note = (
            "micro: each task once in a cell, or --runs times; times are shown, less is better; initdb for each locale "
            "provider"
        )
        return Listing((row,), ("workload",), (note,), {task.step: task.text for task in TASKS})


def _title(options: Options, tasks: tuple[MicroTask, ...]) -> str:
    amounts = {
        "recovery": f"{options.recovery_wal} MB of WAL",
        "init": f"scale {options.pgbench_scale}",
        "index": f"{options.table_rows:,} rows",
        "vacuum": f"{options.table_rows:,} rows",
    }
    texts = dict.fromkeys(amounts[task.name] for task in tasks if task.name in amounts)
    return ", ".join(texts) or f"{len(tasks)} task{'' if len(tasks) == 1 else 's'}"


def _programs(tasks: Iterable[MicroTask]) -> tuple[str, ...]:
    tasks = list(tasks)
    wanted = {need for task in tasks for need in task.needs}
    wanted |= {HYPERFINE for task in tasks if task.name != PLAN_ROLE}
    return tuple(name for name in PROGRAMS if name in wanted)


def _task(step: Record) -> MicroTask:
    try:
        return BY_STEP[step["name"]]
    except KeyError:
        raise ValueError(f"workload micro has no step {step.get('name')}") from None


def _step(record: Record, task: MicroTask, options: Options) -> Step:
    role = PLAN_ROLE if task.name == PLAN_ROLE else ROLE
    runs = 1 if task.name == PLAN_ROLE else options.runs
    return Step(
        name=task.step,
        kind="task",
        record=record,
        primary_metric=PrimaryMetric(role, "s", live=False, by="time"),
        roles=(Role(1, role),),
        connections=2,
        expected_s=runs * task.takes_s(options) + (runs if task.apart else 1) * task.prepared_in_s(options),
        interchangeable=True,
        sliced="whole" if task.statement else "",
        needs=task.needs,
        named=task.step in options.steps or (task.name in options.steps and not task.provider),
        preparation_s=task.prepared_in_s(options),
        apart=task.apart,
    )


WORKLOAD: Workload = Micro()

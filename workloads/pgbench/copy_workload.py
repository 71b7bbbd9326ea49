"""Bulk loads as a workload: see `workloads.base`. In its record, `options` are the differences from the defaults."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from workloads.base import (
    Launch,
    Listing,
    Maintenance,
    Place,
    Plan,
    PrimaryMetric,
    Record,
    Role,
    Step,
    Workload,
    Written,
)
from workloads.options import checked, given, options_of
from workloads.pgbench import command, copy_file
from workloads.pgbench.copy_launch import FILE, SCRIPT, TABLE, CopySpec, script
from workloads.pgbench.options import SHAPE, CopyOptions, Options, check_scale, preset_parts
from workloads.pgbench.scripts import Script
from workloads.pgbench.spec import Spec
from workloads.pgbench.sweep import INIT, plan_steps, seed_of
from workloads.pgbench.workload import (
    CLUSTER_BYTES,
    NOT_IN_BACKGROUND,
    OPEN_END_S,
    PROGRAM,
    ROLE,
    SETUP_CONNECTIONS,
)

COPY = "copy"  # the kind of the steps, and the prefix of their names
BESIDE = "the server reads files that pgbed puts beside it"
ROUGH_ROWS_PER_S = 400_000.0  # on a small machine
HEAP_ROW_BYTES = 92


class Copies:
    name = "pgbench-copy"
    description = "pgbench: bulk loads, a COPY of a file in each transaction"
    options = CopyOptions

    def plan(self, options: CopyOptions) -> Plan:
        check_scale(options)
        first, *steps = plan_steps(COPY, COPY, options)
        size = round(options.copy_rows * copy_file.ROW_BYTES / 1e6)
        named = f"{options.preset} " if options.preset else ""
        record: dict[str, Any] = {
            "name": self.name,
            "title": f"{named}{options.copy_rows:,} rows ({f'{size:,}' if size else 'under 1'} MB), truncate "
            f"{options.copy_truncate}",
            "clients": max((step["clients"] for step in steps), default=1),
            "steps": [first, *steps],
            "options": given(options),
        }
        return Plan(record, *preset_parts(options), programs=(PROGRAM,), own_server=BESIDE)

    def check(self, record: Record) -> None:
        """Raises ValueError for a record without pgbench, or with invalid options."""
        program = record.get("programs", {}).get(PROGRAM, {})
        if not {"path", "version"} <= program.keys():
            raise ValueError("the record names no pgbench")
        command.major(program)
        _options(record)

    def written(self, record: Record) -> Written:
        return Written()

    def sliced_options(self, entries: Record) -> dict[str, Any]:
        raise ValueError("pgbench-copy cannot be interleaved: a COPY takes longer than a slice")

    def background_plan(self, entries: Record) -> Plan:
        """See `workloads.base.BackgroundWorkload`: one step, as long as the step that it accompanies."""
        for name in sorted(NOT_IN_BACKGROUND.keys() & entries.keys()):
            raise ValueError(f"{name} is not for a background workload: {NOT_IN_BACKGROUND[name]}")
        options = checked(CopyOptions, {"clients": [1], **entries}, texts=True)
        if len(options.clients or ()) != 1:
            raise ValueError("clients: a background workload has one number of clients")
        if options.copy_truncate == "never":
            raise ValueError("copy_truncate never is not for a background workload: its tables would not stop growing")
        return self.plan(msgspec.structs.replace(options, seconds=OPEN_END_S))

    def steps(self, record: Record) -> tuple[Step, ...]:
        options = _options(record)
        first, *steps = record["steps"]
        load_s = options.copy_rows / ROUGH_ROWS_PER_S
        made = Step(
            name=INIT,
            kind=INIT,
            record=first,
            roles=(Role(1, INIT),),
            connections=1,
            expected_s=1 + 2 * load_s,
            makes_files=True,
        )
        return (
            made,
            *(
                Step(
                    name=step["name"],
                    kind=step["kind"],
                    record=step,
                    primary_metric=PrimaryMetric(ROLE, "tx/s", live=False),
                    roles=tuple(Role(client, ROLE) for client in range(1, step["clients"] + 1)),
                    connections=step["clients"] + SETUP_CONNECTIONS,
                    expected_s=step["seconds"] + load_s * step["clients"] * (step["transactions"] or 1),
                    interchangeable=True,
                    ages="session",
                    threads=min(options.jobs, step["clients"]),
                )
                for step in steps
            ),
        )

    def maintenance(self, record: Record, step: Step, server_major: int) -> Maintenance:
        if step.kind == INIT:
            return Maintenance()
        tables = ", ".join(f"{TABLE}{client}" for client in range(_tables(record)))
        return Maintenance(before=((f"TRUNCATE {tables}",), ("CHECKPOINT",)))

    def launch(self, record: Record, step: Step, place: Place) -> Launch:
        program = record["programs"][PROGRAM]
        if place.until:
            return _beside(record, step, place)
        spec = CopySpec(
            page_fd=place.page_fd,
            folder=place.folder,
            data_folder=place.data_folder,
            dsn=place.dsn,
            program=program["path"],
            version=command.major(program),
            options=_options(record),
            step=dict(step.record),
            tables=_tables(record),
            seed=seed_of(place.seed, step.name, place.repeat),
            file_seed=place.seed,
            schema=place.schema,
        )
        return Launch((sys.executable, "-m", "workloads.pgbench.copy_launch"), msgspec.json.encode(spec).decode())

    def relations(self, record: Record, role: Role) -> frozenset[str]:
        return frozenset({f"{TABLE}{role.client - 1}"})

    def expected_bytes(self, record: Record, max_wal_bytes: int) -> int:
        options = _options(record)
        file, table = (options.copy_rows * size for size in (copy_file.ROW_BYTES, HEAP_ROW_BYTES))
        heaps = 0.0
        for step in record["steps"][1:]:
            loads = 2.0  # per client: until its end, a transaction keeps the old table beside the new one
            if options.copy_truncate == "never":
                loads = step["transactions"] or 1 + step["seconds"] * ROUGH_ROWS_PER_S / options.copy_rows
            heaps = max(heaps, loads * step["clients"] * table)
        return int(CLUSTER_BYTES + file + heaps + max_wal_bytes)

    def identity(self, record: Record) -> dict[str, Any]:
        options = _options(record)
        program = record.get("programs", {}).get(PROGRAM, {})
        return {
            **{each.name: getattr(options, each.name) for each in options_of(CopyOptions) if each.name not in SHAPE},
            "file_form": copy_file.FORM,
            "pgbench": f"{program.get('version', '')} {program.get('digest', '')[:12]}".strip(),
        }

    def non_default(self, record: Record) -> tuple[str, ...]:
        left_out = {*SHAPE, "copy_rows", "copy_truncate"}  # the title says these
        found = given(_options(record))
        return tuple(f"{name.replace('_', ' ')} {value}" for name, value in found.items() if name not in left_out)

    def sizes(self) -> Listing:
        row = {"workload": self.name, "steps": ""}
        note = f"{self.name}: {INIT}, then {COPY}.cN for each number N of --clients: {self.description}"
        return Listing((row,), ("workload",), (note,))


def _beside(record: Record, step: Step, place: Place) -> Launch:
    """In the background, loads begin and end with the main workload, even within a transaction, like any script."""
    options, program = _options(record), record["programs"][PROGRAM]
    spec = Spec(
        page_fd=place.page_fd,
        folder=place.folder,
        data_folder=place.data_folder,
        dsn=place.dsn,
        program=program["path"],
        version=command.major(program),
        options=Options(jobs=options.jobs),
        scripts=(Script(SCRIPT, 1, script(options, Path(place.data_folder) / FILE)),),
        step=dict(step.record),
        warm_clients=1,
        log_every=1,
        log_by_line=True,
        seed=seed_of(place.seed, step.name, place.repeat),
        first=place.first,
        until=place.until,
        schema=place.schema,
    )
    return Launch((sys.executable, "-m", "workloads.pgbench.launch"), msgspec.json.encode(spec).decode())


def _options(record: Record) -> CopyOptions:
    known = {option.name for option in options_of(CopyOptions)}
    return checked(CopyOptions, {name: value for name, value in record.get("options", {}).items() if name in known})


def _tables(record: Record) -> int:
    return max((int(step["clients"]) for step in record["steps"][1:]), default=1)


WORKLOAD: Workload = Copies()

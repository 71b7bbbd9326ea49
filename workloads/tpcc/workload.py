"""TPC-C-like, not TPC-C, as a workload: see `workloads.api.base`.

pgbench runs five transactions of our own, by their weights: as fast as the server can, then, with a load, at a share
of that. The last step checks that the tables are consistent.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import asdict
from importlib.resources import files
from typing import Any

import msgspec

from workloads.api.base import Launch, Listing, Maintenance, Place, Plan, PrimaryMetric, Record, Role, Step, Workload
from workloads.api.options import given
from workloads.pgbench import command
from workloads.pgbench.scripts import Script, checked
from workloads.pgbench.sweep import seed_of
from workloads.pgbench.workload import PROGRAM, ROLE, SETUP_CONNECTIONS, check_program
from workloads.tpcc.options import SHAPE, Options, recorded
from workloads.tpcc.spec import CAPACITY, CHECK, INIT, LOAD, CapacityReport, TpccSpec

WEIGHTS = {"new_order": 45, "payment": 43, "order_status": 4, "delivery": 4, "stock_level": 4}
TABLES = (
    "warehouse", "district", "customer", "history", "item", "stock", "orders", "new_orders", "order_line",
)  # fmt: skip
WAREHOUSE_BYTES, CLUSTER_BYTES = 40 << 20, 64 << 20
ROUGH_WAREHOUSE_S = 2.0  # to make one
SLICED_SECONDS = 6  # of each server, by default


def scripts() -> tuple[Script, ...]:
    source = files("workloads.tpcc")
    return tuple(
        Script(f"{name}.sql", weight, source.joinpath(f"{name}.sql").read_text("utf-8"))
        for name, weight in WEIGHTS.items()
    )


class TpccLike:
    name = "tpcc-like"
    description = "TPC-C-like, not TPC-C: five transactions of orders and payments, by pgbench"
    options = Options

    def plan(self, options: Options) -> Plan:
        loads = [] if options.load is None else [_named(LOAD, f"{LOAD}{options.load:.0%}".rstrip("%"))]
        record: dict[str, Any] = {
            "name": self.name,
            "title": f"{options.warehouses} warehouses (not TPC-C)",
            "clients": options.clients,
            "steps": [
                {**step, "clients": options.clients, "seconds": options.seconds, "transactions": 0}
                if step["kind"] in (CAPACITY, LOAD)
                else step
                for step in (_named(INIT), _named(CAPACITY), *loads, _named(CHECK))
            ],
            "options": given(options),
            "scripts": [asdict(script) for script in scripts()],
        }
        return Plan(record, programs=(PROGRAM,))

    def check(self, record: Record) -> None:
        check_program(record, recorded(record).for_pgbench(), _recorded_scripts(record))

    def written(self, record: Record) -> Mapping[str, str]:
        ours = {script.text for script in scripts()}
        added = {script.name: script.text for script in _recorded_scripts(record) if script.text not in ours}
        return added  # of another version of pgbed, or made by hand

    def sliced_options(self, entries: Record) -> dict[str, Any]:
        return {"seconds": SLICED_SECONDS, **{name: value for name, value in entries.items() if value is not None}}

    def steps(self, record: Record) -> tuple[Step, ...]:
        options = recorded(record)
        return tuple(_step(step, options) for step in record["steps"])

    def maintenance(self, record: Record, step: Step, server_major: int) -> Maintenance:
        if step.kind not in (CAPACITY, LOAD):
            return Maintenance()
        return Maintenance(before=(tuple(f"VACUUM {table}" for table in TABLES), ("CHECKPOINT",)))

    def launch(self, record: Record, step: Step, place: Place) -> Launch:
        options, program = recorded(record), record["programs"][PROGRAM]
        capacity = msgspec.convert(place.found, CapacityReport).capacity_per_s
        if step.kind == LOAD and (capacity is None or options.load is None):
            raise ValueError(f"step {step.name} needs the base's capacity, which no step has found")
        rate = capacity * options.load if step.kind == LOAD and capacity and options.load else None
        spec = TpccSpec(
            page_fd=place.page_fd,
            folder=place.folder,
            data_folder=place.data_folder,
            dsn=place.dsn,
            program=program["path"],
            version=command.major(program),
            options=options.for_pgbench(rate),
            scripts=_recorded_scripts(record),
            step=dict(step.record),
            warm_clients=options.clients,
            log_every=1,
            log_by_line=False,
            seed=seed_of(place.seed, step.name, place.repeat),
            checkpoint=place.checkpoint,
            rows_seed=place.seed,
        )
        return Launch((sys.executable, "-m", "workloads.tpcc.launch"), msgspec.json.encode(spec).decode())

    def relations(self, record: Record, role: Role) -> frozenset[str]:
        return frozenset(TABLES)

    def expected_bytes(self, record: Record, max_wal_bytes: int) -> int:
        data = recorded(record).warehouses * WAREHOUSE_BYTES
        return CLUSTER_BYTES + 2 * data + min(data, max_wal_bytes)

    def identity(self, record: Record) -> dict[str, Any]:
        identity = {name: value for name, value in msgspec.to_builtins(recorded(record)).items() if name not in SHAPE}
        text = "\n".join(f"{script.name}@{script.weight}\n{script.text}" for script in _recorded_scripts(record))
        program = record.get("programs", {}).get(PROGRAM, {})
        return {
            **identity,
            "scripts": hashlib.sha256(text.encode()).hexdigest()[:12],
            "pgbench": f"{program.get('version', '')} {program.get('digest', '')[:12]}".strip(),
        }

    def non_default(self, record: Record) -> tuple[str, ...]:
        changed = given(recorded(record)).items()
        return tuple(f"{name} {value}" for name, value in changed if name not in (*SHAPE, "warehouses"))

    def sizes(self) -> Listing:
        row = {"workload": self.name, "steps": f"{INIT} {CAPACITY} {CHECK}"}
        mix = ", ".join(f"{name} {weight}%" for name, weight in WEIGHTS.items())
        note = f"{self.name}: {INIT}, {CAPACITY}, with --load a step at a share of it, {CHECK}; {mix}"
        return Listing((row,), ("workload",), (note,))


def _named(kind: str, name: str = "") -> dict[str, Any]:
    return {"name": name or kind, "kind": kind}


def _step(step: Record, options: Options) -> Step:
    kind = step["kind"]
    if kind in (INIT, CHECK):
        expected_s = options.warehouses * ROUGH_WAREHOUSE_S if kind == INIT else 1.0
        return Step(step["name"], kind, step, roles=(Role(1, kind),), connections=2, expected_s=expected_s)
    return Step(
        step["name"],
        kind,
        step,
        # At a rate, it is the time that tells servers apart.
        PrimaryMetric(ROLE, "tx/s", by="time" if kind == LOAD else "rate"),
        tuple(Role(client, ROLE) for client in range(1, options.clients + 1)),
        options.clients + SETUP_CONNECTIONS,
        expected_s=float(step["seconds"]),
        sliced="time" if kind == CAPACITY else "",
        gated=False,
        interchangeable=False,
        ages="active" if kind == LOAD else "session",
        threads=min(options.jobs, options.clients),
    )


def _recorded_scripts(record: Record) -> tuple[Script, ...]:
    return tuple(map(checked, msgspec.convert(record["scripts"], tuple[Script, ...])))


WORKLOAD: Workload = TpccLike()

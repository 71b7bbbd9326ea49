"""The Insert Benchmark as a workload: see `workloads.api.base`.

Its record has `generation` and `scale`, the published form and size; `options`, the differences from the defaults; and
`steps`, each a `workloads.insert.steps.InsertStep`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, Literal

import msgspec

from workloads.api.base import Launch, Listing, Maintenance, Place, Plan, PrimaryMetric, Record, Role, Step, Workload
from workloads.api.names import UnknownName
from workloads.api.options import checked, given
from workloads.insert import estimates
from workloads.insert.ddl import table_name
from workloads.insert.maintenance import BACKGROUND_VACUUMS, maintenance
from workloads.insert.options import Options, recorded
from workloads.insert.sizes import DEFAULT_SCALE, OWN_SIZES, SCALES
from workloads.insert.spec import InsertSpec, role_list
from workloads.insert.steps import GENERATIONS, InsertStep, describe, plan_steps
from workloads.presets import preset

PRIMARY_METRICS = {
    "load": PrimaryMetric("insert", "rows/s"),
    "index": PrimaryMetric("index", "rows/s", live=False),
    "write": PrimaryMetric("insert", "rows/s"),
    "query": PrimaryMetric("query", "queries/s"),
}
SLICED: dict[str, Literal["time", "work", "whole"]] = {
    "load": "work", "index": "whole", "write": "work", "query": "time",
}  # fmt: skip


# Per server in a quick query step: four for two. More time would narrow the result less than more pairs do.
SLICED_QUICK_S = 2
# Builds in slices, per server: until they have taken this long, by a rough estimate, but not more than this number.
SLICED_BUILDS_S, MOST_BUILDS = 4.0, 4


class InsertBenchmark:
    name = "insert"
    description = "the Insert Benchmark (generations g22, g24a, g24b)"
    options = Options

    def plan(self, options: Options) -> Plan:
        named = preset(options.preset) if options.preset else None
        preset_steps = named.steps if named else ()
        if preset_steps:
            if options.scale or options.rows or options.steps:
                raise ValueError("--preset is a complete plan: leave out --scale, --rows and --steps")
            scale, steps = str(options.preset), tuple(msgspec.convert(dict(step), InsertStep) for step in preset_steps)
        else:
            if options.scale is not None and options.rows is not None and options.preset is None:
                raise ValueError("--scale and --rows exclude each other: a scale is a named number of rows")
            scale = options.scale or (f"{options.rows} rows" if options.rows else DEFAULT_SCALE)
            steps = plan_steps(
                options.generation,
                options.rows or scale,
                options.clients,
                options.steps or None,
                rows_written=options.rows_written,
                query_seconds=options.query_seconds,
            )
        steps = tuple(replace(step, builds=options.index_builds) if step.kind == "index" else step for step in steps)
        record = self._record(options, scale, steps)
        why = "--placement paired binds the server's processes to CPUs" if options.placement == "paired" else ""
        return Plan(record, named.settings, named.probes, own_server=why) if named else Plan(record, own_server=why)

    def _record(self, options: Options, scale: str, steps: tuple[InsertStep, ...]) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": f"{options.generation} {scale}",
            "generation": options.generation,
            "scale": scale,
            "clients": options.clients,
            "steps": [asdict(step) for step in steps],
            "options": given(options),
        }

    def check(self, record: Record) -> None:
        pass

    def written(self, record: Record) -> Mapping[str, str]:
        return {}

    def sliced_options(self, entries: Record) -> dict[str, Any]:
        if entries.get("placement") == "free":
            raise ValueError(
                "--placement free: in slices both servers must have the same CPUs, "
                "or the scheduler makes the difference"
            )
        scale = entries.get("scale")
        if scale == "io":
            raise ValueError("--scale io: the write-back of one server would go on in the slices of the others")
        sized = scale not in (None, "quick") or any(entries.get(name) is not None for name in ("rows", "preset"))
        usual = {} if sized else {"query_seconds": SLICED_QUICK_S}
        chosen = {name: value for name, value in entries.items() if value is not None}
        return {
            **usual,
            "index_builds": _sliced_builds(chosen),
            "before_writes": "vacuum",
            **chosen,
            "placement": "paired",
        }

    def steps(self, record: Record) -> tuple[Step, ...]:
        options = recorded(record)
        return tuple(_step(_own(step), options) for step in record["steps"])

    def maintenance(self, record: Record, step: Step, server_major: int) -> Maintenance:
        return maintenance(recorded(record), _own(step.record), server_major)

    def launch(self, record: Record, step: Step, place: Place) -> Launch:
        options, insert_step = recorded(record), _own(step.record)
        spec = InsertSpec(place.page_fd, place.dsn, insert_step, options, place.seed, place.repeat, place.checkpoint)
        return Launch((sys.executable, "-m", "workloads.insert.launch"), msgspec.json.encode(spec).decode())

    def relations(self, record: Record, role: Role) -> frozenset[str]:
        return frozenset({table_name(role.client)})

    def expected_bytes(self, record: Record, max_wal_bytes: int) -> int:
        steps = [_own(step) for step in record["steps"]]
        return estimates.expected_bytes(steps, int(record["clients"]), max_wal_bytes)

    def identity(self, record: Record) -> dict[str, Any]:
        options = recorded(record)
        # Rows per statement of each step that is present, in order.
        steps = [_own(step) for step in record["steps"]]
        rows = " ".join(str(options.rows_per_statement_of(step)) for step in steps if step.kind != "pause")
        return {"generation": options.generation, **options.effective(), "rows_per_statement": rows}

    def non_default(self, record: Record) -> tuple[str, ...]:
        return recorded(record).non_default()

    def sizes(self) -> Listing:
        rows = tuple(
            {
                "workload": self.name,
                "generation": generation,
                "scale": scale,
                "rows": sizes.rows_loaded,
                "rows_written": sizes.rows_written,
                "query_seconds": sizes.query_seconds,
                "query_s": sizes.query_seconds,
                "steps": " ".join(form.steps),
                "note": OWN_SIZES.get((scale, generation), ""),
            }
            for generation, form in GENERATIONS.items()
            for scale, of_generation in SCALES.items()
            for sizes in [of_generation[generation]]
        )
        notes = [f"{name}: {' '.join(form.steps)}" for name, form in GENERATIONS.items()]
        by_steps: dict[str, list[str]] = {}
        for (scale, generation), note in OWN_SIZES.items():
            by_steps.setdefault(f"{scale}: {note}", []).append(generation)
        notes += [f"{', '.join(names)} {note}" for note, names in by_steps.items()]
        columns = ("workload", "generation", "scale", "rows", "rows_written", "query_seconds")
        names = dict.fromkeys(step for form in GENERATIONS.values() for step in form.steps)
        return Listing(rows, columns, tuple(notes), {name: describe(name) for name in names})


def _sliced_builds(entries: Record) -> int:
    """The number of index builds in slices; one if the rows are a preset's, or the entries are refused elsewhere."""
    with suppress(UnknownName, ValueError):
        options = checked(Options, entries, texts=True)
        if options.preset is None:
            size = options.rows or options.scale or DEFAULT_SCALE
            *_, step = plan_steps(options.generation, size, options.clients, ("l.x",))
            builds = math.ceil(SLICED_BUILDS_S / max(1e-3, estimates.expected_seconds(step, options.clients)))
            return max(1, min(MOST_BUILDS, builds))
    return 1


def _own(record: Record) -> InsertStep:
    return msgspec.convert(dict(record), InsertStep)


def _step(step: InsertStep, options: Options) -> Step:
    clients, roles = options.clients, role_list(step, options)
    # In addition to the roles': lookups of keys, a load's CREATE TABLE, the vacuums of a pause or before a step.
    lookups = clients * (step.deletes + (step.query == "point"))
    others = clients * ((step.kind in ("load", "pause")) + BACKGROUND_VACUUMS * step.background_vacuum)
    return Step(
        name=step.name,
        kind=step.kind,
        group=step.query or step.kind,
        record=asdict(step),
        primary_metric=PRIMARY_METRICS.get(step.kind),
        sliced="" if step.background_vacuum else SLICED.get(step.kind, ""),  # vacuums obey no gate
        roles=roles,
        connections=len(roles) + lookups + others,
        work=step.rows * clients,
        rows_indexed=step.rows_indexed * step.builds * clients,
        rate_per_s=float(step.rate_per_s * clients),
        expected_s=estimates.expected_seconds(step, clients),
    )


WORKLOAD: Workload = InsertBenchmark()

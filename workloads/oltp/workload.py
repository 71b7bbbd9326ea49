"""The OLTP tests as a workload: see `workloads.api.base`.

Its record has `options`, the differences from the defaults, and `steps`: the load, a vacuum, then the tests in the
order of the catalog, with another vacuum after those that write first.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from workloads.api.base import Launch, Listing, Maintenance, Place, Plan, PrimaryMetric, Record, Role, Step, Workload
from workloads.api.names import pick
from workloads.api.options import given
from workloads.oltp.catalog import BY_NAME, GROUPS, TESTS, OltpTest, chosen
from workloads.oltp.options import SHAPE, Options, recorded
from workloads.oltp.spec import LOAD, QUERY, OltpSpec, role_list
from workloads.oltp.statements import TABLE
from workloads.presets import preset

VACUUM = "vacuum"
PAUSE = "pause"  # the kind of steps without clients
ROUGH_ROWS_PER_S = 200_000.0
ROW_BYTES, CLUSTER_BYTES = 280, 64 << 20
WRITTEN = 1.5  # growth of tables whose rows are replaced
SLICED_SECONDS = 2  # of each server, by default
SCAN_TIMES = 3  # as long as the others: a scan fills a slice or more, and intervals need twenty pairs of slices
CHECKPOINT = "CHECKPOINT"


class OltpTests:
    name = "oltp"
    description = "33 OLTP tests: one statement or transaction each, over and over"
    options = Options

    def plan(self, options: Options) -> Plan:
        if options.scale is not None and options.preset is None:
            raise ValueError(f"--scale {options.scale} is a preset's; the size of the tables is --rows")
        why = "--placement paired binds the server's processes to CPUs" if options.placement == "paired" else ""
        if options.between != "none":
            why = f"--between {options.between} takes its tables out of memory"
        named = f"{options.preset}: " if options.preset else ""
        tables = f"{options.tables} tables of " if options.tables > 1 else ""
        record: dict[str, Any] = {
            "name": self.name,
            "title": f"{named}{tables}{options.rows:,} rows",
            "clients": options.clients,
            "steps": _steps(options),
            "options": given(options),
        }
        chosen_preset = preset(options.preset) if options.preset else None
        settings, probes = (chosen_preset.settings, chosen_preset.probes) if chosen_preset else ((), ())
        return Plan(record, settings, probes, own_server=why)

    def check(self, record: Record) -> None:
        return

    def written(self, record: Record) -> Mapping[str, str]:
        return {}

    def sliced_options(self, entries: Record) -> dict[str, Any]:
        if entries.get("placement") == "free":
            raise ValueError(
                "--placement free: in slices both servers must have the same CPUs, "
                "or the scheduler makes the difference"
            )
        known = {name: value for name, value in entries.items() if value is not None}
        return {"seconds": SLICED_SECONDS, **known, "placement": "paired"}

    def steps(self, record: Record) -> tuple[Step, ...]:
        options = recorded(record)
        return tuple(_step(step, options) for step in record["steps"])

    def maintenance(self, record: Record, step: Step, server_major: int) -> Maintenance:
        between = recorded(record).between
        if step.kind != PAUSE:
            evict = step.kind != LOAD and between != "none"
            return Maintenance(before=((CHECKPOINT,),), evict=True, cold=between == "cold") if evict else Maintenance()
        vacuums = tuple(f"VACUUM (ANALYZE) {table}" for table in _tables(recorded(record)))
        return Maintenance((vacuums, (CHECKPOINT,)), least_s=float(step.record["seconds"]))

    def launch(self, record: Record, step: Step, place: Place) -> Launch:
        spec = OltpSpec(
            page_fd=place.page_fd,
            dsn=place.dsn,
            step=dict(step.record),
            options=recorded(record),
            seed=place.seed,
            repeat=place.repeat,
        )
        return Launch((sys.executable, "-m", "workloads.oltp.launch"), msgspec.json.encode(spec).decode())

    def relations(self, record: Record, role: Role) -> frozenset[str]:
        return frozenset(_tables(recorded(record)))

    def expected_bytes(self, record: Record, max_wal_bytes: int) -> int:
        options = recorded(record)
        data = options.tables * options.rows * ROW_BYTES
        return int(CLUSTER_BYTES + data * WRITTEN + min(data, max_wal_bytes))

    def identity(self, record: Record) -> dict[str, Any]:
        return {name: value for name, value in msgspec.to_builtins(recorded(record)).items() if name not in SHAPE}

    def non_default(self, record: Record) -> tuple[str, ...]:
        left_out = {*SHAPE, "rows", "tables"}  # the title says these
        return tuple(
            f"{name.replace('_', ' ')} {value}"
            for name, value in given(recorded(record)).items()
            if name not in left_out
        )

    def sizes(self) -> Listing:
        steps = [step["name"] for step in _steps(Options())]
        row = {"workload": self.name, "rows": Options().rows, "steps": " ".join(steps)}
        first = f"{self.name}: {LOAD}, {VACUUM}, then the tests; --tests takes names and these groups"
        names = {group: " ".join(test.name for test in TESTS if test.group == group) for group in GROUPS}
        groups = (f"{self.name} {group}: {tests}" for group, tests in names.items())
        return Listing((row,), ("workload", "rows"), (first, *groups), {test.name: _described(test) for test in TESTS})


def _steps(options: Options) -> list[dict[str, Any]]:
    """The steps of the chosen tests, with those before them. Raises UnknownName."""
    steps = list(_of_tests(chosen(options.tests), options))
    if not options.steps:
        return steps
    wanted = {pick("step", name, {step["name"]: step for step in steps})["name"] for name in options.steps}
    return [step for step in steps if step["name"] in wanted or step["name"] in (LOAD, VACUUM)]


def _of_tests(tests: Sequence[OltpTest], options: Options) -> Iterator[dict[str, Any]]:
    def vacuum(name: str) -> dict[str, Any]:
        return {"name": name, "kind": PAUSE, "seconds": options.pause_seconds}

    yield {"name": LOAD, "kind": LOAD}
    yield vacuum(VACUUM)
    before: OltpTest | None = None
    for test in tests:
        if before is not None and before.writes and not test.writes:
            yield vacuum(f"{VACUUM}.writes")
        times = SCAN_TIMES if test.group == "scan" else 1
        yield {"name": test.name, "kind": test.group, "seconds": options.seconds * times}
        before = test


def _step(step: Record, options: Options) -> Step:
    kind = step["kind"]
    if kind == PAUSE:
        return Step(step["name"], kind, step, connections=options.tables, expected_s=float(step["seconds"]))
    roles = role_list(kind, options)
    if kind == LOAD:
        rows = options.tables * options.rows
        return Step(step["name"], kind, step, roles=roles, connections=len(roles), expected_s=rows / ROUGH_ROWS_PER_S)
    return Step(
        step["name"],
        kind,
        step,
        PrimaryMetric(QUERY, "tx/s" if BY_NAME[step["name"]].transaction else "queries/s"),
        roles,
        len(roles),
        expected_s=float(step["seconds"]),
        sliced="time",
    )


def _tables(options: Options) -> tuple[str, ...]:
    return tuple(f"{TABLE}{table}" for table in range(1, options.tables + 1))


def _described(test: OltpTest) -> str:
    statements = dict.fromkeys(
        statement.of(1) if len(statement.values) < 2 else statement.sql for statement in test.event
    )
    return "; ".join(statements)


WORKLOAD: Workload = OltpTests()

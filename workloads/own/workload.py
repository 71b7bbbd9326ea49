"""The user's application as a workload: see `workloads.api.base`.

Its record has `options`, the differences from the defaults; `data` (`workloads.own.data.Data`); `statements`, each a
`workloads.own.statements.Statement`; `scripts` of pgbench instead, if these were given; `left_out`, by reason,
statements of pg_stat_statements that cannot be run; and the `programs` that were found.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from workloads.api.base import Launch, Listing, Maintenance, Place, Plan, PrimaryMetric, Record, Role, Step, Workload
from workloads.api.options import given, options_of
from workloads.own import observed, psql, scripts, statements, template
from workloads.own.data import Data, of_dump, of_schema, user_path
from workloads.own.options import SLICED_SECONDS, Options, recorded
from workloads.own.spec import DATA, MIX, PLANS, ROLE, OwnSpec
from workloads.own.statements import Statement
from workloads.own.survey import left_out, surveyed
from workloads.pgbench.scripts import SLEEP

PG_RESTORE, PG_DUMP, PSQL = "pg_restore", "pg_dump", "psql"
SHAPE = ("clients", "seconds", "top", "trust_dump")
FILES = ("dump", "schema", "rows_from", "template", "statements", "from_pg_stat_statements", "params")
CLUSTER_BYTES = 64 << 20
PACKED = 10  # an archive is compressed, and indexes are not in it
PLAIN = 2.5
RESTORED_BYTES_PER_S = 10e6
TRIED_S = 3.0  # before a step's clock starts
JOBS = 8
PLANNED_PAIRS = 4  # where nothing is executed, new clusters take most of a run's time


class Own:
    name = "own"
    description = "your schema, your data, your statements, and the plans that are chosen for them"
    options = Options

    def plan(self, options: Options) -> Plan:
        data = _data(options)
        folder = user_path(options.statements) if options.statements else None
        planned = scripts.plan(folder, options) if folder and folder.is_dir() else {}
        statements, left_out = _statements(options) if not planned else ((), ())
        if options.mix and options.plans_only:
            raise ValueError("--mix and --plans-only: choose one")
        kind = PLANS if options.plans_only else MIX if options.mix else ""
        names = [kind] if kind else [statement.name for statement in statements]
        record: dict[str, Any] = {
            "name": self.name,
            "title": f"{data.name}, {_amount(statements, planned)}",
            "clients": options.clients,
            "steps": [
                {"name": DATA, "kind": DATA},
                *(scripts.step_record(name, script_plan) for name, script_plan in planned.items()),
                *({"name": name, "kind": kind or ROLE, "clients": options.clients, "seconds": options.seconds}
                  for name in names if not planned),
            ],
            "options": {name: value for name, value in given(options).items() if name not in FILES},
            "data": msgspec.to_builtins(data),
            "statements": [msgspec.to_builtins(statement) for statement in statements],
            "scripts": planned,
            "left_out": [list(entry) for entry in left_out],
        }  # fmt: skip
        wanted = {
            PG_RESTORE: data.archive,
            PSQL: not data.archive,
            PG_DUMP: bool(data.template),
            scripts.PGBENCH: bool(planned),
        }
        programs = tuple(name for name, needed in wanted.items() if needed)
        return Plan(
            record,
            programs=programs,
            own_server="its data is restored into fresh clusters",
            notices=tuple(f"left out: {entry.what}: {entry.why}" for entry in left_out),
            pairs=PLANNED_PAIRS if options.plans_only else 0,
        )

    def check(self, record: Record) -> None:
        _recorded(record)
        scripts.check(record.get("scripts", {}), record.get("programs", {}))

    def survey(self, record: Record, folder: str) -> dict[str, Any]:
        """See `workloads.api.base.Surveying`."""
        data = _of(record)
        programs = {name: program["path"] for name, program in record.get("programs", {}).items()}
        trusted = recorded(record).trust_dump
        if not data.archive and (why := psql.unfit(record.get("programs", {}).get(PSQL, {}).get("version", ""))):
            raise ValueError(why)
        if data.template:
            data = template.dumped(data, programs[PG_DUMP], programs[PG_RESTORE], Path(folder), trusted=trusted)
        else:
            data = surveyed(data, programs.get(PG_RESTORE, ""), trusted=trusted)
        demands = [f"extension {name}" for name in data.extensions if name != "plpgsql"]
        demands += [f"version {data.major}"] if data.major else []
        notices = list(filter(None, [left_out(data)]))
        return {**record, "data": msgspec.to_builtins(data), "demands": [*demands, *data.demands], "notices": notices}

    def written(self, record: Record) -> Mapping[str, str]:
        text = "\n\n".join(f"-- name: {statement.name}\n{statement.sql};" for statement in _recorded(record))
        return {"statements.sql": text} if text else scripts.texts(record.get("scripts", {}))

    def sliced_options(self, entries: Record) -> dict[str, Any]:
        return {"seconds": SLICED_SECONDS, **{name: value for name, value in entries.items() if value is not None}}

    def steps(self, record: Record) -> tuple[Step, ...]:
        data, options, known = (
            _of(record),
            recorded(record),
            {statement.name: statement for statement in _recorded(record)},
        )
        restored_s = max(2.0, data.bytes * (PACKED if data.archive else PLAIN) / RESTORED_BYTES_PER_S)
        first, *others = record["steps"]
        return (
            Step(
                name=DATA, kind=DATA, record=first, roles=(Role(1, DATA),), connections=JOBS, expected_s=restored_s,
                makes_files=True,
            ),
            *(
                scripts.step(step, record["scripts"])
                if step["kind"] == scripts.KIND
                else Step(
                    name=step["name"],
                    kind=step["kind"],
                    record=step,
                    primary_metric=PrimaryMetric(ROLE, "plans/s" if step["kind"] == PLANS else "executions/s"),
                    roles=tuple(Role(client, ROLE) for client in range(1, options.clients + 1)),
                    connections=options.clients + 1,
                    expected_s=float(step["seconds"]),
                    sliced="" if any(SLEEP.search(statement.sql) for statement in _run_in(step, known)) else "time",
                    cut=step["kind"] == ROLE,
                    interchangeable=True,
                    preparation_s=(0.1 if step["kind"] == PLANS else TRIED_S) * len(_run_in(step, known)),
                )
                for step in others
            ),
        )  # fmt: skip

    def maintenance(self, record: Record, step: Step, server_major: int) -> Maintenance:
        return Maintenance()

    def launch(self, record: Record, step: Step, place: Place) -> Launch:
        if step.kind == scripts.KIND:
            return scripts.launch(record, step, place)
        every = _recorded(record)
        known = {statement.name: statement for statement in every}
        spec = OwnSpec(
            page_fd=place.page_fd,
            dsn=place.dsn,
            folder=place.folder,
            step=dict(step.record),
            options=recorded(record),
            data=_of(record),
            statements=_run_in(step.record, known),
            cloned=any(statement.writes == "clone" for statement in every),
            pg_restore=_program(record, PG_RESTORE),
            psql=_program(record, PSQL),
            seed=place.seed,
            repeat=place.repeat,
        )
        return Launch((sys.executable, "-m", "workloads.own.launch"), msgspec.json.encode(spec).decode())

    def relations(self, record: Record, role: Role) -> frozenset[str]:
        return frozenset()

    def expected_bytes(self, record: Record, max_wal_bytes: int) -> int:
        data = _of(record)
        copies = 3 if any(statement.writes == "clone" for statement in _recorded(record)) else 1
        restored = data.bytes * (PACKED if data.archive else PLAIN)
        return int(CLUSTER_BYTES + copies * restored + min(restored, max_wal_bytes))

    def identity(self, record: Record) -> dict[str, Any]:
        options, data = recorded(record), _of(record)
        text = msgspec.json.encode((_recorded(record), scripts.texts(record.get("scripts", {}))))
        values = {
            option.name: getattr(options, option.name)
            for option in options_of(Options)
            if option.name not in (*SHAPE, *FILES)
        }
        return values | {"data": data.digest[:12], "statements": hashlib.sha256(text).hexdigest()[:12]}

    def non_default(self, record: Record) -> tuple[str, ...]:
        return tuple(
            name.replace("_", " ") + ("" if value is True else f" {value}")
            for name, value in given(recorded(record)).items()
            if name not in (*SHAPE, *FILES)
        )

    def sizes(self) -> Listing:
        row = {"workload": self.name, "steps": ""}
        note = f"{self.name}: {DATA}, then a step for each statement: --dump FILE --statements FILE.sql"
        return Listing((row,), ("workload",), (note,))


def _program(record: Record, name: str) -> str:
    return str(record.get("programs", {}).get(name, {}).get("path", ""))


def _data(options: Options) -> Data:
    given = [name for name in ("dump", "schema", "template") if getattr(options, name)]
    if len(given) > 1:
        raise ValueError(f"{' and '.join(f'--{name}' for name in given)}: choose one")
    if options.statements and options.from_pg_stat_statements:
        raise ValueError("--statements and --from-pg-stat-statements: choose one")
    if options.rows_from and not options.schema:
        raise ValueError("--rows-from goes with --schema")
    if options.dump:
        return of_dump(options.dump)
    if options.schema:
        return of_schema(options.schema, options.rows_from)
    if options.template:
        return template.planned(options.template)
    raise ValueError("no data: give --dump FILE, --schema FILE.sql with --rows-from FILE.sql, or --template HOST/DB")


def _statements(options: Options) -> tuple[tuple[Statement, ...], tuple[observed.LeftOut, ...]]:
    if options.from_pg_stat_statements:
        return observed.statements(options.from_pg_stat_statements, options.top, options.params)
    if options.params:
        raise ValueError("--params goes with --from-pg-stat-statements; a file of statements has its rules in it")
    if not options.statements:
        raise ValueError("no statements: give --statements FILE.sql, or --from-pg-stat-statements DSN|FILE.csv")
    return statements.read(user_path(options.statements)), ()


def _amount(statements: tuple[Statement, ...], planned: Record) -> str:
    count, what = (len(planned), "script") if planned else (len(statements), "statement")
    return f"{count} {what}{'' if count == 1 else 's'}"


def _recorded(record: Record) -> tuple[Statement, ...]:
    return msgspec.convert(record.get("statements", []), tuple[Statement, ...])


def _of(record: Record) -> Data:
    return msgspec.convert(record.get("data", {}), Data)


def _run_in(step: Record, known: dict[str, Statement]) -> tuple[Statement, ...]:
    if step["kind"] == DATA:
        return ()
    return (known[step["name"]],) if step["kind"] == ROLE else tuple(known.values())


WORKLOAD: Workload = Own()

"""Preparation of a task, the command that is timed, and the clean-up after it."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from pathlib import Path

from workloads.client.connection import Check, Session
from workloads.micro.hyperfine import HyperfineFailed
from workloads.micro.spec import MicroSpec
from workloads.micro.task_cluster import Cluster

BATCHES = 2000  # that WAL is written in, or a few times as many
BATCH_ROWS = 50  # at least: some hundred bytes of WAL each
ROW_WAL = 32  # a low guess
PER_TABLE = 50  # tables of the dumped schema that are made at once
PROVIDERS = {
    "libc": ("--locale-provider=libc",),
    "icu": ("--locale-provider=icu", "--icu-locale=und"),
    "builtin": ("--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
}
PROVIDERS_SINCE = 15
# Rows and their order depend only on their number, so that all versions make the same ones.
ROWS = """
CREATE TABLE {0} AS
SELECT i AS id, ('x' || substr(md5(i::text), 1, 8))::bit(32)::int AS k, md5((i + 1)::text) AS v
FROM generate_series(1, {1}) AS i
"""
SETTLED = ("ALTER TABLE {0} SET (autovacuum_enabled = off)", "VACUUM (FREEZE, ANALYZE) {0}")
# Only the requested WAL, and none of it early.
WITHOUT_CHECKPOINTS = """
autovacuum = off
checkpoint_timeout = '1d'
max_wal_size = '1TB'
"""
REDO = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), redo_lsn) FROM pg_control_checkpoint()"


@dataclass(frozen=True, slots=True)
class PreparedTask:
    """A command to time, `empty` (does nothing), and `done`, called afterwards: CPU seconds of unawaited servers.

    `sql` is the statement that psql asks the cell's server for: its time is without psql's own, the time of `empty`.
    """

    command: list[str]
    empty: list[str]
    folder: str
    environment: dict[str, str]
    done: Callable[[], float] = lambda: 0.0
    work: dict[str, float] = field(default_factory=dict)
    sql: str = ""


def prepared(spec: MicroSpec, check: Check) -> Generator[PreparedTask, None, None]:
    """The runs of a step's task.

    Those on the cell's server are all prepared before the first, so that the server does nothing else during timing.
    Those with clusters of their own are prepared one by one, each after the previous one's cluster is removed; the
    last one's is removed when the generator is closed. Raises Failed, SqlError, and any exception of the check.
    """
    task, _, provider = spec.step.partition(".")
    if spec.kit is None:
        yield from PREPARATIONS[task](spec, check)
        return
    for _ in range(spec.options.runs):
        with Cluster(spec.kit, Path(spec.kit.folder) / spec.step) as cluster:
            yield _initdb(cluster, provider, spec) if task == "initdb" else _started(cluster, task, spec, check)


def _initdb(cluster: Cluster, provider: str, spec: MicroSpec) -> PreparedTask:
    cluster.data.mkdir(mode=0o700)
    arguments = PROVIDERS[provider] if cluster.kit.major >= PROVIDERS_SINCE else ()
    command = cluster.initdb(*arguments, *(("--no-sync",) if spec.options.no_sync else ()))
    return PreparedTask(command, [command[0], "--version"], str(cluster.data), dict(cluster.kit.environment))


def _started(cluster: Cluster, task: str, spec: MicroSpec, check: Check) -> PreparedTask:
    crashed = task == "recovery"
    cluster.initialise(check, not spec.options.no_sync, WITHOUT_CHECKPOINTS if crashed else "")
    wal_bytes = _crash(cluster, spec.options.recovery_wal << 20, check) if crashed else 0
    return PreparedTask(
        cluster.start,
        [cluster.start[0], "--version"],
        str(cluster.data),
        dict(cluster.kit.environment),
        cluster.end,
        {"WAL bytes to replay": wal_bytes} if crashed else {},
    )


def _crash(cluster: Cluster, wanted: int, check: Check) -> int:
    """Write `wanted` bytes of WAL and kill the server; return the amount to replay."""
    with cluster.server(check) as dsn, Session(dsn, check) as session:
        session.run(
            "SET synchronous_commit = on",
            "CREATE TABLE written (id bigint PRIMARY KEY, v text)",
            "CREATE INDEX ON written (v)",
            "CHECKPOINT",
        )
        rows, low = max(BATCH_ROWS, wanted // ROW_WAL // BATCHES), 0
        while (replayable := session.number(REDO)) < wanted:
            if low * ROW_WAL > wanted:
                raise HyperfineFailed(f"{low:,} rows made {replayable:,} bytes of WAL only")
            session.run(
                f"INSERT INTO written SELECT i, md5(i::text) FROM generate_series({low + 1}, {low + rows}) AS i"
            )
            low += rows
        return replayable


def _init(spec: MicroSpec, check: Check) -> list[PreparedTask]:
    """Each run makes its tables in a schema of its own: dropping others would add to the work of later runs."""
    schemas = [f"run_{number}" for number in _numbers(spec)]
    with Session(spec.dsn, check) as session:
        session.run(*(f"CREATE SCHEMA {schema}" for schema in schemas), "CHECKPOINT")
    pgbench = spec.programs["pgbench"]
    command = [pgbench, "-i", "-I", "dtGvp", "-q", "-s", str(spec.options.pgbench_scale), spec.dsn]
    return [
        _against_cell(spec, command, [pgbench, "--version"], PGOPTIONS=f"-c search_path={schema}") for schema in schemas
    ]


def _index(spec: MicroSpec, check: Check) -> list[PreparedTask]:
    with Session(spec.dsn, check) as session:
        _table(session, "indexed", spec.options.table_rows)
        session.run("SELECT sum(k) FROM indexed", "CHECKPOINT")
    return [_statement(spec, f"CREATE INDEX indexed_k_{number} ON indexed (k)") for number in _numbers(spec)]


def _vacuum(spec: MicroSpec, check: Check) -> list[PreparedTask]:
    tables = [f"vacuumed_{number}" for number in _numbers(spec)]
    with Session(spec.dsn, check) as session:
        for table in tables:
            _table(session, table, spec.options.table_rows)
            session.run(f"CREATE INDEX ON {table} (k)", f"DELETE FROM {table} WHERE id % 10 = 0")
        session.run("CHECKPOINT")
    return [_statement(spec, f"VACUUM {table}") for table in tables]


def _dump(spec: MicroSpec, check: Check) -> list[PreparedTask]:
    with Session(spec.dsn, check) as session:
        session.run("CREATE SCHEMA dumped")
        for first in range(1, spec.options.dump_tables + 1, PER_TABLE):
            last = min(first + PER_TABLE - 1, spec.options.dump_tables)
            session.run(*(sql for number in range(first, last + 1) for sql in _dumped_table(number)))
        session.run("ANALYZE", "CHECKPOINT")
    pg_dump = spec.programs["pg_dump"]
    command = [pg_dump, "--format=custom", "--compress=0", "--schema=dumped", "--no-sync", "--file=/dev/null"]
    command.append(spec.dsn)
    return [_against_cell(spec, command, [pg_dump, "--version"])] * spec.options.runs


def _dumped_table(number: int) -> tuple[str, ...]:
    name = f"dumped.t{number}"
    return (
        f"CREATE TABLE {name} (id int PRIMARY KEY, k int NOT NULL, v text DEFAULT 'none', CHECK (k > 0))",
        f"CREATE INDEX ON {name} (k)",
        f"CREATE INDEX ON {name} (v)",
        f"INSERT INTO {name} SELECT i, i, md5(i::text) FROM generate_series(1, 100) AS i",
    )


def _numbers(spec: MicroSpec) -> range:
    return range(1, spec.options.runs + 1)


PREPARATIONS = {"init": _init, "index": _index, "vacuum": _vacuum, "dump": _dump}


def _table(session: Session, name: str, rows: int) -> None:
    session.run(ROWS.format(name, rows), *(sql.format(name) for sql in SETTLED))


def _against_cell(spec: MicroSpec, command: list[str], empty: list[str], **more: str) -> PreparedTask:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return PreparedTask(command, empty, spec.folder, environment | {"LC_ALL": "C", "PGAPPNAME": "pgbed-micro"} | more)


def _statement(spec: MicroSpec, sql: str) -> PreparedTask:
    return replace(_against_cell(spec, _asking(spec, sql), _asking(spec, "SELECT 1")), sql=sql)


def _asking(spec: MicroSpec, sql: str) -> list[str]:
    return [spec.programs["psql"], "--no-psqlrc", "--quiet", f"--command={sql}", spec.dsn]

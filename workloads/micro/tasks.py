"""Table of the tasks: the timed work, its requirements, and rough times of the task and its preparation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from workloads.micro.options import Options
from workloads.names import UnknownName

MB = 1 << 20
EMPTY_CLUSTER = 48 * MB
SCALE = 16 * MB  # of pgbench, with its indexes
ROW = 90  # bytes of a table's row, with its index
INDEX_ROW = 25
DUMPED_TABLE = 80_000
SEGMENTS = 64 * MB  # of WAL, in a cluster with few writes


@dataclass(frozen=True, slots=True)
class Task:
    """A task. `apart` ones make clusters of their own. Times are rough, in seconds on a small machine.

    `takes_s` is the time of one run; those `apart` are prepared before each run, others once for all runs.
    `bytes` is the growth of the cell's cluster, or the size of its own. `needs` see `workloads.base.Step`. What is a
    `statement` on the cell's server may be cut, and run in slices.
    """

    name: str
    text: str
    takes_s: Callable[[Options], float]
    prepared_in_s: Callable[[Options], float] = lambda _: 0.5
    bytes: Callable[[Options], int] = lambda _: EMPTY_CLUSTER
    needs: tuple[str, ...] = ()
    apart: bool = False
    statement: bool = False
    provider: str = ""

    @property
    def step(self) -> str:
        return f"{self.name}.{self.provider}" if self.provider else self.name


TASKS = (
    Task("initdb", "initdb with the locale provider libc", lambda _: 3.0, apart=True, provider="libc"),
    Task("initdb", "initdb with ICU", lambda _: 3.0, apart=True, provider="icu", needs=("icu",)),
    Task("initdb", "initdb with the builtin provider", lambda _: 3.0, apart=True, provider="builtin",
         needs=("builtin",)),
    Task("start", "start of a server, until it accepts connections", lambda _: 0.2, lambda _: 2.0, apart=True),
    Task("recovery", "start after kill -9, with WAL to replay, until it accepts connections",
         lambda options: 0.5 + options.recovery_wal / 60, lambda options: 3.0 + options.recovery_wal / 20,
         lambda options: EMPTY_CLUSTER + SEGMENTS + 2 * options.recovery_wal * MB, apart=True),
    Task("init", "pgbench -i, its rows made by the server", lambda options: 0.4 * options.pgbench_scale,
         bytes=lambda options: options.runs * options.pgbench_scale * SCALE, needs=("pgbench",)),
    Task("index", "CREATE INDEX on a loaded table", lambda options: 0.1 + options.table_rows / 1e6,
         lambda options: 1.0 + options.table_rows / 2e5,
         lambda options: options.table_rows * (ROW + INDEX_ROW * (options.runs - 1)), needs=("psql",), statement=True),
    Task("vacuum", "VACUUM of a table with an index, a tenth of its rows deleted",
         lambda options: 0.1 + options.table_rows / 3e6, 
         lambda options: 1.0 + options.runs * options.table_rows / 1.5e5,
         lambda options: options.runs * options.table_rows * ROW, needs=("psql",), statement=True),
    Task("dump", "pg_dump of a schema, by one pg_dump for all", lambda options: 0.3 + options.dump_tables / 400,
         lambda options: 1.0 + options.dump_tables / 50, lambda options: options.dump_tables * DUMPED_TABLE,
         needs=("pg_dump",)),
    Task("plan", "planning a DELETE of a queue table's oldest rows, over one connection",
         lambda options: options.plans / 300, lambda options: 1.0 + options.plans / 300,
         lambda options: (50_000 + 150 * options.plans) * ROW),
)  # fmt: skip
BY_STEP = {task.step: task for task in TASKS}


def chosen(names: Sequence[str]) -> tuple[Task, ...]:
    """Tasks by their own names or their steps', in table order; all if empty. Raises UnknownName."""
    known = dict.fromkeys([*(task.name for task in TASKS), *BY_STEP])
    for name in names:
        if name not in known:
            raise UnknownName("task", name, tuple(known))
    return tuple(task for task in TASKS if not names or task.name in names or task.step in names)

"""The task `plan`: how long a server plans a DELETE of a queue table's oldest rows, by its own clock.

Table and statement are the Insert Benchmark's. The preceding rows are deleted before each planning, so that dead
entries stand at the low end of the index, which the planner reads to estimate where the key begins. No process is
started for a statement, so nothing but the planner is timed.
"""

from __future__ import annotations

import re

from workloads.client.connection import Check, Session
from workloads.client.counter_page import Page
from workloads.client.process import clock, recorder
from workloads.insert.ddl import create_indexes, create_table, delete_template
from workloads.insert.steps import GENERATIONS
from workloads.micro.hyperfine import HyperfineFailed

TABLE = "queue"
GENERATION = "g24b"
ROWS_LEFT = 50_000
ROWS_DELETED = 150  # by each statement
PLANNED = re.compile(rb"Planning Time: ([0-9.]+) ms")
DELETE = delete_template("range", TABLE, ROWS_DELETED)


def prepare(dsn: str, plans: int, check: Check) -> None:
    """Make the table. Raises SqlError, and any exception of the check."""
    generation, rows = GENERATIONS[GENERATION], ROWS_LEFT + ROWS_DELETED * (plans + 1)
    with Session(dsn, check) as session:
        session.run(
            *create_table(generation, TABLE),
            f"ALTER TABLE {TABLE} SET (autovacuum_enabled = off)",
            f"INSERT INTO {TABLE} (dateandtime, cashregisterid, customerid, productid, price, data) "
            f"SELECT '2026-01-01', i % 1000, i % 100000, i % 10000, i % 500, 'row' "
            f"FROM generate_series(1, {rows}) AS i ORDER BY i",
            *create_indexes(generation, TABLE),
            f"VACUUM (FREEZE, ANALYZE) {TABLE}",
            "CHECKPOINT",
        )


def plan(session: Session, page: Page, plans: int) -> None:
    """Plan statements `plans` times, and count the time of each in the first slot of the page."""
    record = recorder(page, 0, 1)
    for number in range(plans):
        low = number * ROWS_DELETED + 1
        session.run(DELETE % {"lo": low, "hi": low + ROWS_DELETED})
        following = DELETE % {"lo": low + ROWS_DELETED, "hi": low + 2 * ROWS_DELETED}
        answer = session.run(f"EXPLAIN (SUMMARY) {following}")
        lines = (answer.get_value(row, 0) or b"" for row in range(answer.ntuples))
        planned = next((match for line in lines if (match := PLANNED.search(line))), None)
        if planned is None:
            raise HyperfineFailed("EXPLAIN (SUMMARY) has no planning time")
        ended_ns = clock()
        record(ended_ns - round(float(planned[1]) * 1e6), ended_ns, 1, 0)

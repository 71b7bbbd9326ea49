"""The index role: builds a table's indexes one after another, several times if so planned, and times each build.

Times are active time: in slices the server is stopped in the middle of its statements, and the clock's time then is
not its doing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import msgspec

from workloads.client import client_gate
from workloads.client.connection import execute
from workloads.client.counter_page import Control, State, Word
from workloads.client.process import active, check_stop, clock, recorder, untimed, wait_for
from workloads.insert import ddl
from workloads.insert.roles import RoleContext

CHECKPOINT = "CHECKPOINT"


def index(context: RoleContext) -> None:
    """Build the client's indexes, once its inserts are done."""
    page, step = context.page, context.spec.step
    statements = ddl.create_indexes(context.form, context.table, context.options.indexes)
    builds = step.builds if statements else 0
    inserts = page.slot(context.partners.insert_slot) + Word.STATE
    context.ready()  # bound as others are: two servers whose builds have different CPUs differ by several percent
    wait_for(page, lambda: page.words[inserts] >= State.DONE, context.partners.wake_delete)
    record = recorder(page, context.slot, 0)
    times_s: list[float] = []
    for build in range(builds):
        if builds > 1:
            _untimed(context, _without_indexes(context))
        took_ns = 0
        for number, sql in enumerate(statements, 1):
            check_stop(page)
            context.set(Word.IN_FLIGHT_NS, clock())
            began_ns = active(page)
            execute(context.connection, sql.encode())
            ended_ns = clock()
            build_ns = client_gate.active_ns(page, ended_ns) - began_ns
            record(ended_ns - build_ns, ended_ns, 0, 0)
            took_ns += build_ns
            # Counted once although several indexes are built; in parts, to show progress.
            context.set(Word.ROWS, step.rows_indexed * (build * len(statements) + number) // len(statements))
        times_s.append(took_ns / 1e9)
    if builds > 1 or (builds and page.words[Control.PAUSED_NS]):  # else the step lasts as long as the reference's
        os.write(context.report_fd, msgspec.json.encode(times_s) + b"\n")


def _without_indexes(context: RoleContext) -> Iterable[str]:
    """Statements for the same state before each build: no index, and nothing to be written.

    Autovacuum leaves the table alone until all servers have done their builds: a build would have to wait for it, for a
    second or more, or until it has been cancelled; and it would come only to the server that is faster.
    """
    yield f"ALTER TABLE {context.table} SET ({ddl.AUTOVACUUM} = off)"
    yield ddl.drop_indexes(context.form, context.table, context.options.indexes)
    if context.spec.checkpoint:
        yield CHECKPOINT


def _untimed(context: RoleContext, statements: Iterable[str]) -> None:
    for sql in statements:
        with untimed(context.page, context.slot):
            execute(context.connection, sql.encode())

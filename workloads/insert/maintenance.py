"""Maintenance around the steps: before writes, the pause between load and queries, background vacuums. Text only."""

from __future__ import annotations

from workloads.api.base import Maintenance
from workloads.insert.ddl import AUTOVACUUM, table_name
from workloads.insert.options import Options
from workloads.insert.steps import G24B, Generation, InsertStep

FIRST_WITH_INDEX_CLEANUP = 12  # major version whose VACUUM has the option

# g22, before each query step but the first: two vacuums per table in the background, this far apart; the step starts
# this long after the second without waiting for either.
BACKGROUND_VACUUMS = 2
BACKGROUND_VACUUM_GAP_S = 5.0

CHECKPOINT = "CHECKPOINT"


def maintenance(options: Options, step: InsertStep, server_major: int) -> Maintenance:
    form, tables = options.form, [table_name(client) for client in range(1, options.clients + 1)]
    vacuums = tuple(vacuum_statement(form, table, server_major) for table in tables)
    if step.background_vacuum:
        return Maintenance(background=(vacuums,) * BACKGROUND_VACUUMS, gap_s=BACKGROUND_VACUUM_GAP_S)
    if step.kind == "pause":
        return Maintenance((vacuums, (CHECKPOINT,)) if form.checkpoint_and_sleep else (vacuums,), least_s=step.seconds)
    if step.builds > 1:
        return Maintenance(after=(tuple(f"ALTER TABLE {table} RESET ({AUTOVACUUM})" for table in tables),))
    if step.kind == "write" and options.before_writes == "vacuum":
        # In all generations with ANALYZE and without dead index entries: on both depends how long a DELETE is planned.
        return Maintenance(before=(tuple(vacuum_statement(G24B, table, server_major) for table in tables),))
    return Maintenance()


def vacuum_statement(form: Generation, table: str, server_major: int) -> str:
    """The vacuum of one table, for a server of that major version; all tables' vacuums run at once."""
    options = ["VERBOSE"]
    if form.vacuum_analyze:
        options.append("ANALYZE")
    if form.vacuum_index_cleanup and server_major >= FIRST_WITH_INDEX_CLEANUP:
        options.append("INDEX_CLEANUP ON")
    return f"VACUUM ({', '.join(options)}) {table}"

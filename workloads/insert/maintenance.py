"""Maintenance around the steps: the pause between load and queries, g22's background vacuums. Text only."""

from __future__ import annotations

from workloads.base import Maintenance
from workloads.insert.ddl import table_name
from workloads.insert.steps import Generation, Step

FIRST_WITH_INDEX_CLEANUP = 12  # major version whose VACUUM has the option

# g22, before each query step but the first: two vacuums per table in the background, this far apart; the step starts
# this long after the second without waiting for either.
BACKGROUND_VACUUMS = 2
BACKGROUND_VACUUM_GAP_S = 5.0

CHECKPOINT = "CHECKPOINT"


def maintenance(form: Generation, clients: int, step: Step, server_major: int) -> Maintenance:
    vacuums = tuple(vacuum_statement(form, table_name(client), server_major) for client in range(1, clients + 1))
    if step.background_vacuum:
        return Maintenance(background=(vacuums,) * BACKGROUND_VACUUMS, gap_s=BACKGROUND_VACUUM_GAP_S)
    if step.kind == "pause":
        return Maintenance((vacuums, (CHECKPOINT,)) if form.checkpoint_and_sleep else (vacuums,), least_s=step.seconds)
    return Maintenance()


def vacuum_statement(form: Generation, table: str, server_major: int) -> str:
    """The vacuum of one table, for a server of that major version; those of all tables run at once."""
    options = ["VERBOSE"]
    if form.vacuum_analyze:
        options.append("ANALYZE")
    if form.vacuum_index_cleanup and server_major >= FIRST_WITH_INDEX_CLEANUP:
        options.append("INDEX_CLEANUP ON")
    return f"VACUUM ({', '.join(options)}) {table}"

"""What is done around the steps: the pause between load and queries, g22's background vacuums.

Pure functions; the engine runs the statements and does the waiting. How long the pause lasts is in its `Step.seconds`.
"""

from __future__ import annotations

from workloads.insert.schema import table_name
from workloads.insert.steps import Generation, generation

FIRST_WITH_INDEX_CLEANUP = 12  # major version whose VACUUM knows the option

# g22, before each query step but the first: two vacuums per table in the background, so far apart, and the step
# starts so long after the second without waiting for either.
BACKGROUND_VACUUMS = 2
BACKGROUND_VACUUM_GAP_S = 5.0

CHECKPOINT = "CHECKPOINT"


def vacuum_statement(generation: Generation, table: str, server_major: int) -> str:
    """The pause's vacuum of one table, for a server of that major version; the tables' run at once."""
    options = ["VERBOSE"]
    if generation.vacuum_analyze:
        options.append("ANALYZE")
    if generation.vacuum_index_cleanup and server_major >= FIRST_WITH_INDEX_CLEANUP:
        options.append("INDEX_CLEANUP ON")
    return f"VACUUM ({', '.join(options)}) {table}"


def vacuum_statements(generation: Generation, clients: int, server_major: int) -> tuple[str, ...]:
    """The vacuum of every client's table, each for a session of its own."""
    return tuple(vacuum_statement(generation, table_name(n), server_major) for n in range(1, clients + 1))


def pause_statements(
    generation_name: str, clients: int, server_major: int = FIRST_WITH_INDEX_CLEANUP
) -> tuple[tuple[str, ...], ...]:
    """The pause's statements: groups one after another, those within a group at once, each in its own session."""
    form = generation(generation_name)
    vacuums = vacuum_statements(form, clients, server_major)
    return (vacuums, (CHECKPOINT,)) if form.checkpoint_and_sleep else (vacuums,)


def background_vacuum_statements(generation_name: str, clients: int) -> tuple[str, ...]:
    """The vacuums of one of the two rounds before a step whose `background_vacuum` is set."""
    return vacuum_statements(generation(generation_name), clients, FIRST_WITH_INDEX_CLEANUP)

"""Planning time without privilege: what pg_stat_statements counted over a step, by statement.

Not per connection, and without the server's own maxima: those are since its start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from engine.core.model import Build
from engine.postgres.pgstat import Monitor, Number, question
from workloads.api.lists import comma_list

PROBE = "planstats"  # also the view's name; its objects are query ids
ROLE = "statements"  # pseudo-role in a step's probes: all connections
LIBRARIES, LIBRARY = "shared_preload_libraries", "pg_stat_statements"
SETTINGS = ((LIBRARIES, LIBRARY), ("pg_stat_statements.track_planning", "on"))  # both need a restart
CLIENTS_MAX = 8  # the documentation warns of contention with more clients on one statement


def settings(changes: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The user's settings plus the required ones, keeping libraries that the user preloads."""
    preloaded = dict(changes).get(LIBRARIES, "")
    libraries = [name for name in comma_list(preloaded) if name != LIBRARY]
    wanted = ((LIBRARIES, ",".join([*libraries, LIBRARY])), *SETTINGS[1:])
    names = {name for name, _ in wanted}
    return (*((name, value) for name, value in changes if name not in names), *wanted)


def unavailable(build: Build) -> str:
    """The reason why a build cannot count planning, as one line; empty if it can."""
    if question(PROBE, build.major * 10000) is None:
        return (
            f"planstats: PostgreSQL {build.major} cannot track planning time; "
            f"use the planner probe (needs root) or EXPLAIN"
        )
    if not any((build.bin.parent / "share").rglob(f"{LIBRARY}.control")):
        return f"planstats: {build.label} comes without {LIBRARY}; use a build with contrib, or the planner probe"
    return ""


def contention(clients: int) -> tuple[str, ...]:
    if clients <= CLIENTS_MAX:
        return ()
    return (f"planstats: with more than {CLIENTS_MAX} clients on the same statements it slows them by contention",)


def begin(monitor: Monitor) -> None:
    """Prepare a database. The monitor's own statements are not counted."""
    schemas = "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = $1"
    if not (schemas_of := monitor.ask(schemas, (LIBRARY,))):
        monitor.ask(f"CREATE EXTENSION {LIBRARY} SCHEMA public")
        schemas_of = [("public",)]
    monitor.ask(f"SET search_path = pg_catalog, {schemas_of[0][0]}")
    monitor.ask(f"SET {LIBRARY}.track = none")


def record(statements: Iterable[Mapping[str, Number]], seconds: float) -> dict[str, Any]:
    counted = tuple(statements)
    names = {name for one in counted for name in one} | {"plans", "plan_us", "calls", "exec_us"}
    return {name: sum(one[name] for one in counted) for name in sorted(names)} | {"seconds": seconds}

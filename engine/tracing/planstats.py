"""Planning time without privilege: what pg_stat_statements counted over a step, statement by statement.

Not per connection, and without the server's own figures of the longest: those are since its start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from engine.core.model import Build
from engine.postgres.pgstat import Monitor, Number, question

PROBE = "planstats"  # also the name of the view, with query ids for objects
ROLE = "statements"  # what stands for a role in a step's probes: all connections together
LIBRARIES, LIBRARY = "shared_preload_libraries", "pg_stat_statements"
SETTINGS = ((LIBRARIES, LIBRARY), ("pg_stat_statements.track_planning", "on"))  # both need a restart
CLIENTS_MAX = 8  # the documents warn of contention with more clients on the same statement


def settings(changes: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The user's settings with those that it needs; libraries that the user preloads are kept."""
    own = dict(changes).get(LIBRARIES, "")
    libraries = [name.strip() for name in own.split(",") if name.strip() and name.strip() != LIBRARY]
    wanted = ((LIBRARIES, ",".join([*libraries, LIBRARY])), *SETTINGS[1:])
    names = {name for name, _ in wanted}
    return (*((name, value) for name, value in changes if name not in names), *wanted)


def unavailable(build: Build) -> str:
    """Why a build cannot count planning, as one line; empty when it can."""
    if question(PROBE, build.major * 10000) is None:
        return (
            f"planstats: PostgreSQL {build.major} cannot track planning time; "
            f"use the planner probe (needs root) or EXPLAIN"
        )
    if not any((build.bin.parent / "share").rglob(f"{LIBRARY}.control")):
        return f"planstats: {build.label} comes without {LIBRARY}; use a build with contrib, or the planner probe"
    return ""


def contention(clients: int) -> tuple[str, ...]:
    """The line for more clients than it is made for."""
    if clients <= CLIENTS_MAX:
        return ()
    return (f"planstats: with more than {CLIENTS_MAX} clients on the same statements it slows them by contention",)


def begin(monitor: Monitor) -> None:
    """Make a database ready to be asked. The monitor's own statements are not counted."""
    monitor.ask(f"CREATE EXTENSION IF NOT EXISTS {LIBRARY}")
    monitor.ask(f"SET {LIBRARY}.track = none")


def record(statements: Iterable[Mapping[str, Number]], seconds: float) -> dict[str, Any]:
    """All statements of a step together, as a probe's record of a step."""
    counted = tuple(statements)
    totals = {name: sum(one[name] for one in counted) for name in ("plans", "plan_us", "calls", "exec_us")}
    return {**totals, "seconds": seconds}

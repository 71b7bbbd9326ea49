"""Planning time without privilege: what pg_stat_statements counted over a step, statement by statement.

Not per connection, and without the server's own figures of the longest: those are since its start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from engine.model import Build
from engine.pgstat import Monitor
from probes import planstats
from probes.errors import ProbeError
from probes.planstats import CLIENTS_MAX, SETTINGS, Totals

PROBE = "planstats"
ROLE = "statements"  # what stands for a role in a step's probes: all connections together
LIBRARIES, LIBRARY = SETTINGS[0]


def settings(changes: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The user's settings with those that it needs, beside libraries that the user has loaded."""
    own = dict(changes).get(LIBRARIES, "")
    libraries = [name.strip() for name in own.split(",") if name.strip() and name.strip() != LIBRARY]
    wanted = ((LIBRARIES, ",".join([*libraries, LIBRARY])), *SETTINGS[1:])
    names = {name for name, _ in wanted}
    return (*((name, value) for name, value in changes if name not in names), *wanted)


def unavailable(build: Build) -> str:
    """Why a build cannot count planning, as one line; empty when it can."""
    try:
        planstats.query(build.major)
    except ProbeError as error:
        return str(error)
    if not any((build.bin.parent / "share").rglob(f"{LIBRARY}.control")):
        return f"planstats: {build.label} comes without {LIBRARY}; use a build with contrib, or the planner probe"
    return ""


def contention(clients: int) -> tuple[str, ...]:
    """The line for more clients than it is made for."""
    if clients <= CLIENTS_MAX:
        return ()
    return (f"planstats: with more than {CLIENTS_MAX} clients on the same statements it slows them by contention",)


def begin(monitor: Monitor) -> None:
    """Makes a database ready to be asked. The monitor's own statements are not counted."""
    monitor.ask(f"CREATE EXTENSION IF NOT EXISTS {LIBRARY}")
    monitor.ask(f"SET {LIBRARY}.track = none")


def snapshot(monitor: Monitor, major: int) -> dict[int, Totals]:
    """What all statements have cost so far."""
    rows = monitor.ask(planstats.query(major))
    return planstats.totals((int(a or 0), int(b or 0), int(c or 0), int(d or 0), int(e or 0)) for a, b, c, d, e in rows)


def difference(before: dict[int, Totals], after: dict[int, Totals]) -> dict[str, dict[str, dict[str, Any]]]:
    """What a step added, in the form of the journal's differences: by query id."""
    found = planstats.difference(before, after)
    return {PROBE: {str(query): asdict(totals) for query, totals in found.items()}}


def record(statements: Iterable[dict[str, Any]], seconds: float) -> dict[str, Any]:
    """All statements of a step together, as a probe's record of a step."""
    total: dict[str, Any] = {"plans": 0, "plan_us": 0, "calls": 0, "exec_us": 0, "seconds": seconds}
    for one in statements:
        for name in ("plans", "plan_us", "calls", "exec_us"):
            total[name] += one[name]
    return total

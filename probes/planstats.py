"""The probe without privilege for planning: pg_stat_statements, PostgreSQL 13 and later. Pure; the caller queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files

from probes.errors import ProbeError

# What the server must be started with; both need a restart.
SETTINGS = (("shared_preload_libraries", "pg_stat_statements"), ("pg_stat_statements.track_planning", "on"))
CLIENTS_MAX = 8  # the documents warn of contention with more clients on the same statement


@dataclass(frozen=True, slots=True)
class Totals:
    """What one statement has cost so far. Times in us."""

    plans: int
    plan_us: int
    calls: int
    exec_us: int


def query(major: int) -> str:
    """The SQL for a major version. Raises ProbeError for 12, which cannot know."""
    if major < 13:
        raise ProbeError(
            f"planstats: PostgreSQL {major} cannot track planning time; use the planner probe (needs root) or EXPLAIN"
        )
    return (files("probes") / "sql" / "planstats.130000.sql").read_text(encoding="utf-8")


def totals(rows: Iterable[tuple[int, int, int, int, int]]) -> dict[int, Totals]:
    """The query's rows by query id."""
    return {queryid: Totals(*counts) for queryid, *counts in rows}


def difference(before: Mapping[int, Totals], after: Mapping[int, Totals]) -> dict[int, Totals]:
    """What was added between two readings, by query id; statements without activity are left out.

    A statement whose counts fell was evicted or reset in between: its new counts are all that is known, and they are
    of this interval.
    """
    found = {}
    for queryid, now in after.items():
        last = before.get(queryid)
        if last is None or now.calls < last.calls or now.plans < last.plans:
            change = now
        else:
            change = Totals(
                now.plans - last.plans, now.plan_us - last.plan_us, now.calls - last.calls, now.exec_us - last.exec_us
            )
        if change.calls or change.plans:
            found[queryid] = change
    return found

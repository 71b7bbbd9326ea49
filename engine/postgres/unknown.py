"""Parts of a server that pgbed does not know: a later version is measured, and missing parts are reported."""

from __future__ import annotations

from collections.abc import Sequence

from engine.core.wait_kinds import NEWEST_MAJOR, is_known
from engine.postgres import pgstat
from engine.postgres.pgstat import Monitor

FIRST_WITH_LIST = 170000  # pg_wait_events
MOST_NAMED = 10
# The views of counters that version 19 has.
VIEWS = frozenset({
    "pg_stat_activity", "pg_stat_archiver", "pg_stat_autovacuum_scores", "pg_stat_bgwriter", "pg_stat_checkpointer",
    "pg_stat_database", "pg_stat_database_conflicts", "pg_stat_gssapi", "pg_stat_io", "pg_stat_lock",
    "pg_stat_recovery", "pg_stat_recovery_prefetch", "pg_stat_replication", "pg_stat_replication_slots",
    "pg_stat_slru", "pg_stat_ssl", "pg_stat_subscription", "pg_stat_subscription_stats", "pg_stat_user_functions",
    "pg_stat_wal", "pg_stat_wal_receiver", "pg_stat_xact_user_functions", "pg_stats", "pg_stats_ext",
    "pg_stats_ext_exprs",
})  # fmt: skip
# Of these there is one for each kind of command, and one for tables of users, of the system and of both.
FAMILIES = r"^pg_stat_progress_|^pg_stat(io)?(_xact)?_(all|sys|user)_(tables|indexes|sequences)$"


def unknown(monitor: Monitor, dropped: Sequence[str] = ()) -> tuple[str, ...]:
    """The missing or new parts, in words; empty for a version that pgbed knows. Raises MonitorError.

    `dropped` are the settings of the config that the server does not know.
    """
    pgstat.snapshot(monitor)
    lines = [f"statistics of {view} are left out: {reason}" for view, reason in monitor.undefined.items()]
    if monitor.version // 10000 > NEWEST_MAJOR:
        lines += [f"there is no setting {name} any more" for name in dropped]
        views = monitor.ask(
            "SELECT viewname FROM pg_views WHERE schemaname = 'pg_catalog' AND viewname ~ '^pg_stat'"
            " AND viewname !~ $1 ORDER BY viewname",
            (FAMILIES,),
        )
        lines += _named("statistics view", [name for (name,) in views if name and name not in VIEWS])
    if monitor.version >= FIRST_WITH_LIST:
        events = monitor.ask("SELECT type || ':' || name FROM pg_wait_events ORDER BY 1")
        lines += _named("wait event", [event for (event,) in events if event and not is_known(event)])
    return tuple(lines)


def _named(what: str, names: list[str]) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return [f"{what}{'s' if len(names) > 1 else ''} {', '.join(names[:MOST_NAMED])}{more}"]

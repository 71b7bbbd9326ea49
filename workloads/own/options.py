"""Options of workload own: where data and statements come from, and how long each statement is run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from workloads.api.options import MAX_CLIENTS, about, checked, options_of

SECONDS, SLICED_SECONDS = 10, 2


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of workload own."""

    dump: Annotated[
        str | None,
        about(
            "Your data: a dump by pg_dump, as an archive (custom, directory or tar) or as SQL.",
            metavar="FILE|DIR",
            brief="own: a dump of your database.",
            excludes=["schema", "template"],
        ),
    ] = None
    schema: Annotated[
        str | None,
        about("Your tables as SQL, if there is no dump; with --rows-from.", metavar="FILE.sql", excludes=["template"]),
    ] = None
    rows_from: Annotated[
        str | None,
        about("SQL that fills the tables of --schema, such as INSERT … generate_series.", metavar="FILE.sql"),
    ] = None
    template: Annotated[
        str | None,
        about(
            "A database that is dumped once before the run, read-only and in one snapshot: a connection string, or "
            "HOST/DB.",
            metavar="HOST/DB",
        ),
    ] = None
    trust_dump: Annotated[
        bool,
        about(
            "Restore the data as a superuser, for functions in C, operator classes or foreign servers. The dump can "
            "then run programs as the servers' account: only if you trust its author."
        ),
    ] = False
    statements: Annotated[
        str | None,
        about(
            "Your statements: a file in which `-- name: WORD` stands before each, or a folder of pgbench scripts.",
            metavar="FILE.sql|DIR",
            brief="own: your statements.",
            excludes=["from_pg_stat_statements"],
        ),
    ] = None
    from_pg_stat_statements: Annotated[
        str | None,
        about(
            "Take the statements from pg_stat_statements of a server (a connection string), or from its rows as CSV.",
            metavar="DSN|FILE.csv",
        ),
    ] = None
    top: Annotated[
        Annotated[int, Meta(ge=1, le=1000)],
        about("How many statements of pg_stat_statements, those that took most time first.", metavar="N"),
    ] = 20
    params: Annotated[
        str | None, about("Rules for the values of $1, … of statements from pg_stat_statements.", metavar="FILE.sql")
    ] = None
    mix: Annotated[bool, about("One step with all statements, drawn by their weights, instead of one step each.")] = (
        False
    )
    check_results: Annotated[
        bool, about("Compare a digest of each statement's result between the builds, not only its number of rows.")
    ] = False
    plans_only: Annotated[
        bool, about("Compare only plans and planning times, of hundreds of statements in a minute or two.")
    ] = False
    seconds: Annotated[
        Annotated[int, Meta(ge=1, le=86_400)],
        about(
            "Length of each step in seconds, in slices the active time of each server.",
            metavar="N|TIME",
            unit="s",
            unset=f"{SECONDS}, in slices {SLICED_SECONDS}",
        ),
    ] = SECONDS
    clients: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_CLIENTS)], about("Clients that execute the statements at once.", metavar="N")
    ] = 1
    max_result: Annotated[
        Annotated[int, Meta(ge=1, le=1000)],
        about("Largest result of a statement, in MB; one that returns more is not run.", metavar="MB", rare=True),
    ] = 64


def recorded(record: Mapping[str, Any]) -> Options:
    """The options of a plan's record; those added by another version are ignored."""
    known = {option.name for option in options_of(Options)}
    return checked(Options, {name: value for name, value in record.get("options", {}).items() if name in known})

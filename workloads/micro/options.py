"""Options of one-shot timings: the tasks, and the amount of work for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from workloads.api.options import about, checked, options_of


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of workload micro."""

    steps: Annotated[
        tuple[str, ...],
        about(
            "Only these tasks: initdb, start, recovery, init, index, vacuum, dump, plan; also initdb.libc, "
            "initdb.icu, initdb.builtin.",
            metavar="TASK,…",
            flag="--tasks",
            unset="all",
        ),
    ] = ()
    runs: Annotated[
        Annotated[int, Meta(ge=1, le=1000)],
        about(
            "How often each task except plan is timed in a cell, prepared again each time; the mean is one sample.",
            metavar="N",
            rare=True,
        ),
    ] = 1
    pgbench_scale: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)], about("Scale factor for pgbench -i.", metavar="N")
    ] = 10
    table_rows: Annotated[
        Annotated[int, Meta(ge=1000, le=2_000_000_000)],
        about("Rows of the tables that are indexed and vacuumed.", metavar="N", rare=True),
    ] = 500_000
    recovery_wal: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)],
        about("WAL to replay after the server is killed, in MB.", metavar="MB", rare=True),
    ] = 128
    dump_tables: Annotated[
        Annotated[int, Meta(ge=1, le=100_000)],
        about(
            "Tables of the schema that is dumped, each with 100 rows, a key and two indexes.", metavar="N", rare=True
        ),
    ] = 200
    plans: Annotated[
        Annotated[int, Meta(ge=2, le=1_000_000)],
        about("How often to plan a DELETE of a queue table's oldest rows.", metavar="N", rare=True),
    ] = 200
    no_sync: Annotated[bool, about("Run initdb without waiting for the disk (-N).", rare=True)] = False


def recorded(record: Mapping[str, Any]) -> Options:
    """The options of a plan's record; those added by another version are ignored."""
    known = {option.name for option in options_of(Options)}
    return checked(Options, {name: value for name, value in record.get("options", {}).items() if name in known})

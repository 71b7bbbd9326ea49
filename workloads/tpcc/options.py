"""Options of the TPC-C-like workload; recorded with the result, since each can change it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from workloads.api.options import MAX_CLIENTS, about, checked
from workloads.pgbench.options import Options as PgbenchOptions

# Options that the steps of a plan imply, so that they are not compared by themselves.
SHAPE = ("clients", "seconds", "load")
TRIES = 10


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of the TPC-C-like workload."""

    clients: Annotated[
        int,
        Meta(ge=1, le=MAX_CLIENTS),
        about("Clients, on any of the warehouses.", brief="Clients; pgbench: a step for each number.", metavar="N"),
    ] = 4
    jobs: Annotated[Annotated[int, Meta(ge=1, le=256)], about("Threads of pgbench.", metavar="N")] = 1
    warehouses: Annotated[
        Annotated[int, Meta(ge=1, le=10_000)], about("Warehouses, of about 16 MB each.", metavar="N")
    ] = 4
    seconds: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)], about("Length of each step.", metavar="S", unit="s")
    ] = 10
    load: Annotated[
        Annotated[float, Meta(gt=0, le=1)] | None,
        about(
            "Add a step at this share of the base's capacity, its transactions begun at random times.",
            metavar="SHARE",
            unit="share",
            unset="capacity only",
        ),
    ] = None

    def for_pgbench(self, rate: float | None = None) -> PgbenchOptions:
        return PgbenchOptions(
            clients=(self.clients,),
            jobs=self.jobs,
            seconds=self.seconds,
            pgbench_scale=self.warehouses,
            protocol="prepared",
            rate=rate,
            max_tries=TRIES,
            log_every=1,
        )


def recorded(record: Mapping[str, Any]) -> Options:
    """The options in a plan's record. Raises UnknownName or ValueError for an invalid record."""
    return checked(Options, record["options"])

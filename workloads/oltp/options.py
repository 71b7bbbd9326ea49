"""Options of the OLTP tests; recorded with the result, since each can change it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from workloads.api.options import Clients, PresetName, Steps, about, checked

MOST_TABLES = 64
# Options that the steps of a plan imply, so that they are not compared by themselves.
SHAPE = ("clients", "tests", "steps", "seconds", "preset", "scale", "pause_seconds")


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of the OLTP tests."""

    clients: Annotated[Clients, about("Clients, each on any of the tables.", metavar="N")] = 1
    tables: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_TABLES)], about("Tables, of which each statement takes one.", metavar="N")
    ] = 1
    rows: Annotated[Annotated[int, Meta(ge=1000, le=10**9)], about("Rows of each table.", metavar="N")] = 200_000
    tests: Annotated[
        tuple[str, ...],
        about("Run only these tests, or groups of them: point, range, aggregate, scan, write.", metavar="TEST,…"),
    ] = ()
    steps: Steps = ()
    seconds: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)],
        about("Length of each test; scans take three times as long.", metavar="S", unit="s"),
    ] = 10
    pause_seconds: Annotated[
        Annotated[int, Meta(ge=0, le=100_000)],
        about("Shortest length of a vacuum's step.", metavar="S", unit="s", rare=True),
    ] = 0
    preset: PresetName = None
    scale: Annotated[
        Literal["quick", "cached", "io", "slow"] | None, about("Named size of a preset.", metavar="NAME", unset="quick")
    ] = None
    between: Annotated[
        Literal["none", "evict", "cold"],
        about(
            "What to do before a test: evict makes a checkpoint and evicts the tables from shared buffers; cold also "
            "removes their files from the page cache."
        ),
    ] = "none"
    placement: Annotated[
        Literal["free", "paired"],
        about("paired binds each client and its backend to one CPU: less noise, but no scheduling to measure."),
    ] = "free"


def recorded(record: Mapping[str, Any]) -> Options:
    """The options in a plan's record. Raises UnknownName or ValueError for an invalid record."""
    return checked(Options, record["options"])

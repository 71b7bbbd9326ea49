"""Options of the pgbench workloads. Names follow pgbench's own options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from workloads.api.options import MAX_CLIENTS, PresetName, Steps, about, checked, options_of
from workloads.presets import preset

Count = Annotated[int, Meta(ge=1, le=10**9)]

DEFAULT_CLIENTS = (1, 2, 4, 8)
DEFAULT_SECONDS = 10
# The option that passes pgbench's own words for its initialization.
# Options that the steps of a plan imply, so that they are not compared by themselves.
SHAPE = ("clients", "steps", "seconds", "transactions", "script", "setup", "preset", "scale")


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of pgbench over its own tables: the steps, how long each is, and the clients' work."""

    clients: Annotated[
        tuple[Annotated[int, Meta(ge=1, le=MAX_CLIENTS * 4)], ...] | None,
        about(
            "Numbers of clients: a step for each, on one database.",
            metavar="N,…",
            unset=",".join(map(str, DEFAULT_CLIENTS)),
        ),
    ] = None
    jobs: Annotated[Annotated[int, Meta(ge=1, le=256)], about("Threads of pgbench.", metavar="N")] = 1
    seconds: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        about(
            "Length of each step.",
            brief=f"Length of pgbench's steps [{DEFAULT_SECONDS}].",
            metavar="S",
            unit="s",
            unset=f"{DEFAULT_SECONDS}, unless transactions are given",
            excludes=["transactions"],
        ),
    ] = None
    transactions: Annotated[
        Count | None,
        about(
            "Transactions of each client, instead of a length.",
            metavar="N",
            unset="as many as a length allows",
            excludes=["seconds"],
        ),
    ] = None
    steps: Steps = ()
    preset: PresetName = None
    scale: Annotated[
        Literal["quick", "cached", "io"] | None, about("Named size of a preset.", metavar="NAME", unset="quick")
    ] = None
    pgbench_scale: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)],
        about("Scale factor of pgbench's tables: 100,000 accounts per unit.", metavar="N"),
    ] = 10
    protocol: Annotated[Literal["simple", "extended", "prepared"], about("How statements are sent to the server.")] = (
        "simple"
    )
    rate: Annotated[
        Annotated[float, Meta(gt=0, le=1e9)] | None,
        about("Transactions to begin per second, at random times (Poisson).", metavar="TPS", unset="unlimited"),
    ] = None
    latency_limit: Annotated[
        Annotated[float, Meta(gt=0, le=1e7)] | None,
        about(
            "Limit of the response time in ms: slower transactions are counted; with --rate, those already this late "
            "are skipped.",
            metavar="MS",
            unset="none",
            unit="ms",
        ),
    ] = None
    max_tries: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)],
        about("Tries of a transaction that fails with a deadlock or a serialization error.", metavar="N"),
    ] = 1
    continue_on_error: Annotated[
        bool,
        about(
            "Go on after a statement that fails, such as for a unique constraint (pgbench 19); transactions that "
            "failed are counted.",
            rare=True,
        ),
    ] = False
    define: Annotated[
        tuple[str, ...], about("A variable of the scripts.", metavar="NAME=VALUE", flag="-D", repeated=True)
    ] = ()
    connect: Annotated[bool, about("Open a new connection for each transaction.")] = False
    between: Annotated[
        Literal["auto", "none", "vacuum", "evict", "cold"],
        about(
            "What to do before a step: auto vacuums and makes a checkpoint if the scripts write; evict makes one and "
            "evicts the relations from shared buffers; cold also removes their files from the page cache."
        ),
    ] = "auto"
    warmup_seconds: Annotated[
        Annotated[int, Meta(ge=0, le=3600)],
        about("Length of the warm-up after the database is created.", metavar="S", unit="s"),
    ] = 2
    log_every: Annotated[
        Annotated[int, Meta(ge=1, le=10_000)] | None,
        about(
            "Log one transaction of N, for rates and latencies: a full log costs pgbench 6%.",
            metavar="N",
            unset="1, or what keeps it to 500 lines a second in the first warm-up",
            rare=True,
        ),
    ] = None
    init_steps: Annotated[
        str,
        about(
            "Steps of pgbench's initialization, in order: d, t, g or G, v, p, f (foreign keys).",
            metavar="STEPS",
            rare=True,
        ),
    ] = "dtGvp"
    fillfactor: Annotated[
        Annotated[int, Meta(ge=10, le=100)], about("Fill factor of the tables.", metavar="PERCENT", rare=True)
    ] = 100
    unlogged: Annotated[bool, about("Make the tables unlogged.", rare=True)] = False
    pgbench_partitions: Annotated[
        Annotated[int, Meta(ge=0, le=10_000)], about("Partitions of the accounts, by range.", metavar="N", rare=True)
    ] = 0


class ScriptOptions(Options, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of pgbench with scripts of the user's own."""

    script: Annotated[
        tuple[str, ...],
        about(
            "Scripts to run, each with its weight; also pgbench's own: select-only, simple-update, tpcb-like.",
            metavar="FILE[@WEIGHT],…",
            argument=True,
        ),
    ] = ()
    setup: Annotated[
        str, about("A script that is run once in step init, to create tables and data.", metavar="FILE", rare=True)
    ] = ""


def common(options: Options) -> Options:
    return Options(**{name: getattr(options, name) for name in Options.__struct_fields__})


def check_scale(options: Options) -> None:
    """Raises ValueError for a named size without a preset, which would define it."""
    if options.scale is not None and options.preset is None:
        raise ValueError(f"--scale {options.scale} is a preset's; the size of pgbench's tables is --pgbench-scale")


def preset_parts(options: Options) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Settings and probes of the requested preset. Raises UnknownName."""
    named = preset(options.preset) if options.preset else None
    return (named.settings, named.probes) if named else ((), ())


def recorded(record: Mapping[str, Any]) -> Options:
    """The options of a plan's record; those added by another version are ignored."""
    classes: dict[str, type[Options]] = {"pgbench": ScriptOptions}
    cls = classes.get(record["name"], Options)
    known = {option.name for option in options_of(cls)}
    return checked(cls, {name: value for name, value in record.get("options", {}).items() if name in known})

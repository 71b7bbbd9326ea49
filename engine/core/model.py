"""Values that all packages share: builds, configs, cells, the plan, what was counted. Immutable, JSON in and out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from engine.core.counters import Counters, EventCount
from engine.core.kernel import HOST, GuestMachine, Kernel
from engine.core.route import SOCKET, Route
from workloads.base import COUNTED_IN_ROWS, Headline, role_kind

LEVEL = 0.05  # how often a family of verdicts may be wrong
SLA_FRACTION = 0.95
SLA_ALLOWANCE_S = 0.1  # for the last burst and for seeing the step's end
ROLE_ORDER = ("insert", "delete", "query", "index", "transaction")
Interleave = Literal["cells", "slices"]
Stopping = Literal["busy", "all", "none"]  # of a server's background processes, outside its slices
SCHEMA = (1, 7)  # of the journal: major, minor

# What a step is judged by, by its kind: for older records, which do not hold it.
OLD_HEADLINES = {
    "load": Headline("insert", "rows/s"),
    "index": Headline("index", "rows/s", live=False),
    "write": Headline("insert", "rows/s"),
    "query": Headline("query", "queries/s"),
}


def headline_of(kind: str, plan: Mapping[str, Any]) -> Headline | None:
    """What a step is judged by, from its record in the journal or a manifest; None for one without a rate."""
    found = plan.get("headline")
    return msgspec.convert(found, Headline) if found else None if "headline" in plan else OLD_HEADLINES.get(kind)


def workload_title(workload: Mapping[str, Any]) -> str:
    """What a manifest's workload is, besides its name, in a few words: `g24b quick`."""
    return str(workload.get("title") or f"{workload.get('generation', '')} {workload.get('scale', '')}".strip())


@dataclass(frozen=True, slots=True)
class Build:
    """A PostgreSQL server: binaries and how its cluster is initialised.

    `label` is what the user types (`16.3`, `17beta1-builtin`, `16.3-prebuilt`, or a name given to a
    local install). `prefix` is the install folder that holds `bin/postgres`. `digest` names the exact
    binaries: the store path's hash part, or the sha256 of `bin/postgres` for a local install.
    `provenance` is `source`, `prebuilt`, `local`, or `attached`: a server that was running already, at `server`, of
    which there is no `prefix`, and whose `digest` names the cluster and its version. `initdb_args` are added to every
    `initdb`. `source` says what a tree or a revision was: its commit, and the hash of what differs from it.
    """

    label: str
    version: str
    prefix: str
    digest: str
    provenance: str
    compiler: str = "unknown"
    flags: str = "unknown"
    patches: tuple[str, ...] = ()
    initdb_args: tuple[str, ...] = ()
    server: str = ""  # where to connect to, without a password
    source: str = ""

    @property
    def attached(self) -> bool:
        """Whether it is a server that was running already."""
        return self.provenance == "attached"

    @property
    def major(self) -> int:
        """The major version: 17 for `17beta1`."""
        match = re.match(r"\d+", self.version)
        if match is None:
            raise ValueError(f"not a PostgreSQL version: {self.version}")
        return int(match.group())

    @property
    def bin(self) -> Path:
        """The folder of `postgres` and `initdb`."""
        return Path(self.prefix) / "bin"


@dataclass(frozen=True, slots=True)
class Config:
    """A named settings overlay, as it applies to one server version.

    `settings` are name and value in order; `dropped` are those of the overlay that the version does not know.
    `origin` says where it came from: `built in`, `scaled to this machine`, or a file's path. `device` are name and
    value of what is set of the block device under the cluster while a cell runs.
    """

    name: str
    settings: tuple[tuple[str, str], ...]
    origin: str
    dropped: tuple[str, ...] = ()
    device: tuple[tuple[str, str], ...] = ()


PROBED_ARM = "probed"
ARMS = {"": "", "aa": " A/A", PROBED_ARM: " probed"}  # what tables add to a double's name


@dataclass(frozen=True, slots=True)
class Subject:
    """What is compared: one build under one config, kernel and workload.

    `arm` is `aa` for the base's own double, `probed` for the double that bears the probes whose cost is asked for.
    `workload` is one of `Manifest.arms`; empty where all subjects have the same.
    """

    build: str
    config: str
    kernel: str = HOST
    arm: str = ""
    workload: str = ""

    @property
    def name(self) -> str:
        """Its name in tables: `16.3`, `16.3 insert+pgbench-select`, or `16.3 A/A` for the double."""
        return " ".join(filter(None, (self.build, self.workload))) + ARMS.get(self.arm, f" {self.arm}")


def baseline(subject: Subject, base: Subject, subjects: Iterable[Subject]) -> Subject:
    """What a subject is compared with: one that differs from it in one thing, or the base.

    A double (A/A, probed) with what it doubles; one of another workload than the base with its own build under that
    of the base, if there is such a one among the `subjects`.
    """
    if subject.arm:
        return replace(subject, arm="")
    under = replace(subject, workload=base.workload)
    return under if subject.workload != base.workload and under in subjects else base


@dataclass(frozen=True, slots=True)
class Cell:
    """One fresh cluster and all its steps. `id` is unique in its run and names the cell's folder.

    `ordinal` is its place in time, from 0; `repeat` counts from 1 and pairs cells of different subjects.
    """

    id: str
    ordinal: int
    subject: Subject
    repeat: int


@dataclass(frozen=True, slots=True)
class RoleTotals:
    """What one role (all its connections) did in one step. Times in ns; the server side is its backends.

    `histogram` is of service time and `response` of time from the intended start (empty for closed loops):
    sparse pairs (bucket, count) of `workloads.histogram`. `buckets` are the reference client's ten counters.
    `backend_*` are None where the server's processes cannot be seen.
    `short_deletes` deleted a different number of rows than requested; `min_lookups` of the low key took
    `min_lookup_ns` together, `max_lookups` are point queries' for the greatest key. `connect_ns` is what connecting
    took all of them together, `late_max_ns` the longest response, `paired` how many are bound to their backend's CPU.
    `waits` count what backends were seen waiting for, at `wait_looks` moments, each time all of them.
    """

    connections: int
    statements: int
    rows: int
    rows_actual: int
    service_ns: int
    max_ns: int
    backend_cpu_ns: int | None
    backend_runq_ns: int | None
    backend_switches: int | None
    backend_involuntary: int | None
    backend_read_bytes: int | None
    backend_write_bytes: int | None
    client_cpu_ns: int
    client_runq_ns: int
    client_switches: int
    short_deletes: int = 0
    min_lookups: int = 0
    min_lookup_ns: int = 0
    max_lookups: int = 0
    connect_ns: int = 0
    late_max_ns: int = 0
    paired: int = 0
    limited_ns: int = 0
    coupled_ns: int = 0
    saturated: bool = False
    histogram: tuple[tuple[int, int], ...] = ()
    response: tuple[tuple[int, int], ...] = ()
    buckets: tuple[int, ...] = (0,) * 10
    outcomes: dict[str, int] = field(default_factory=dict)  # of transactions, by `workloads.page.OUTCOMES`; not zeros
    waits: dict[str, int] = field(default_factory=dict)  # by `type:event`; '' those that waited for nothing
    wait_looks: int = 0


@dataclass(frozen=True, slots=True)
class Timing:
    """What the programs of a step took: see `workloads.base.Launch`. None where it is not known."""

    user_s: float | None = None
    system_s: float | None = None
    memory_bytes: float | None = None
    floor_s: float | None = None
    server_cpu_s: float | None = None
    times_s: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class FirstEnd:
    """When the first of several clients had done its work, and what all had done by then: `workloads.base.Launch`."""

    seconds: float
    transactions: float


@dataclass(frozen=True, slots=True)
class StepTotals:
    """Everything counted over one step, before any division. Times in ns, sizes in bytes.

    `server_*` counts all server processes, those that ended in the step included; its bytes are those of
    `engine.host.procfs.Task`: read from the device, but written to the page cache. `host` and `device` are
    differences of the kernel's counters: see `engine.host.counters` for their keys. `observers` are the probes that
    were active in any part of it, `probes` what they counted, by role: see `probes.figures`. `seconds` are without the
    pauses of a step in slices, whose length by the machine's clock is `wall_seconds`: 0 for a step without pauses.
    In a step that was `apart` the server had no part. Of a server that was running already there is no `server_*`, no
    host, device, cluster and memory.
    `beside` are the roles of further loads, and what their rates count. `counters` are events by role, `server` all
    server processes that are no connection's: `engine.core.counters`; `counters_note` says what was not counted,
    and why.
    """

    seconds: float
    roles: dict[str, RoleTotals]
    server_cpu_ns: int | None
    server_runq_ns: int | None
    server_switches: int | None
    server_read_bytes: int | None
    server_write_bytes: int | None
    client_cpu_ns: int
    engine_cpu_ns: int
    wal_bytes: int | None
    rows_indexed: int = 0
    rows_expected: int = 0
    rate_target_per_s: float = 0.0
    heap_bytes: int = 0
    index_bytes: int = 0
    database_bytes: int = 0
    cluster_bytes: int | None = 0
    rss_bytes: int | None = 0
    host: dict[str, int] = field(default_factory=dict)
    device: dict[str, int] = field(default_factory=dict)
    observers: tuple[str, ...] = ()
    probes: dict[str, dict[str, Any]] = field(default_factory=dict)
    headline: Headline | None = None  # None where none was recorded
    report: dict[str, Any] = field(default_factory=dict)  # what the workload's clients said of it at the end
    wall_seconds: float = 0.0
    apart: bool = False
    beside: dict[str, str] = field(default_factory=dict)
    counters: dict[str, dict[str, EventCount]] = field(default_factory=dict)
    counters_note: str = ""

    @property
    def paused(self) -> bool:
        """Whether there were pauses, in which other servers worked: host and device then counted theirs, too."""
        return self.wall_seconds > 0

    def of_kind(self, kind: str) -> list[RoleTotals]:
        """The totals of all roles of a kind: with several query workers `query` and `query2`, each by itself."""
        return [role for name, role in self.roles.items() if role_kind(name) == kind]


class Counted(Protocol):
    """What has been counted of a role: its totals, or one of its intervals."""

    @property
    def statements(self) -> int: ...

    @property
    def rows(self) -> int: ...


def role_place(name: str) -> tuple[int, str]:
    """Where a role stands in a list: the common ones in `ROLE_ORDER`, others after them by name."""
    kind = role_kind(name)
    return ROLE_ORDER.index(kind) if kind in ROLE_ORDER else len(ROLE_ORDER), name


def progress(role: str, of: Counted) -> int:
    """What a role's rate counts: rows, or the statements of roles such as query."""
    return of.rows if role_kind(role) in COUNTED_IN_ROWS else of.statements


def ops(kind: str, totals: StepTotals) -> int:
    """How many operations a step did: rows inserted or indexed, queries, or the statements that it is judged by."""
    if kind == "index":
        return totals.rows_indexed
    headline = judged_by(kind, totals)
    if headline is not None and headline.by == "time":
        return sum(role.statements for role in totals.of_kind(headline.role))
    return sum(progress(headline.role, role) for role in totals.of_kind(headline.role)) if headline else 0


def judged_by(kind: str, totals: StepTotals) -> Headline | None:
    """What a step of that kind is judged by; None for one without a rate."""
    return totals.headline or OLD_HEADLINES.get(kind)


def time_s(kind: str, totals: StepTotals) -> float | None:
    """The mean time of its statements, of a step that is judged by that."""
    headline = judged_by(kind, totals)
    if headline is None or headline.by != "time":
        return None
    roles, count = totals.of_kind(headline.role), ops(kind, totals)
    return sum(role.service_ns for role in roles) / 1e9 / count if count else None


def rows(kind: str, totals: StepTotals) -> int:
    """The rows that a step inserted, or indexed."""
    return totals.rows_indexed if kind == "index" else sum(role.rows for role in totals.of_kind("insert"))


@dataclass(frozen=True, slots=True)
class Sla:
    """Whether a query step kept up its insert rate. Rates are over all clients, per second.

    `passed`, which verdicts go by: rows / exact seconds >= round(0.95 x target), with a tenth of a second allowed for.
    The limiters lose no second: the last round is due when the nominal time has passed. `reference_passed` is the
    published rule, by whole seconds rounded up, of which a short step may fall short by the rounding alone.
    """

    passed: bool
    reference_passed: bool
    achieved_per_s: float
    target_per_s: float
    required_per_s: float


def sla(kind: str, totals: StepTotals) -> Sla | None:
    """The 95 % rule on the insert rate; None for a step without a target."""
    target = totals.rate_target_per_s
    if kind != "query" or target <= 0 or totals.seconds <= 0:
        return None
    inserted = rows(kind, totals)
    required = round(SLA_FRACTION * target)
    whole_s = max(1, int(totals.seconds + 0.999999))  # the reference sees the end at its next one-second tick
    counted_s = max(totals.seconds - SLA_ALLOWANCE_S, 0.9 * totals.seconds)
    return Sla(
        passed=inserted / counted_s >= required,
        reference_passed=inserted / whole_s >= required,
        achieved_per_s=inserted / totals.seconds,
        target_per_s=target,
        required_per_s=required,
    )


@dataclass(frozen=True, slots=True)
class Look:
    """A moment at which a run may end because all is known: after so many pairs, with verdicts at `level`."""

    pairs: int
    level: float


# Of --until-known. The levels add up to 5 %, so that a run that ends at any look is wrong no more often than others.
LOOKS = (Look(3, 0.025), Look(5, 0.012), Look(8, 0.013))


SLICE_MS = (20.0, 1000.0)  # the shortest slices, and the longest
MOST_MINUTES = 100_000.0  # that a run may be given


@dataclass(frozen=True, slots=True)
class Attached:
    """How servers are used that were running already.

    `accept_foreign_load`: verdicts are given although others may use them. `scratch_database`: the empty database to
    work in; else each cell makes one of its own. `checkpoint`: the role may do one on each of them.
    """

    accept_foreign_load: bool = False
    scratch_database: str = ""
    checkpoint: bool = True


@dataclass(frozen=True, slots=True)
class Manifest:
    """All that is decided before the first cell, and what it was decided on: `manifest.json`.

    `workload` is the JSON form of what `workloads` planned (name, generation, scale, clients, steps, knobs). Where
    workloads are compared, `arms` are all of them by what they are called, and it is the first. `configs` maps
    "config/build" to the settings as they apply to that build.
    """

    run: str
    created: str  # wall clock, ISO 8601 with offset
    engine: str  # version of pgbed
    seed: int
    base: str
    repeats: int
    aa: bool
    margin: float  # the smallest effect to call faster or slower, a fraction
    builds: tuple[Build, ...]
    configs: dict[str, Config]
    workload: dict[str, Any]
    cells: tuple[Cell, ...]
    stall_rule: dict[str, Any]
    environment: dict[str, Any]
    keep: bool = False
    allow_concurrent: bool = False  # other runs may measure on this machine at the same time
    observers: tuple[str, ...] = ()  # probes, as they were asked for: see engine.tracing.selection
    probe_budget: float = 5.0  # the most that a probe in mode budget may be estimated to cost, in percent
    allow_slow_probes: bool = False
    counters: Counters = "off"
    perf: dict[str, str] = field(default_factory=dict)  # what counts: its path and version; empty where there is none
    interleave: Interleave = "cells"
    interleave_reason: str = ""  # where it was not asked for
    slice_ms: float = 50.0  # of slices: how long each is
    stop: Stopping = "busy"
    looks: tuple[Look, ...] = ()  # after which it may end, in order; none: all repeats are run
    minutes: float | None = None  # the time that all repeats may take; then `repeats` are the most
    kernels: tuple[Kernel, ...] = ()  # that are booted: all but the host's
    guest: GuestMachine | None = None  # where they are; without it this machine is booted into them
    tunables: tuple[tuple[str, str], ...] = ()  # of the scheduler, in all cells
    route: Route = SOCKET  # how clients reach their server
    probes_in_arm: bool = False  # only cells of arm `probed` are probed: the run measures what the probes cost
    attached: Attached | None = None  # all its builds are servers that were running already
    arms: dict[str, dict[str, Any]] = field(default_factory=dict)
    tolerated: dict[str, float] = field(default_factory=dict)  # slow-downs that pass a gate: see engine.core.tolerance
    request: dict[str, Any] = field(default_factory=dict)  # as a plan file has it; without connection strings
    revision: str = ""  # of the flake that measured; empty where it was none, or had changes

    def record(self) -> dict[str, Any]:
        """The JSON form."""
        return {"schema": list(SCHEMA), **msgspec.to_builtins(self)}

    def build(self, label: str) -> Build:
        """The build of a label."""
        return next(build for build in self.builds if build.label == label)

    def level(self, pairs: int) -> float | None:
        """The level of verdicts after so many pairs: of the look that they are at or on the way to; None without."""
        ahead = [look.level for look in self.looks if pairs <= look.pairs]
        return ahead[0] if ahead else self.looks[-1].level if self.looks else None

    def workload_of(self, subject: Subject) -> dict[str, Any]:
        """The workload of a subject."""
        return self.arms.get(subject.workload, self.workload)

    @property
    def workloads(self) -> tuple[dict[str, Any], ...]:
        """All workloads of its cells."""
        return tuple(self.arms.values()) or (self.workload,)

    def config(self, subject: Subject) -> Config:
        """The settings of a subject."""
        return self.configs[config_key(subject.config, subject.build)]

    def kernel(self, label: str) -> Kernel | None:
        """The kernel of a label; None for the host's."""
        return next((kernel for kernel in self.kernels if kernel.label == label), None)

    def in_guest(self, subject: Subject) -> bool:
        """Whether a subject's kernel is booted in a guest."""
        return subject.kernel != HOST and self.guest is not None

    @property
    def rebooting(self) -> bool:
        """Whether this machine itself is booted into a cell's kernel, for each cell."""
        return bool(self.kernels) and self.guest is None

    @property
    def sliced(self) -> bool:
        """Whether the cells of a repeat ran side by side, driven in slices where a step allows it."""
        return self.interleave == "slices"

    @property
    def design(self) -> str:
        """What takes turns: `cells`, or `slices of 50 ms`."""
        return f"slices of {self.slice_ms:g} ms" if self.sliced else "cells"


def config_key(config: str, build: str) -> str:
    """How `Manifest.configs` names a config as it applies to a build."""
    return f"{config}/{build}"

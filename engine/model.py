"""Values that every room shares: builds, configs, steps, cells, the plan. Immutable, JSON in and out."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workloads.insert.spec import role_kind


def known_fields(of: type, record: dict[str, Any]) -> dict[str, Any]:
    """The entries of a JSON object that are fields of a dataclass; others (a newer minor schema's) are passed over."""
    known = {field.name for field in dataclasses.fields(of)}
    return {key: value for key, value in record.items() if key in known}


@dataclass(frozen=True, slots=True)
class Build:
    """A PostgreSQL server: binaries and how its cluster is initialised.

    `label` is what the user types (`16.3`, `17beta1-builtin`, `16.3-prebuilt`, or a name given to a
    local install). `prefix` is the install folder that holds `bin/postgres`. `digest` names the exact
    binaries: the store path's hash part, or the sha256 of `bin/postgres` for a local install.
    `provenance` is `source`, `prebuilt` or `local`. `initdb_args` are added to every `initdb`.
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

    @classmethod
    def of(cls, record: dict[str, Any]) -> Build:
        """From the JSON form; unknown keys (a newer minor schema) are passed over."""
        values = known_fields(cls, record)
        for key in ("patches", "initdb_args"):
            values[key] = tuple(values.get(key, ()))
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Config:
    """A named settings overlay, as it applies to one server version.

    `settings` are name and value in order; `dropped` are those of the overlay that the version does not know.
    `origin` says where it came from: `built in`, `scaled to this machine`, or a file's path.
    """

    name: str
    settings: tuple[tuple[str, str], ...]
    origin: str
    dropped: tuple[str, ...] = ()


PROBED_ARM = "probed"


@dataclass(frozen=True, slots=True)
class Subject:
    """What is compared: one build under one config and kernel.

    `arm` is `aa` for the base's own double, `probed` for the double that bears the probes whose cost is asked for.
    """

    build: str
    config: str
    kernel: str = "host"
    arm: str = ""

    @property
    def name(self) -> str:
        """How tables call it: `16.3`, or `16.3 A/A` for the double."""
        return self.build + {"": "", "aa": " A/A", PROBED_ARM: " probed"}[self.arm]


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
    `short_deletes` removed another number of rows than asked for; `min_lookups` of the low key took
    `min_lookup_ns` together, `max_lookups` are point queries' for the greatest key. `connect_ns` is what connecting
    took all of them together, `late_max_ns` the longest response, `paired` how many are bound to their backend's CPU.
    """

    connections: int
    statements: int
    rows: int
    rows_actual: int
    service_ns: int
    max_ns: int
    backend_cpu_ns: int
    backend_runq_ns: int
    backend_switches: int
    backend_involuntary: int
    backend_read_bytes: int
    backend_write_bytes: int
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


@dataclass(frozen=True, slots=True)
class StepTotals:
    """Everything counted over one step, before any division. Times in ns, sizes in bytes.

    `dbms` counts all server processes, those that ended in the step included; its bytes are those of
    `engine.procfs.Task`: read from the device, but written to the page cache. `host` and `device` are
    differences of the kernel's counters: see `engine.host` for their keys. `observers` are the probes that were active
    in any part of it, `probes` what they counted, by role: see `engine.probed`.
    """

    seconds: float
    roles: dict[str, RoleTotals]
    dbms_cpu_ns: int
    dbms_runq_ns: int
    dbms_switches: int
    dbms_read_bytes: int
    dbms_write_bytes: int
    client_cpu_ns: int
    engine_cpu_ns: int
    wal_bytes: int | None
    rows_indexed: int = 0
    rows_expected: int = 0
    rate_target_per_s: float = 0.0
    heap_bytes: int = 0
    index_bytes: int = 0
    database_bytes: int = 0
    cluster_bytes: int = 0
    rss_bytes: int = 0
    host: dict[str, int] = field(default_factory=dict)
    device: dict[str, int] = field(default_factory=dict)
    observers: tuple[str, ...] = ()
    probes: dict[str, dict[str, Any]] = field(default_factory=dict)

    def of_kind(self, kind: str) -> list[RoleTotals]:
        """The totals of all roles of a kind: with several query workers `query` and `query2`, each by itself."""
        return [role for name, role in self.roles.items() if role_kind(name) == kind]

    @classmethod
    def of(cls, record: dict[str, Any]) -> StepTotals:
        """From the JSON form; unknown keys (a newer minor schema) are passed over."""
        values = known_fields(cls, record)
        values["roles"] = {name: _role_totals(role) for name, role in record["roles"].items()}
        values["observers"] = tuple(values.get("observers", ()))
        return cls(**values)


def _role_totals(record: dict[str, Any]) -> RoleTotals:
    values = known_fields(RoleTotals, record)
    for key in ("histogram", "response"):
        values[key] = tuple((bucket, count) for bucket, count in values.get(key, ()))
    values["buckets"] = tuple(values.get("buckets", (0,) * 10))
    return RoleTotals(**values)

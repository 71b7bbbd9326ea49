"""Values that all packages share: builds, configs, cells, the plan. Immutable, JSON in and out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import msgspec

from engine.core.kernel import HOST, GuestMachine, Kernel
from engine.core.perf_events import Counters
from engine.core.route import SOCKET, Route

LEVEL = 0.05  # how often a family of verdicts may be wrong
Interleave = Literal["cells", "slices"]
Stopping = Literal["busy", "all", "none"]  # of a server's background processes, outside its slices
SCHEMA = "1.0"  # of the manifest and the journal


def workload_title(workload: Mapping[str, Any]) -> str:
    """A manifest's workload in a few words, without its name: `g24b quick`."""
    return str(workload.get("title") or f"{workload.get('generation', '')} {workload.get('scale', '')}".strip())


@dataclass(frozen=True, slots=True)
class Build:
    """A PostgreSQL server: binaries and how its cluster is initialised.

    `label` is what the user types (`16.3`, `17beta1-builtin`, `16.3-prebuilt`, or a name given to a
    local install). `prefix` is the install folder that holds `bin/postgres`. `digest` names the exact
    binaries: the store path's hash part, or the sha256 of `bin/postgres` for a local install.
    `provenance` is `source`, `prebuilt`, `local`, or `external`: an external server, at `server`, which has
    no `prefix`, and whose `digest` names the cluster and its version. `initdb_args` are added to every
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
    def external(self) -> bool:
        """Whether it is an external server, which pgbed did not start."""
        return self.provenance == "external"

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


PROBED = "probed"
CONTROLS = {"": "", "aa": " A/A", PROBED: " probed"}  # what tables add to a control's name


@dataclass(frozen=True, slots=True)
class Subject:
    """What is compared: one build under one config, kernel and workload.

    `control` is `aa` for the A/A control of the base, `probed` for the control that bears the probes to be priced.
    `workload` is one of `Manifest.variants`; empty where all subjects have the same.
    """

    build: str
    config: str
    kernel: str = HOST
    control: str = ""
    workload: str = ""

    @property
    def name(self) -> str:
        """Its name in tables: `16.3`, `16.3 insert+pgbench-select`, or `16.3 A/A` for the control."""
        return " ".join(filter(None, (self.build, self.workload))) + CONTROLS.get(self.control, f" {self.control}")


def baseline(subject: Subject, base: Subject, subjects: Iterable[Subject]) -> Subject:
    """What a subject is compared with: one that differs from it in one thing, or the base.

    A control (A/A, probed) is compared with its original; a subject under another workload than the base's with its
    own build under the base's workload, if that is among the `subjects`.
    """
    if subject.control:
        return replace(subject, control="")
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
class InterimAnalysis:
    """After this many pairs a run may end because all is known; `level` is its share of the error."""

    pairs: int
    level: float


# Of --until-known: in the proportion of these levels looks share what a run may spend: see
# `engine.analysis.alpha_spending`. Numbers of pairs are even: then each server was the first as often as the other.
INTERIM_ANALYSES = (InterimAnalysis(4, 0.02), InterimAnalysis(6, 0.01), InterimAnalysis(8, 0.01))
PAIRS = 6  # of a run in slices, unless another number is given


SLICE_MS = (20.0, 1000.0)  # the shortest slices, and the longest
MOST_MINUTES = 100_000.0  # that a run may be given


def subject_names(subjects: Sequence[Subject]) -> dict[Subject, str]:
    """Names that tell the subjects apart by no more than what differs between them."""
    parts = ("build", "config", "kernel", "workload")
    differing = [part for part in parts if len({getattr(subject, part) for subject in subjects}) > 1] or ["build"]
    return {
        subject: "/".join(getattr(subject, part) for part in differing)
        + CONTROLS.get(subject.control, f" {subject.control}")
        for subject in subjects
    }


@dataclass(frozen=True, slots=True)
class ExternalServers:
    """How external servers are used.

    `accept_foreign_load`: verdicts are given although others may use them. `scratch_database`: the empty database to
    work in; else each cell makes one of its own. `checkpoint`: the role may do one on each of them.
    """

    accept_foreign_load: bool = False
    scratch_database: str = ""
    checkpoint: bool = True
    connections: dict[str, str] = field(default_factory=dict)  # by build's label, without passwords


@dataclass(frozen=True, slots=True)
class Manifest:
    """All that is decided before the first cell, and what it was decided on: `manifest.json`.

    `workload` is the JSON form of what `workloads` planned (name, generation, scale, clients, steps, options). Where
    workloads are compared, `variants` are all of them by what they are called, and it is the first. `configs` maps
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
    perf: dict[str, str] = field(default_factory=dict)  # what counts: its path and version; empty without one
    interleave: Interleave = "cells"
    interleave_reason: str = ""  # where it was not asked for
    slice_ms: float = 50.0  # of slices: how long each is
    stop: Stopping = "busy"
    interim_analyses: tuple[InterimAnalysis, ...] = ()  # after which it may end, in order; none: all repeats are run
    minutes: float | None = None  # the time that all repeats may take; then `repeats` are the most
    kernels: tuple[Kernel, ...] = ()  # that are booted: all but the host's
    guest: GuestMachine | None = None  # where they are; without it this machine is booted into them
    tunables: tuple[tuple[str, str], ...] = ()  # of the scheduler, in all cells
    route: Route = SOCKET  # how clients reach their server
    probes_in_control: bool = False  # only cells of control `probed` are probed: the run measures what the probes cost
    external: ExternalServers | None = None  # if all its builds are external servers
    variants: dict[str, dict[str, Any]] = field(default_factory=dict)
    tolerated: dict[str, float] = field(default_factory=dict)  # slow-downs that pass a gate: see engine.plan.tolerance
    request: dict[str, Any] = field(default_factory=dict)  # as a plan file has it; without connection strings
    revision: str = ""  # of the flake that measured; empty where it was none, or had changes

    def record(self) -> dict[str, Any]:
        """The JSON form."""
        return {"schema": SCHEMA, **msgspec.to_builtins(self)}

    def build(self, label: str) -> Build:
        """The build of a label."""
        return next(build for build in self.builds if build.label == label)

    def workload_of(self, subject: Subject) -> dict[str, Any]:
        """The workload of a subject."""
        return self.variants.get(subject.workload, self.workload)

    @property
    def workloads(self) -> tuple[dict[str, Any], ...]:
        """All workloads of its cells."""
        return tuple(self.variants.values()) or (self.workload,)

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
        """Whether the cells of a repeat ran side by side, interleaved in slices where a step allows it."""
        return self.interleave == "slices"

    @property
    def design(self) -> str:
        """What is interleaved: `cells`, or `slices of 50 ms`."""
        return f"slices of {self.slice_ms:g} ms" if self.sliced else "cells"


def config_key(config: str, build: str) -> str:
    """How `Manifest.configs` names a config as it applies to a build."""
    return f"{config}/{build}"

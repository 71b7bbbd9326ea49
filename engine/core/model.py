"""Values shared by all packages: builds, configs, cells, the plan. Immutable, with a JSON form."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from engine.core.kernel import HOST, GuestMachine, Kernel
from engine.core.record import flattened
from engine.core.route import SOCKET, Route

LEVEL = 0.05  # error rate of a family of verdicts
Interleave = Literal["cells", "slices"]
SCHEMA = "1.0"  # of the manifest and the journal


def workload_title(workload: Mapping[str, Any]) -> str:
    """A manifest's workload in a few words, without its name: `g24b quick`."""
    return str(workload.get("title") or f"{workload.get('generation', '')} {workload.get('scale', '')}".strip())


@dataclass(frozen=True, slots=True)
class Extension:
    """An extension of a label: `name` for CREATE EXTENSION ("" for a library alone), `title` with its source."""

    name: str
    title: str


@dataclass(frozen=True, slots=True)
class Build:
    """A PostgreSQL server: binaries and how its cluster is initialised.

    `label` is what the user types (`16.3`, `17beta1-builtin`, `16.3-prebuilt`, or a name given to a local install).
    `prefix` is the install folder with `bin/postgres`, if it is here. `digest` identifies the exact binaries: the hash
    part of the store path, or the sha256 of `bin/postgres` for a local install. `provenance` is `source`, `prebuilt`,
    `local`, or `external`: an external server, at `server`, whose `digest` identifies the cluster and its version.
    `initdb_args` are added to every `initdb`. `source` identifies a tree or revision: its commit, and the hash of
    uncommitted changes. `extensions` are those that the label names; they are made in each database.
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
    extensions: tuple[Extension, ...] = ()

    @property
    def external(self) -> bool:
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
        return Path(self.prefix) / "bin"


@dataclass(frozen=True, slots=True)
class Config:
    """A named settings overlay, as applied to one server version.

    `settings` are ordered (name, value); `dropped` are settings that the version does not know. `origin` is `built in`,
    `scaled to this machine`, or a file's path. `device` are (name, value) set on the cluster's block device while a
    cell runs.
    """

    name: str
    settings: tuple[tuple[str, str], ...]
    origin: str
    dropped: tuple[str, ...] = ()
    device: tuple[tuple[str, str], ...] = ()


PROBED = "probed"
CONTROLS = {"": "", "aa": " A/A", PROBED: " probed"}  # suffixes of controls in tables


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject of comparison: one build under one config and kernel.

    `control` is `aa` for the A/A control of the base, `probed` for the control with the probes whose cost is measured.
    """

    build: str
    config: str
    kernel: str = HOST
    control: str = ""

    @property
    def name(self) -> str:
        """The name of its build where its config and kernel stand beside it: `16.3 A/A` for the control."""
        return self.build + CONTROLS.get(self.control, f" {self.control}")


def baseline(subject: Subject, base: Subject) -> Subject:
    """The subject to compare with: the base; a control (A/A, probed) is compared with its original."""
    return replace(subject, control="") if subject.control else base


@dataclass(frozen=True, slots=True)
class Cell:
    """One fresh cluster and its steps. `ordinal` is its place in time, from 0; `repeat`, from 1, pairs cells."""

    id: str
    ordinal: int
    subject: Subject
    repeat: int


@dataclass(frozen=True, slots=True)
class InterimAnalysis:
    """After this many pairs steps may be left out, and a run may end; `level` is the error that it spends."""

    pairs: int
    level: float


# Those on the way spend little, so that only a clear result ends a step early; the last one, when the time is
# over or the last pair is done, spends the rest (Haybittle 1971; Peto and others 1976).
INTERIM_ANALYSES = tuple(InterimAnalysis(pairs, 0.001) for pairs in (3, 4, 5, 6, 8, 12, 20, 40))
PAIRS = 8  # default for a run in slices


SLICE_MS = (20.0, 1000.0)  # minimum and maximum
MOST_MINUTES = 100_000.0  # maximum time limit of a run


def subject_names(subjects: Sequence[Subject]) -> dict[Subject, str]:
    """The shortest names that tell the subjects apart: only what differs between them."""
    parts = ("build", "config", "kernel")
    differing = [part for part in parts if len({getattr(subject, part) for subject in subjects}) > 1] or ["build"]
    return {
        subject: "/".join(getattr(subject, part) for part in differing)
        + CONTROLS.get(subject.control, f" {subject.control}")
        for subject in subjects
    }


@dataclass(frozen=True, slots=True)
class ExternalServers:
    """The use of external servers by a run.

    `accept_foreign_load`: give verdicts although others may use them. `scratch_database`: the empty database to work
    in; if not set, each cell creates one. `checkpoint`: the role may checkpoint each of them.
    """

    accept_foreign_load: bool = False
    scratch_database: str = ""
    checkpoint: bool = True
    connections: dict[str, str] = field(default_factory=dict)  # by build label, without passwords


@dataclass(frozen=True, slots=True)
class RunDesign:
    """The design of a run: how often its subjects are measured, in which order, and when it ends."""

    seed: int
    base: str  # label of the build that others are compared with
    repeats: int
    aa: bool
    margin: float  # the smallest effect to call faster or slower, a fraction
    interleave: Interleave = "cells"
    interleave_reason: str = ""  # unless it was requested
    slice_ms: float = 50.0  # length of each slice; the default is for runs that do not record one
    interim_analyses: tuple[InterimAnalysis, ...] = ()  # in order; empty: all repeats are run
    minutes: float | None = None  # time limit for all repeats; `repeats` is then a maximum
    tolerated: dict[str, float] = field(default_factory=dict)  # slowdowns that pass a gate: see engine.plan.tolerance

    @property
    def sliced(self) -> bool:
        """Whether the cells of a repeat ran side by side, interleaved in slices where a step allows it."""
        return self.interleave == "slices"

    @property
    def adaptive(self) -> bool:
        """Whether after each pair it is decided anew how many more there are, of which steps: see `StoppingRule`."""
        return bool(self.interim_analyses)

    @property
    def words(self) -> str:
        """`cells` or `slices of 20 ms`."""
        return f"slices of {self.slice_ms:g} ms" if self.sliced else "cells"


@dataclass(frozen=True, slots=True)
class Origin:
    """The moment at which a run was planned, and the pgbed that planned it."""

    created: str  # wall clock, ISO 8601 with offset
    engine: str  # version of pgbed
    revision: str = ""  # of the flake that measured; empty without one, or if modified


@dataclass(frozen=True, slots=True)
class Observation:
    """The observers of a run: its probes, and the rule by which it notices stalls."""

    stall_rule: dict[str, Any]
    observers: tuple[str, ...] = ()  # probes as requested: see engine.tracing.selection
    allow_slow_probes: bool = False
    probes_in_control: bool = False  # only cells of control `probed` are probed: the run measures the probes' cost


@dataclass(frozen=True, slots=True)
class Boot:
    """The kernels that a run boots, which are all but the host's, and the guest that boots them."""

    kernels: tuple[Kernel, ...] = ()
    guest: GuestMachine | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything decided before the first cell, and its basis: `manifest.json`.

    `workload` is the plan of `workloads` as JSON (name, generation, scale, clients, steps, options). `configs` maps
    "config/build" to the settings as applied to that build. In the JSON form, the fields of `GROUPS` and of `parts`
    (one for each feature) are keys beside the others.
    """

    run: str
    origin: Origin
    design: RunDesign
    builds: tuple[Build, ...]
    configs: dict[str, Config]
    workload: dict[str, Any]
    cells: tuple[Cell, ...]
    observation: Observation
    environment: dict[str, Any]
    keep: bool = False
    allow_concurrent: bool = False  # other runs may measure on this machine at the same time
    boot: Boot = Boot()
    route: Route = SOCKET  # how clients reach their server
    external: ExternalServers | None = None  # if all builds are external servers
    request: dict[str, Any] = field(default_factory=dict)  # as in a plan file, without connection strings
    parts: dict[str, Any] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        record = flattened(self, GROUPS)
        for part in record.pop("parts").values():
            record |= part
        return {"schema": SCHEMA, **record}

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """The subjects, in the order of the plan; the baseline is the first."""
        by_subject = dict.fromkeys(cell.subject for cell in self.cells)
        return tuple(sorted(by_subject, key=lambda subject: subject.build != self.design.base or bool(subject.control)))

    @property
    def baseline(self) -> Subject | None:
        """The first subject of the base build; None without cells of it."""
        return next((one for one in self.subjects if one.build == self.design.base and not one.control), None)

    @property
    def names(self) -> dict[Subject, str]:
        """Each subject's shortest unique name in this run."""
        return subject_names(self.subjects)

    def build(self, label: str) -> Build:
        return next(build for build in self.builds if build.label == label)

    def config(self, subject: Subject) -> Config:
        return self.configs[config_key(subject.config, subject.build)]

    def kernel(self, label: str) -> Kernel | None:
        """The kernel of a label; None for the host's."""
        return next((kernel for kernel in self.boot.kernels if kernel.label == label), None)


GROUPS: dict[str, type] = {
    "origin": Origin,
    "design": RunDesign,
    "observation": Observation,
    "boot": Boot,
}  # fields of a manifest


def config_key(config: str, build: str) -> str:
    return f"{config}/{build}"

"""What a run will do: its subjects, the order of its cells, and what that takes in time and space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from engine.errors import unknown
from engine.journal import SCHEMA
from engine.model import Build, Cell, Config, Subject


def subjects(builds: Sequence[str], configs: Sequence[str], base: str, aa: bool) -> tuple[Subject, ...]:
    """Every build under every config; the base build first, then its double when A/A is asked for.

    Raises UserError when the base is not among the builds.
    """
    if base not in builds:
        raise unknown("base", base, builds)
    ordered = [base, *(build for build in builds if build != base)]
    found: list[Subject] = []
    for config in configs:
        for build in ordered:
            found.append(Subject(build, config))
            if aa and build == base:
                found.append(Subject(build, config, arm="aa"))
    return tuple(found)


def interleave(subjects: Sequence[Subject], repeats: int) -> tuple[Cell, ...]:
    """The cells in ABBA order: odd repeats visit the subjects forward, even ones backward.

    A drift that is linear in time thus adds the same to every subject over each two repeats, and the cells of
    one repeat make the pairs of the comparison.
    """
    cells: list[Cell] = []
    for repeat in range(1, repeats + 1):
        for subject in subjects if repeat % 2 else reversed(subjects):
            ordinal = len(cells)
            name = "-".join(part for part in (subject.build, subject.arm, subject.config) if part)
            cells.append(Cell(f"{ordinal + 1:03d}-{name}-r{repeat}", ordinal, subject, repeat))
    return tuple(cells)


@dataclass(frozen=True, slots=True)
class Manifest:
    """All that is decided before the first cell, and what it was decided on: `manifest.json`.

    `workload` is the JSON form of what `workloads` planned (name, generation, scale, clients, steps, knobs);
    `configs` maps "config/build" to the settings as they apply to that build.
    """

    run: str
    created: str  # wall clock, ISO 8601 with offset
    engine: str  # version of pgbed
    seed: int
    base: str
    repeats: int
    aa: bool
    margin: float  # the smallest effect that is called one, a fraction
    builds: tuple[Build, ...]
    configs: dict[str, Config]
    workload: dict[str, Any]
    cells: tuple[Cell, ...]
    stall_rule: dict[str, Any]
    environment: dict[str, Any]
    keep: bool = False
    beside: bool = False  # other runs may measure on this machine at the same time
    observers: tuple[str, ...] = ()  # probes, as they were asked for: see engine.probeset
    probe_budget: float = 5.0  # the most that a probe in mode budget may be estimated to cost, in percent
    allow_slow_probes: bool = False
    probes_in_arm: bool = False  # only cells of arm `probed` are: the probes' cost is what is asked

    def record(self) -> dict[str, Any]:
        """The JSON form."""
        return {"schema": list(SCHEMA), **asdict(self)}

    @classmethod
    def of(cls, record: dict[str, Any]) -> Manifest:
        """From the JSON form; unknown keys (a newer minor schema) are passed over."""
        values = {key: record[key] for key in cls.__slots__ if key in record}
        values["builds"] = tuple(Build.of(build) for build in record["builds"])
        values["configs"] = {key: config_of(config) for key, config in record["configs"].items()}
        values["cells"] = tuple(cell_of(cell) for cell in record["cells"])
        values["observers"] = tuple(record.get("observers", ()))
        return cls(**values)

    def build(self, label: str) -> Build:
        """The build of a label."""
        return next(build for build in self.builds if build.label == label)

    def config(self, subject: Subject) -> Config:
        """The settings of a subject."""
        return self.configs[config_key(subject.config, subject.build)]


def config_key(config: str, build: str) -> str:
    """How `Manifest.configs` names a config as it applies to a build."""
    return f"{config}/{build}"


def cell_of(record: dict[str, Any]) -> Cell:
    """A cell from its JSON form."""
    return Cell(record["id"], record["ordinal"], Subject(**record["subject"]), record["repeat"])


def config_of(record: dict[str, Any]) -> Config:
    """A config from its JSON form."""
    settings = tuple((name, value) for name, value in record["settings"])
    return Config(record["name"], settings, record["origin"], tuple(record.get("dropped", ())))

"""What `bench compare --json` says, as values that a screen can ask. The JSON is described in `engine.report`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from engine.errors import UserError
from engine.model import known_fields

# The signs that `bench compare` prints; those of better and worse are the glyph set's.
SIGNS = {"faster": "better", "slower": "worse", "same": "=", "inconclusive": "~", "withheld": "?", "none": " "}


@dataclass(frozen=True, slots=True)
class Subject:
    """What is compared: a build under a config and a kernel; `arm` is "aa" for the base's own double."""

    name: str
    build: str
    config: str
    kernel: str
    arm: str


@dataclass(frozen=True, slots=True)
class Ratio:
    """A subject against the base in one metric of one step, as judged by the engine."""

    step: str
    subject: str
    metric: str
    ratio: float | None
    low: float | None
    high: float | None
    pairs: int
    verdict: str
    reasons: tuple[str, ...] = ()
    more_pairs: int | None = None
    better: bool | None = None
    noise_floor: float | None = None


@dataclass(frozen=True, slots=True)
class CellStep:
    """One step of one cell; `figures` is its whole record."""

    run: str
    cell: str
    ordinal: int
    subject: str
    repeat: int
    step: str
    kind: str
    stall_s: float
    stalls: tuple[Mapping[str, Any], ...]
    sla: Mapping[str, Any] | None
    figures: Mapping[str, Any]

    def figure(self, metric: str) -> float | None:
        """One of its figures: a metric of ratios, or `stalls` (seconds) or `sla` (the share of the target)."""
        if metric == "stalls":
            return self.stall_s
        if metric == "sla":
            return self.sla["achieved_per_s"] / self.sla["target_per_s"] if self.sla else None
        value = self.figures.get(metric)
        return float(value) if value is not None else None


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at to see whether cells are of one kind."""

    what: str
    ok: bool
    text: str


@dataclass(frozen=True, slots=True)
class Spread:
    """How the cells of a subject lie in one metric of a step."""

    cv: float
    gap: float
    gap_ratio: float | None
    wide: bool
    two_modes: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that the screen shows. Subjects are in their order, the base first."""

    base: str
    subjects: tuple[Subject, ...]
    steps: tuple[str, ...]
    metrics: Mapping[str, str]  # name -> title
    cells: tuple[CellStep, ...]
    ratios: Mapping[tuple[str, str, str], Ratio]  # by step, subject, metric
    spreads: Mapping[tuple[str, str, str], Spread]  # the same
    likeness: Mapping[str, tuple[Check, ...]]  # by subject
    builds: tuple[Mapping[str, Any], ...]
    findings: tuple[str, ...]
    left_out: tuple[Mapping[str, Any], ...]
    folders: Mapping[str, Path]  # by run
    workload: Mapping[str, Any]
    kernels: tuple[str, ...]
    margin: float
    pairs: int

    @property
    def others(self) -> tuple[Subject, ...]:
        """Those that are compared with the base, its own doubles last."""
        rest = [subject for subject in self.subjects if subject.name != self.base]
        return tuple(sorted(rest, key=lambda subject: subject.arm != ""))

    @property
    def shown(self) -> tuple[Subject, ...]:
        """The base, then the others."""
        return (*(subject for subject in self.subjects if subject.name == self.base), *self.others)

    def opposite(self, subject: Subject) -> str:
        """What a subject is compared with: the base, or for a double the one that it doubles."""
        if not subject.arm:
            return self.base
        twin = (subject.build, subject.config, subject.kernel, "")
        return next((s.name for s in self.subjects if (s.build, s.config, s.kernel, s.arm) == twin), self.base)

    def of(self, subject: str, step: str) -> list[CellStep]:
        """A step in all cells of a subject, in order of time."""
        found = [cell for cell in self.cells if (cell.subject, cell.step) == (subject, step)]
        return sorted(found, key=lambda cell: (cell.run, cell.ordinal))

    def values(self, subject: str, step: str, metric: str) -> list[float]:
        """One figure in all cells of a subject that have it."""
        return [value for cell in self.of(subject, step) if (value := cell.figure(metric)) is not None]

    def median(self, subject: str, step: str, metric: str) -> float | None:
        """The middle one of these; None of nothing."""
        found = self.values(subject, step, metric)
        return median(found) if found else None

    def ratio(self, step: str, subject: str, metric: str) -> Ratio | None:
        """The judged ratio, where there is one."""
        return self.ratios.get((step, subject, metric))

    def kind(self, step: str) -> str:
        """The kind of a step: load, index, write, query; empty when no cell has it."""
        return next((cell.kind for cell in self.cells if cell.step == step), "")


def read(record: Mapping[str, Any]) -> Comparison:
    """The values of the JSON. Raises UserError where it lacks something: another pgbed's `bench` has answered."""
    try:
        return Comparison(
            base=record["base"],
            subjects=tuple(Subject(**known_fields(Subject, subject)) for subject in record["subjects"]),
            steps=tuple(record["steps"]),
            metrics={metric["name"]: metric["title"] for metric in record["metrics"]},
            cells=tuple(_cell(cell) for cell in record["cells"]),
            ratios={(r["step"], r["subject"], r["metric"]): _ratio(r) for r in record["ratios"]},
            spreads={
                (s["step"], s["subject"], s["metric"]): Spread(**known_fields(Spread, s)) for s in record["spreads"]
            },
            likeness=_likeness(record["likeness"]),
            builds=tuple(record["builds"]),
            findings=tuple(record["findings"]),
            left_out=tuple(record["left_out"]),
            folders={run: Path(folder) for run, folder in record["folders"].items()},
            workload=record["workload"],
            kernels=tuple(record["kernels"]),
            margin=record["margin"],
            pairs=record["pairs"],
        )
    except (KeyError, TypeError) as error:
        raise UserError(f"bench compare --json cannot be understood ({error}); is it another pgbed's?") from None


def verdict_words(ratio: Ratio) -> str:
    """The verdict as `bench compare` words it: `slower`, `inconclusive, +3 pairs`; empty where none was given."""
    if ratio.verdict == "none":
        return ""
    if ratio.verdict == "inconclusive" and ratio.more_pairs is not None:
        return f"inconclusive, +{ratio.more_pairs} pair{'s' if ratio.more_pairs != 1 else ''}"
    return ratio.verdict


def _cell(record: Mapping[str, Any]) -> CellStep:
    return CellStep(
        run=record["run"],
        cell=record["cell"],
        ordinal=record["ordinal"],
        subject=record["subject"],
        repeat=record["repeat"],
        step=record["step"],
        kind=record["kind"],
        stall_s=record["stall_s"],
        stalls=tuple(record["stalls"]),
        sla=record["sla"],
        figures=record,
    )


def _ratio(record: dict[str, Any]) -> Ratio:
    return Ratio(**{**known_fields(Ratio, record), "reasons": tuple(record["reasons"])})


def _likeness(records: Sequence[dict[str, Any]]) -> dict[str, tuple[Check, ...]]:
    found: dict[str, list[Check]] = {}
    for record in records:
        found.setdefault(record["subject"], []).append(Check(record["what"], record["ok"], record["text"]))
    return {subject: tuple(checks) for subject, checks in found.items()}

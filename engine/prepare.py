"""From what the user asked for to a manifest: names checked, builds realised, settings applied, space counted."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from engine import builds, configs, environment, noise, planstats, probeset, space
from engine.errors import UserError, unknown
from engine.model import Build, Config, Manifest, config_key
from engine.noise import Noise
from engine.plan import interleave, subjects
from engine.stalls import StallRule
from workloads.insert.knobs import Knobs
from workloads.insert.presets import PRESETS
from workloads.insert.sizes import DEFAULT_SCALE
from workloads.insert.steps import DEFAULT_GENERATION, Step, plan_steps
from workloads.names import UnknownName

ROUGH_ROWS_PER_S = {"load": 80_000, "index": 250_000, "write": 8_000}
SERVER_S = 4.0  # a cluster initialised, started, stopped and removed
STEP_S = 1.0  # clients started, statistics settled

WORKLOADS = {"insert": "the Insert Benchmark (generations g22, g24a, g24b)"}


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for, in the words of the command line."""

    builds: tuple[str, ...]
    workload: str = "insert"
    generation: str = DEFAULT_GENERATION
    scale: str | None = None
    rows: int | None = None
    rows_written: int | None = None
    query_seconds: int | None = None
    steps: tuple[str, ...] = ()
    preset: str | None = None
    clients: int = 1
    configs: tuple[str, ...] = ("auto",)
    overrides: tuple[str, ...] = ()
    repeats: int = 3
    base: str | None = None
    aa: bool = False
    seed: int = 1
    margin: float = 0.02
    keep: bool = False
    beside: bool = False
    probes: tuple[str, ...] = ()
    probe_budget: float = 5.0
    allow_slow_probes: bool = False
    knobs: Knobs = field(default_factory=Knobs)


@dataclass(frozen=True, slots=True)
class Prospect:
    """A planned run and what it is expected to take. Times are rough: they are not measured yet.

    `notices` are lines about what the run will lack on this machine. `noise` is how small an effect it can show.
    """

    manifest: Manifest
    cell_s: float
    needed_bytes: int
    notices: tuple[str, ...] = ()
    noise: Noise | None = None

    @property
    def total_s(self) -> float:
        """The time of all cells together."""
        return self.cell_s * len(self.manifest.cells)

    def record(self) -> dict[str, Any]:
        """The JSON form: the manifest as it would be written, and the guesses."""
        guesses = _guesses(len(self.manifest.cells), self.cell_s, self.needed_bytes, self.noise)
        return {**guesses, "notices": list(self.notices), "manifest": self.manifest.record()}


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a request comes down to, as far as that can be said before its builds are there: no server is asked.

    `request` is as its preset completes it, `steps` are the names of all that will be run.
    """

    request: Request
    steps: tuple[str, ...]
    cells: int
    cell_s: float
    needed_bytes: int
    free_bytes: int
    noise: Noise | None

    def record(self) -> dict[str, Any]:
        """The JSON form, without the request."""
        guesses = _guesses(self.cells, self.cell_s, self.needed_bytes, self.noise)
        return {**guesses, "free_bytes": self.free_bytes, "steps": list(self.steps)}


def _guesses(cells: int, cell_s: float, needed_bytes: int, found: Noise | None) -> dict[str, Any]:
    """`smallest_effect` is a fraction that shows in every step, null where no A/A run says; `noise` has each step's."""
    return {
        "cell_count": cells,
        "cell_s": round(cell_s),
        "total_s": round(cell_s * cells),
        "needed_bytes": needed_bytes,
        "smallest_effect": round(found.effect, 4) if found else None,
        "noise": found.record() if found else None,
    }


def estimate(request: Request, out: Path) -> Estimate:
    """How many cells, how long, how much space and how small an effect; builds nothing.

    Raises UserError for any name or number that cannot be.
    """
    _check_names(request)
    for spec in request.builds:
        if "=" in spec:
            builds.resolve([spec], lambda _: None)
        elif spec not in (labels := [entry.label for entry in builds.catalog()]):
            raise unknown("build", spec, labels)
    asked = request
    request, steps = _planned(request)
    probeset.select(request.probes)
    specs = configs.resolve(request.configs)
    changes = configs.overrides(request.overrides)
    scaled = configs.scale(environment.machine(out))
    rough = [Config(spec.name, tuple(_rough_settings(spec, scaled, changes).items()), spec.origin) for spec in specs]
    arms = subjects(request.builds, [spec.name for spec in specs], _base_spec(request), request.aa)
    cells = len(interleave(arms, request.repeats))
    names = tuple(step.name for step in steps)
    return Estimate(
        request=asked,
        steps=names,
        cells=cells,
        cell_s=_cell_seconds(steps, request.clients),
        needed_bytes=_needed_bytes(request, steps, rough, cells),
        free_bytes=space.free_bytes(out),
        noise=noise.smallest_effects(out, request.repeats, names) if len(arms) > 1 else None,
    )


def _rough_settings(
    spec: configs.ConfigSpec, scaled: dict[str, str], changes: Sequence[tuple[str, str]]
) -> dict[str, str]:
    """The settings that any version would take, as far as they move the estimate of space."""
    settings = {name: value for name, value, _ in spec.settings} | dict(changes)
    return {name: scaled.get(name, value) if value == configs.SCALED else value for name, value in settings.items()}


def prepare(request: Request, out: Path, progress: Callable[[str], None]) -> Prospect:
    """Checks a request and makes its manifest; realises the builds it names, and nothing else.

    `out` is the folder that will hold the run. Raises UserError for any name or number that cannot be, before
    anything slow is done, and for a build that cannot be had.
    """
    _check_names(request)
    request, steps = _planned(request)
    selection = probeset.select(request.probes)
    specs = configs.resolve(request.configs)
    changes = configs.overrides(request.overrides)
    resolved = _resolve(request.builds, out, progress)
    found = tuple(resolved.values())
    if planstats.PROBE in selection.names:
        changes = planstats.settings(changes)
    notices = probeset.admit(selection, found, allow_slow=request.allow_slow_probes)
    if planstats.PROBE in selection.names:
        notices += planstats.contention(request.clients)
    labels = tuple(build.label for build in found)
    base = resolved[_base_spec(request)].label
    machine = environment.machine(out)
    applied = {
        config_key(spec.name, build.label): configs.apply(spec, build, machine, changes)
        for spec in specs
        for build in found
    }
    created = datetime.now().astimezone()
    manifest = Manifest(
        run=f"{created:%Y%m%d-%H%M%S}-{_slug(labels)}",
        created=created.isoformat(timespec="seconds"),
        engine=_version(),
        seed=request.seed,
        base=base,
        repeats=request.repeats,
        aa=request.aa,
        margin=request.margin,
        builds=found,
        configs=applied,
        workload={
            "name": request.workload,
            "generation": request.generation,
            "scale": request.scale or (f"{request.rows} rows" if request.rows else DEFAULT_SCALE),
            "clients": request.clients,
            "steps": [asdict(step) for step in steps],
            "knobs": asdict(request.knobs),
        },
        cells=interleave(subjects(labels, [spec.name for spec in specs], base, request.aa), request.repeats),
        stall_rule=asdict(StallRule()),
        environment=environment.record(out),
        keep=request.keep,
        beside=request.beside,
        observers=selection.names,
        probe_budget=request.probe_budget,
        allow_slow_probes=request.allow_slow_probes,
    )
    return Prospect(
        manifest,
        cell_s=_cell_seconds(steps, request.clients),
        needed_bytes=_needed_bytes(request, steps, applied.values(), len(manifest.cells)),
        notices=notices,
        noise=noise.smallest_effects(out, request.repeats, [step.name for step in steps])
        if len({cell.subject for cell in manifest.cells}) > 1
        else None,
    )


def _cell_seconds(steps: Sequence[Step], clients: int) -> float:
    return SERVER_S + sum(_rough_seconds(step, clients) for step in steps)


def _needed_bytes(request: Request, steps: Sequence[Step], settings: Iterable[Config], cells: int) -> int:
    """The largest cell's; all cells' where they are kept."""
    cell_bytes = max(space.estimate_bytes(steps, request.clients, config) for config in settings)
    return cell_bytes * (cells if request.keep else 1)


def with_knobs(knobs: Knobs, texts: Sequence[str]) -> Knobs:
    """Knobs with some set by NAME=VALUE. Raises UserError for an unknown name or a value of the wrong kind."""
    known = {each.name: getattr(knobs, each.name) for each in dataclasses.fields(Knobs)}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise UserError(f"--knob {text}: give NAME=VALUE, where NAME is one of {', '.join(known)}")
        if name not in known:
            raise unknown("knob", name, known)
        kind = type(known[name])
        try:
            known[name] = tuple(int(part) for part in value.split(",")) if kind is tuple else kind(value)
        except ValueError:
            wanted = {int: "a whole number", float: "a number", tuple: "whole numbers with commas"}[kind]
            raise UserError(f"--knob {name}: '{value}' is not {wanted}") from None
    try:
        return Knobs(**known)
    except UnknownName as error:
        raise unknown(error.kind, error.name, error.choices) from error


def _check_names(request: Request) -> None:
    if request.workload not in WORKLOADS:
        raise unknown("workload", request.workload, WORKLOADS)
    if not request.builds:
        raise UserError("no build named: give --pg LABEL,… (bench list builds shows the labels)")
    if not request.configs:
        raise UserError("no config named: give --config NAME,… (bench list configs shows the names)")
    doubles = {build for build in request.builds if request.builds.count(build) > 1}
    if doubles:
        raise UserError(f"build named twice: {', '.join(sorted(doubles))}; --aa compares the base with itself")
    _base_spec(request)
    if request.scale is not None and request.rows is not None:
        raise UserError("--scale and --rows exclude each other: a scale is a named number of rows")
    if request.preset is not None and (request.scale or request.rows or request.steps):
        raise UserError("--preset is a plan of its own: leave out --scale, --rows and --steps")


def _base_spec(request: Request) -> str:
    """Which of `--pg` the base is; an install of the user's own may go by its name alone."""
    if request.base is None:
        return request.builds[0]
    names = {spec.partition("=")[0]: spec for spec in request.builds} | {spec: spec for spec in request.builds}
    if request.base not in names:
        raise unknown("base", request.base, [spec.partition("=")[0] for spec in request.builds])
    return names[request.base]


def _resolve(specs: Sequence[str], out: Path, progress: Callable[[str], None]) -> dict[str, Build]:
    """The build of each spec. Where only a prebuilt can be had, its label says so."""
    resolved: dict[str, Build] = {}
    for spec in specs:
        (build,) = builds.resolve([spec], progress, roots=out / ".builds")
        for other, known in resolved.items():
            if known.label == build.label:
                raise UserError(f"{other} and {spec} come down to the same build here: {build.label}; name one of them")
        resolved[spec] = build
    return resolved


def _planned(request: Request) -> tuple[Request, tuple[Step, ...]]:
    """The steps, and the request as its preset completes it: the user's own settings and probes win."""
    if request.preset is None:
        return request, _plan_steps(request)
    if request.preset not in PRESETS:
        raise unknown("preset", request.preset, PRESETS)
    preset = PRESETS[request.preset]
    completed = dataclasses.replace(
        request,
        generation=preset.generation,
        overrides=(*preset.settings, *request.overrides),
        probes=request.probes or preset.probes,
        scale=preset.name,
    )
    return completed, preset.steps


def _plan_steps(request: Request) -> tuple[Step, ...]:
    try:
        return plan_steps(
            request.generation,
            request.rows or request.scale or DEFAULT_SCALE,
            request.clients,
            request.steps or None,
            rows_written=request.rows_written,
            query_seconds=request.query_seconds,
        )
    except UnknownName as error:
        raise unknown(error.kind, error.name, error.choices) from error


def _rough_seconds(step: Step, clients: int) -> float:
    """About how long a step takes on a small machine; a guess, and called one where it is shown."""
    work = step.rows_indexed or step.rows
    return max(step.seconds, work * clients / ROUGH_ROWS_PER_S.get(step.kind, 1e12)) + STEP_S


def _slug(labels: Sequence[str]) -> str:
    slug = "-".join(re.sub(r"[^A-Za-z0-9.]+", "_", label) for label in labels)
    return slug if len(slug) <= 60 else f"{slug[:60]}…".rstrip(".…")


def _version() -> str:
    try:
        return version("pgbed")
    except PackageNotFoundError:
        return "uninstalled"

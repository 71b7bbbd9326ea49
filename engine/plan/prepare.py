"""From what the user asked for to a manifest: names checked, builds realised, settings applied, space counted."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from engine.analysis import noise
from engine.analysis.noise import Noise
from engine.core.errors import UserError, unknown
from engine.core.format import size_bytes
from engine.core.model import PROBED_ARM, Build, Manifest, config_key
from engine.core.request import Request, name_of
from engine.core.version import version
from engine.host import disk, environment
from engine.observe.stalls import StallRule
from engine.plan import abreast, planfile
from engine.plan.abreast import Change
from engine.plan.schedule import interleave, subjects
from engine.postgres import builds, configs, nix, programs
from engine.tracing import planstats, selection
from probes.requirements import BPF
from workloads import workload
from workloads.base import Plan, Step
from workloads.names import UnknownName
from workloads.options import checked

SERVER_S = 4.0  # a cluster initialised, started, stopped and removed
STEP_S = 1.0  # clients started, statistics settled
MAX_CELLS = 10_000
MAX_ROLES = 2048  # client processes of a step
DEFAULT_CONNECTIONS = 100  # the server's default of max_connections
RESERVED_CONNECTIONS = 20  # for the engine's own sessions, and for people who look


@dataclass(frozen=True, slots=True)
class Guess:
    """What the cells of a run are expected to take. Times are rough: they are not measured yet.

    `noise` is how small an effect the run can show; None without an A/A run, or with nothing to compare.
    """

    cell_s: float
    needed_bytes: int
    noise: Noise | None

    def record(self, cells: int) -> dict[str, Any]:
        """The JSON form for so many cells. `smallest_effect` is a fraction that shows in every step."""
        return {
            "cell_count": cells,
            "cell_s": round(self.cell_s),
            "total_s": round(self.cell_s * cells),
            "needed_bytes": self.needed_bytes,
            "smallest_effect": round(self.noise.effect, 4) if self.noise else None,
            "noise": asdict(self.noise) if self.noise else None,
        }


@dataclass(frozen=True, slots=True)
class Prospect:
    """A planned run; `notices` are lines about what it will lack on this machine."""

    manifest: Manifest
    guess: Guess
    notices: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """The JSON form: the manifest as it would be written, and the guesses."""
        guesses = self.guess.record(len(self.manifest.cells))
        return {**guesses, "notices": list(self.notices), "manifest": self.manifest.record()}


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a request means, as far as is known before its builds exist. `changes` are on top of each config."""

    plan: Plan
    steps: tuple[Step, ...]
    probes: selection.Selection
    changes: dict[configs.ConfigSpec, tuple[Change, ...]]

    def guess(self, request: Request, settings: Iterable[Mapping[str, str]], out: Path) -> Guess:
        """The largest cell's space, all cells' where they are kept; `settings` are each config's."""
        expected = workload(request.workload).expected_bytes
        cell_bytes = max(expected(self.plan.record, max_wal_bytes(each)) for each in settings)
        names = [step.name for step in self.steps]
        judged = request.subjects - request.aa * len(request.configs)
        return Guess(
            cell_s=SERVER_S + sum(step.expected_s + STEP_S for step in self.steps),
            needed_bytes=cell_bytes * request.clusters_at_once,
            noise=noise.smallest_effects(out, request.repeats, names, judged) if request.subjects > 1 else None,
        )


def estimate(request: Request, out: Path) -> dict[str, Any]:
    """Number of cells, time, space, steps and the smallest detectable effect as JSON; builds nothing, runs no server.

    Raises UserError for any invalid name or number.
    """
    _check_names(request)
    for spec in request.builds:
        if "=" in spec:
            builds.resolve([spec], lambda _: None)
        elif spec not in [entry.label for entry in builds.catalog()]:
            raise builds.unknown_label(spec)
    asked = _look_up(request)
    scaled = configs.scale(abreast.share(environment.machine(out), request))
    guess = asked.guess(request, [_rough_settings(spec, scaled, own) for spec, own in asked.changes.items()], out)
    return {
        **guess.record(request.subjects * request.repeats),
        "free_bytes": disk.free_bytes(out),
        "steps": [step.name for step in asked.steps],
    }


def _rough_settings(spec: configs.ConfigSpec, scaled: dict[str, str], changes: Sequence[Change]) -> dict[str, str]:
    """The settings that any version would take, as far as they move the estimate of space."""
    settings = {name: value for name, value, _ in spec.settings} | dict(changes)
    return {name: scaled.get(name, value) if value == configs.SCALED else value for name, value in settings.items()}


def prepare(request: Request, out: Path, progress: Callable[[str], None]) -> Prospect:
    """Checks a request and makes its manifest; realises the builds it names, and nothing else.

    `out` is the folder that will hold the run. Raises UserError for any name or number that cannot be, before
    anything slow is done, and for a build that is not available.
    """
    _check_names(request)
    asked = _look_up(request)
    resolved = _resolve(request.builds, out, progress)
    found = tuple(resolved.values())
    if any(choice.probe in BPF for choice in asked.probes.choices):
        nix.fetch_bpftrace(progress, out / ".builds")
    notices = selection.admit(asked.probes, found, allow_slow=request.allow_slow_probes)
    if planstats.PROBE in asked.probes.names:
        notices += planstats.contention(int(asked.plan.record["clients"]))
    labels = tuple(build.label for build in found)
    base = resolved[request.base_build or request.builds[0]].label
    machine = abreast.share(environment.machine(out), request)
    applied = {
        config_key(spec.name, build.label): configs.apply(spec, build, machine, changes)
        for spec, changes in asked.changes.items()
        for build in found
    }
    if request.interleave == "slices":
        abreast.check_memory(applied.values(), request, environment.machine(out).memory_bytes)
    taken = {name for config in applied.values() for name, _ in config.settings}
    for name, value in configs.overrides(request.overrides):
        if name not in taken and "." not in name:  # with a dot it may be of an extension that is not there
            raise UserError(f"--set {name}={value}: unknown to {', '.join(labels)}; check the setting's name")
    created = datetime.now().astimezone()
    chosen, record = workload(request.workload), asked.plan.record
    if asked.plan.programs:
        record = {**record, "programs": programs.find(asked.plan.programs, found, progress, out / ".builds")}
    try:
        chosen.check(record)
    except ValueError as error:
        raise planfile.refused(error) from None
    manifest = Manifest(
        run=f"{created:%Y%m%d-%H%M%S}-{_slug(labels)}",
        created=created.isoformat(timespec="seconds"),
        engine=version(),
        seed=request.seed,
        base=base,
        repeats=request.repeats,
        aa=request.aa,
        margin=request.margin,
        builds=found,
        configs=applied,
        workload={**record, "identity": chosen.identity(record), "non_default": list(chosen.non_default(record))},
        cells=interleave(subjects(labels, [spec.name for spec in asked.changes], base, request.aa), request.repeats),
        stall_rule=asdict(StallRule()),
        environment=environment.record(out),
        interleave=request.interleave,
        slice_ms=request.slice_ms,
        keep=request.keep,
        allow_concurrent=request.allow_concurrent,
        observers=asked.probes.names,
        probe_budget=request.probe_budget,
        allow_slow_probes=request.allow_slow_probes,
    )
    return Prospect(
        manifest, asked.guess(request, [dict(config.settings) for config in applied.values()], out), notices
    )


def with_double(prospect: Prospect, pairs: int) -> Prospect:
    """The plan of a run made one of bare and probed cells in turn. It has one build and one config.

    Raises UserError when the probes are none that can be left out of a cell.
    """
    manifest = prospect.manifest
    if planstats.PROBE in manifest.observers:
        raise UserError(
            f"{planstats.PROBE} is part of the server's settings, so no cell can run without it; choose other probes"
        )
    if not manifest.observers:
        raise UserError("nothing to attach: choose probes that are available here (bench probes list)")
    bare = manifest.cells[0].subject
    cells = interleave((bare, dataclasses.replace(bare, arm=PROBED_ARM)), pairs)
    return dataclasses.replace(
        prospect, manifest=dataclasses.replace(manifest, cells=cells, repeats=pairs, probes_in_arm=True)
    )


def max_wal_bytes(settings: Mapping[str, str]) -> int:
    """The config's max_wal_size; the server's default of 1GB when it does not set it."""
    return size_bytes(settings.get("max_wal_size", "1GB"), default_unit="MB")


def _connections(spec: configs.ConfigSpec, changes: Sequence[Change], steps: Sequence[Step]) -> tuple[Change, ...]:
    """max_connections, where the server's default is too low for the plan and nobody has set it.

    Raises UserError when somebody has, and too low.
    """
    needed = max((step.connections for step in steps), default=0) + RESERVED_CONNECTIONS
    own = [(name, value) for name, value, _ in spec.settings]
    for where, settings in (("--set", changes), (f"config '{spec.name}'", own)):
        value = dict(settings).get("max_connections")
        if value is None:
            continue
        if re.fullmatch("[0-9]{1,9}", value) and int(value) < needed:
            raise UserError(f"{where}: max_connections={value} is too low: this plan needs {needed} connections")
        return ()
    return (("max_connections", str(needed)),) if needed > DEFAULT_CONNECTIONS else ()


def _check_names(request: Request) -> None:
    if not request.builds:
        raise UserError("no build given: use --pg LABEL,… (bench list builds shows the labels)")
    if not request.configs:
        raise UserError("no config given: use --config NAME,… (bench list configs shows the names)")
    doubles = {build for build in request.builds if request.builds.count(build) > 1}
    if doubles:
        raise UserError(f"build given twice: {', '.join(sorted(doubles))}; use --aa to compare the base with itself")
    names = [name_of(spec) for spec in request.builds]  # an install of the user's own may go by its name alone
    if request.base is not None and request.base not in (*names, *request.builds):
        raise unknown("base", request.base, names)
    cells = request.subjects * request.repeats
    if cells > MAX_CELLS:
        raise UserError(
            f"{cells:,} cells are more than a run may have ({MAX_CELLS:,}): "
            "lower --repeats, or name fewer builds or configs"
        )


def _resolve(specs: Sequence[str], out: Path, progress: Callable[[str], None]) -> dict[str, Build]:
    """The build of each spec. Where only a prebuilt is available, its label tells."""
    resolved: dict[str, Build] = {}
    for spec in specs:
        (build,) = builds.resolve([spec], progress, roots=out / ".builds")
        for other, known in resolved.items():
            if known.label == build.label:
                raise UserError(f"{other} and {spec} are the same build here: {build.label}; name one of them")
        resolved[spec] = build
    return resolved


def _look_up(request: Request) -> _Asked:
    """Everything that a request names but its builds, and what the workload makes of it."""
    try:
        chosen = workload(request.workload)
        sliced = request.interleave == "slices"
        plan = chosen.plan(checked(chosen.options, chosen.abreast(request.options) if sliced else request.options))
    except (UnknownName, ValueError) as error:
        raise planfile.refused(error) from None
    steps = chosen.steps(plan.record)
    roles = max((len(step.roles) for step in steps), default=0)
    if roles > MAX_ROLES:
        raise UserError(f"{roles:,} connections in a step are more than the maximum of {MAX_ROLES:,}: reduce --clients")
    if sliced:
        abreast.check(request, steps)
    probes = selection.select(request.probes or plan.probes)
    specs = configs.resolve(request.configs)
    changes = configs.overrides((*plan.settings, *request.overrides))
    if planstats.PROBE in probes.names:
        changes = planstats.settings(changes)
    own = {spec: (*changes, *_connections(spec, changes, steps)) for spec in specs}
    if sliced:
        own = {spec: abreast.stretched(spec, each, request.subjects) for spec, each in own.items()}
    return _Asked(plan, steps, probes, own)


def _slug(labels: Sequence[str]) -> str:
    slug = "-".join(re.sub(r"[^A-Za-z0-9.]+", "_", label) for label in labels)
    return slug if len(slug) <= 60 else f"{slug[:60]}…".rstrip(".…")

"""From what the user asked for to a manifest: names checked, builds realised, settings applied, space counted."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from engine.analysis import noise
from engine.analysis.noise import Noise
from engine.core.errors import UserError, unknown
from engine.core.format import size_bytes
from engine.core.kernel import HOST
from engine.core.model import LEVEL, LOOKS, PROBED_ARM, Build, Manifest, config_key
from engine.core.request import CELLS, MOST_REPEATS, Request, check_named, further_of, is_attached, name_of, shown
from engine.core.text import visible
from engine.core.tolerance import tolerances
from engine.core.version import revision, version
from engine.guest import kernels
from engine.host import block_device, disk, environment
from engine.host.environment import Machine
from engine.observe.stalls import StallRule
from engine.plan import abreast, counting, guests, planfile, presets, routes, running
from engine.plan.abreast import CannotBeSliced, Change
from engine.plan.loads import Load, loads, recorded
from engine.plan.schedule import interleave, subjects
from engine.postgres import builds, configs, features, foreign, nix, programs
from engine.tracing import planstats, selection
from probes.requirements import BPF
from workloads import workload
from workloads.base import Step
from workloads.names import UnknownName

SERVER_S = 4.0  # a cluster initialised, started, stopped and removed
STEP_S = 1.0  # clients started, statistics settled
MAX_CELLS = 10_000
MOST_IN_TIME = 4  # times as many repeats are planned as would fit by a guess, so that time ends the run
MAX_ROLES = 2048  # client processes of a step
DEFAULT_CONNECTIONS = 100  # the server's default of max_connections
RESERVED_CONNECTIONS = 20  # for the engine's own sessions, and for people who look


@dataclass(frozen=True, slots=True)
class Guess:
    """What the cells of a run are expected to take. Times are rough: they are not measured yet.

    `cells` is how many there will be: all that are planned, or as many as fit into the time.
    `noise` is how small an effect the run can show; None without a run to tell by, or with nothing to compare.
    `query_step_s` is the longest of the steps by time in slices, all servers together; None where there are none.
    """

    cells: int
    cell_s: float
    needed_bytes: int
    noise: Noise | None
    query_step_s: float | None = None

    def record(self) -> dict[str, Any]:
        """The JSON form. `smallest_effect` is a fraction that shows in every step."""
        return {
            "cell_count": self.cells,
            "cell_s": round(self.cell_s),
            "total_s": round(self.cell_s * self.cells),
            "needed_bytes": self.needed_bytes,
            "query_step_s": self.query_step_s,
            "smallest_effect": round(self.noise.effect, 4) if self.noise else None,
            "noise": asdict(self.noise) if self.noise else None,
        }


@dataclass(frozen=True, slots=True)
class Prospect:
    """A planned run; `notices` are lines about what it will lack on this machine."""

    manifest: Manifest
    guess: Guess
    notices: tuple[str, ...] = ()
    connections: dict[str, str] = field(default_factory=dict, repr=False)  # to servers that are running already

    def record(self) -> dict[str, Any]:
        """The JSON form: the manifest as it would be written, and the guesses."""
        return {**self.guess.record(), "notices": list(self.notices), "manifest": self.manifest.record()}


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a request means, as far as is known before its builds exist. `changes` are on top of each config.

    `loads` are what takes turns, the base first; `steps` all their steps, each by its name once.
    """

    loads: tuple[Load, ...]
    steps: tuple[Step, ...]
    probes: selection.Selection
    changes: dict[configs.ConfigSpec, tuple[Change, ...]]

    @property
    def cell_s(self) -> float:
        """About how long a cell takes, on average."""
        steps = [step for load in self.loads for step in load.steps]
        return SERVER_S + sum(step.expected_s + STEP_S for step in steps) / len(self.loads)

    def fitting(self, request: Request) -> int:
        """About how many repeats fit into the time that there is."""
        assert request.minutes is not None
        return max(1, int(60 * request.minutes / (self.cell_s * request.subjects)))

    def cell_bytes(self, request: Request, settings: Iterable[Mapping[str, str]]) -> int:
        """The largest cell's space; `settings` are each config's."""
        limits = [max_wal_bytes(each) for each in settings]
        return max(load.workload.expected_bytes(load.plan.record, limit) for load in self.loads for limit in limits)

    def guess(self, request: Request, settings: Iterable[Mapping[str, str]], out: Path) -> Guess:
        """The largest cell's space, all cells' where they are kept; `settings` are each config's."""
        cell_bytes = self.cell_bytes(request, settings)
        long_s = {step.name: step.expected_s for step in self.steps}
        doubles = request.aa * len(request.configs) * len(request.kernels) * len(self.loads)
        judged, repeats = request.subjects - doubles, request.planned_repeats
        repeats = min(repeats, self.fitting(request)) if request.minutes else repeats
        tell = noise.smallest_effects
        if request.sliced:
            level = LOOKS[-1].level if request.until_known else LEVEL
            tell = partial(noise.smallest_in_slices, level=level)
        return Guess(
            cells=request.subjects * repeats,
            cell_s=self.cell_s,
            needed_bytes=cell_bytes * request.clusters_at_once(repeats),
            # Runs of pgbed's own servers say nothing of those.
            noise=tell(out, repeats, long_s, judged) if request.subjects > 1 and not request.attached else None,
            query_step_s=max(
                (request.subjects * step.expected_s for step in self.steps if request.sliced and step.sliced == "time"),
                default=None,
            ),
        )


def estimate(request: Request, out: Path) -> dict[str, Any]:
    """Number of cells, time, space, steps and the smallest detectable effect as JSON; builds nothing, runs no server.

    Raises UserError for any invalid name or number.
    """
    _check_names(request)
    guests.check(request)
    for spec in request.builds:
        if is_attached(spec):
            continue  # whoever plans connects to nothing
        checked = builds.check(spec)
        if checked.install:
            builds.resolve([spec], lambda _: None)
    request, asked, reason = _decided(request, out)
    guess = asked.guess(request, _rough_settings(request, asked.changes, environment.machine(out)), out)
    return {
        **guess.record(),
        "interleave": request.interleave,
        "interleave_reason": reason,
        "free_bytes": None if request.attached else disk.free_bytes(out),
        "steps": [step.name for step in asked.steps],
    }


def _rough_settings(
    request: Request, changes: Mapping[configs.ConfigSpec, Sequence[Change]], machine: Machine
) -> list[dict[str, str]]:
    """The settings of each config that any version would take, as far as they move the estimates of space."""
    scaled = configs.scale(_share(machine, request))
    found = [{name: value for name, value, _ in spec.settings} | dict(own) for spec, own in changes.items()]
    return [
        {name: scaled.get(name, value) if value == configs.SCALED else value for name, value in settings.items()}
        for settings in found
    ]


def _share(machine: Machine, request: Request) -> Machine:
    """What each server may count on."""
    return guests.share(abreast.share(machine, request), request)


def prepare(request: Request, out: Path, progress: Callable[[str], None]) -> Prospect:
    """Checks a request and makes its manifest; realises the builds it names, and nothing else.

    `out` is the folder that will hold the run. Raises UserError for any name or number that cannot be, before
    anything slow is done, and for a build that is not available.
    """
    _check_names(request)
    restored = tuple(block_device.restore_left())
    request, unavailable = presets.fetched(request, out / ".builds", progress)
    tunables = guests.check(request)
    routes.look(request)
    request, asked, reason = _decided(request, out)
    tolerated = tolerances(request.tolerate, [step.name for step in asked.steps])
    every = [step for load in asked.loads for step in load.steps]
    servers = running.look_up(request, every) if request.attached else None
    resolved = servers.builds if servers else _resolve(request.builds, out, progress)
    found = tuple(resolved.values())
    if any(choice.probe in BPF for choice in asked.probes.choices):
        nix.fetch_bpftrace(progress, out / ".builds")
    notices = (*restored, *unavailable, *presets.notices(request))
    if HOST in request.kernels or request.rebooting:
        notices += selection.admit(asked.probes, found, allow_slow=request.allow_slow_probes)
    if planstats.PROBE in asked.probes.names:
        notices += planstats.contention(int(asked.loads[0].plan.record["clients"]))
    notices += servers.notices if servers else abreast.notices(request, asked.steps)
    labels = tuple(build.label for build in found)
    base = resolved[request.base_build or request.builds[0]].label
    machine = _share(environment.machine(out), request)
    names = [foreign.CONFIG] if servers else [spec.name for spec in asked.changes]
    applied = (
        servers.configs
        if servers
        else {
            config_key(spec.name, build.label): configs.apply(spec, build, machine, changes)
            for spec, changes in asked.changes.items()
            for build in found
        }
    )
    taken = {name for config in applied.values() for name, _ in config.settings}
    for name, value in configs.overrides(request.overrides):
        if name not in taken and "." not in name:  # with a dot it may be of an extension that is not there
            raise UserError(f"--set {name}={value}: unknown to {', '.join(labels)}; check the setting's name")
    for config in applied.values():
        if config.device and request.in_guests:
            raise UserError(f"config '{config.name}' sets a block device of this machine: not with --kernel")
        block_device.check(config.device, out)
    settings = [dict(config.settings) for config in applied.values()]
    guess = asked.guess(request, settings, out)
    needed = asked.cell_bytes(request, settings)
    booted = guests.prepare(request, environment.machine(out), needed, settings, progress, out)
    for kernel in booted.kernels if request.in_guests else ():
        offered = selection.in_guest(kernel) if asked.probes.choices else None
        lacking = selection.admit(asked.probes, found, offered, allow_slow=request.allow_slow_probes)
        notices += tuple(f"kernel {kernel.label}: {line}" for line in lacking)
    perf = counting.prepare(request, progress, out / ".builds")
    notices += perf.notices
    created = datetime.now().astimezone()
    wanted = tuple(dict.fromkeys(program for load in asked.loads for program in load.plan.programs))
    optional = {need for step in asked.steps for need in step.needs}
    there, missing = programs.seek(wanted, optional, found, progress, out / ".builds") if wanted else ({}, {})
    left_out = features.lacking(asked.steps, found, missing)
    if left_out:
        notices += features.sentences(left_out)
    records = {load.name: recorded(load, there, left_out, labels) for load in asked.loads}
    route, client_host = routes.decide(request, [(load.workload, records[load.name]) for load in asked.loads])
    manifest = Manifest(
        # Blocks begin at the same second on several machines.
        run="-".join(filter(None, (f"{created:%Y%m%d-%H%M%S}", _slug(labels), os.environ.get(environment.SANDBOX)))),
        created=created.isoformat(timespec="seconds"),
        engine=version(),
        seed=request.seed,
        base=base,
        repeats=request.planned_repeats,
        aa=request.aa,
        margin=request.margin,
        builds=found,
        configs=applied,
        workload=records[asked.loads[0].name],
        arms=records if len(records) > 1 else {},
        cells=interleave(
            subjects(
                labels, names, base, request.aa, [kernels.label_of(spec) for spec in request.kernels], tuple(records)
            ),
            request.planned_repeats,
        ),
        kernels=booted.kernels,
        guest=booted.machine,
        tunables=tuple(tunables),
        stall_rule=asdict(StallRule()),
        environment=environment.record(out) | ({"client": client_host} if client_host else {}),
        interleave="slices" if request.sliced else "cells",
        interleave_reason=reason,
        looks=LOOKS if request.until_known else (),
        minutes=request.minutes,
        slice_ms=request.slice_ms,
        stop=request.stop,
        route=route,
        keep=request.keep,
        allow_concurrent=request.allow_concurrent,
        observers=asked.probes.names,
        probe_budget=request.probe_budget,
        allow_slow_probes=request.allow_slow_probes,
        counters=request.counters,
        perf=perf.record,
        attached=servers.attached if servers else None,
        tolerated=tolerated,
        revision=revision(),
        request={**request.entries(), "builds": [shown(build) for build in request.builds]},
    )
    return Prospect(manifest, guess, (*notices, *booted.notices), servers.connections if servers else {})


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
        prospect,
        manifest=dataclasses.replace(manifest, cells=cells, repeats=pairs, probes_in_arm=True),
        guess=dataclasses.replace(prospect.guess, cells=len(cells)),
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
    routes.check(request)
    if not request.builds:
        raise UserError("no build given: use --pg LABEL,… (bench list builds shows the labels)")
    for spec in request.builds:
        check_named(spec)
    if not request.configs:
        raise UserError("no config given: use --config NAME,… (bench list configs shows the names)")
    doubles = {build for build in request.builds if request.builds.count(build) > 1}
    if doubles:
        named = ", ".join(sorted(map(shown, doubles)))
        raise UserError(f"build given twice: {named}; use --aa to compare the base with itself")
    names = [name_of(spec) for spec in request.builds]  # an install of the user's own may go by its name alone
    if request.base is not None and request.base not in (*names, *request.builds):
        raise unknown("base", request.base, names)
    running.check(request)
    if request.until_known and request.repeats:
        raise UserError(f"--until-known plans up to {LOOKS[-1].pairs} pairs by itself: leave out --repeats")
    cells = request.subjects * request.planned_repeats
    if cells > MAX_CELLS:
        raise UserError(
            f"{cells:,} cells are more than a run may have ({MAX_CELLS:,}): "
            "lower --repeats, or name fewer builds, configs or kernels"
        )


def _resolve(specs: Sequence[str], out: Path, progress: Callable[[str], None]) -> dict[str, Build]:
    """The build of each spec. Where only a prebuilt is available, its label tells."""
    for spec in specs:
        builds.check(spec)  # all of them before the first is built, which may take minutes
    resolved: dict[str, Build] = {}
    for spec in specs:
        (build,) = builds.resolve([spec], progress, roots=out / ".builds")
        for other, known in resolved.items():
            if known.label == build.label:
                raise UserError(f"{other} and {spec} would both be called {build.label}; give one a name: NAME=…")
        resolved[spec] = build
    return resolved


def _decided(request: Request, out: Path) -> tuple[Request, _Asked, str]:
    """The request with what takes turns decided, what it means, and why: nothing where it was asked for."""
    machine = environment.machine(out)
    reason = ""
    if request.interleave != "auto":
        asked = _look_up(request, machine)
    else:
        request, asked, reason = _chosen(request, machine)
    if request.until_known and not request.sliced:
        because = f", which cannot be here: {reason}" if reason else ": use --interleave slices"
        raise UserError(f"--until-known looks at pairs in slices{because}")
    if request.minutes and request.repeats is None and not request.until_known:
        request = msgspec.structs.replace(request, repeats=_most_in_time(request, asked))
    return request, asked, reason


def _chosen(request: Request, machine: Machine) -> tuple[Request, _Asked, str]:
    """Slices where they can be, else cells; with the reason."""
    sliced, cells = (msgspec.structs.replace(request, interleave=each) for each in ("slices", "cells"))
    try:
        asked = _look_up(sliced, machine)
    except CannotBeSliced as cannot:
        return cells, _look_up(cells, machine), cannot.reason
    return sliced, asked, abreast.reason(sliced, asked.steps)


def _most_in_time(request: Request, asked: _Asked) -> int:
    """How many repeats to plan where the time is given: more than will be, as times are not measured yet."""
    most = min(MOST_IN_TIME * asked.fitting(request), MAX_CELLS // request.subjects, MOST_REPEATS)
    return max(CELLS, most + most % 2)


def _look_up(request: Request, machine: Machine) -> _Asked:
    """Everything that a request names but its builds, and what the workload makes of it."""
    sliced = request.sliced
    if sliced and request.attached:
        raise CannotBeSliced("servers that are running already cannot be paused in turns")
    try:
        planned = loads(request, _options(request))
    except (UnknownName, ValueError) as error:
        raise planfile.refused(error) from None
    every = [step for load in sorted(planned, key=lambda load: -len(load.steps)) for step in load.steps]
    steps = tuple({step.name: step for step in every}.values())
    roles = max((len(step.roles) for step in every), default=0)
    if roles > MAX_ROLES:
        raise UserError(f"{roles:,} connections in a step are more than the maximum of {MAX_ROLES:,}: reduce --clients")
    if request.attached:
        for load in planned:
            running.check_plan(load.plan)
    if sliced:
        abreast.check(request, steps)
    probes = selection.select(request.probes or planned[0].plan.probes)
    specs = configs.resolve(request.configs)
    settings = dict.fromkeys(setting for load in planned for setting in load.plan.settings)
    changes = configs.overrides((*settings, *request.overrides))
    if planstats.PROBE in probes.names:
        changes = planstats.settings(changes)
    own = {spec: (*changes, *_connections(spec, changes, every)) for spec in specs}
    if sliced:
        own = {spec: abreast.stretched(spec, each, request.subjects) for spec, each in own.items()}
        data_bytes = planned[0].workload.expected_bytes(planned[0].plan.record, 0)
        abreast.check_memory(_rough_settings(request, own, machine), data_bytes, request, machine.memory_bytes)
    return _Asked(planned, steps, probes, own)


def _options(request: Request) -> Mapping[str, Any]:
    """The workload's options; raises CannotBeSliced where those that were given and slices exclude each other."""
    if not request.sliced:
        return request.options
    try:
        names = [part.name for arm in request.arms for part in further_of(arm)]
        return workload("+".join((request.workload, *dict.fromkeys(names)))).abreast(request.options)
    except ValueError as error:
        raise CannotBeSliced(visible(str(error))) from None


def _slug(labels: Sequence[str]) -> str:
    slug = "-".join(re.sub(r"[^A-Za-z0-9.]+", "_", label) for label in labels)
    return slug if len(slug) <= 60 else f"{slug[:60]}…".rstrip(".…")

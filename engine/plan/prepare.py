"""The way from a request to a manifest: names are checked, builds realised, settings applied, space estimated."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from engine.builds import client_programs, features, resolve
from engine.builds.label import Label, shown
from engine.core import missing_steps
from engine.core.errors import UserError
from engine.core.kernel import HOST
from engine.core.model import PROBED, Boot, Build, Config, InterimAnalysis, Manifest, Observation, Origin, RunDesign
from engine.core.version import revision, version
from engine.features import with_options
from engine.guest import kernels
from engine.host import disk, environment, kernel_settings
from engine.journal import housekeeping
from engine.journal.runs import free_name
from engine.observe.stalls import StallRule
from engine.plan import external_servers, guests, interleaving, prerequisites, presets, routes, server_settings
from engine.plan.design import Design, RunEstimate, check_names, decide, interim_analyses, rough_settings, share
from engine.plan.request import Request
from engine.plan.schedule import interleave, subjects
from engine.plan.tolerance import tolerances
from engine.plan.workload_plans import recorded
from engine.tracing import planstats, selection


@dataclass(frozen=True, slots=True)
class Prospect:
    """A planned run; `notices` are lines about what it lacks on this machine."""

    manifest: Manifest
    estimate: RunEstimate
    notices: tuple[str, ...] = ()
    connections: dict[str, str] = field(default_factory=dict, repr=False)  # with passwords

    def record(self) -> dict[str, Any]:
        return {**self.estimate.record(), "notices": list(self.notices), "manifest": self.manifest.record()}


def estimate(request: Request, out: Path) -> dict[str, Any]:
    """Cells, time, space, steps and smallest detectable effect as JSON. Builds and runs nothing. Raises UserError."""
    check_names(request)
    _check_features(request)
    guests.check(request)
    asked = request
    request, design, reason = decide(asked, out)
    settings = rough_settings(request, design.changes, environment.machine(out))
    expected = design.estimate(request, settings, out, interim_analyses(asked, request))
    return {
        **expected.record(),
        "interleave": request.interleave,
        "interleave_reason": reason,
        "free_bytes": None if request.external else disk.free_bytes(out),
        "steps": [step.name for step in design.steps],
    }


def prepare(request: Request, out: Path, progress: Callable[[str], None]) -> Prospect:
    """Check a request and make its manifest; realise the builds that it names, and nothing else.

    `out` will hold the run. Raises UserError for an invalid name or number before anything slow is done, and for a
    build that is not available.
    """
    draft = Draft(request, out, progress)
    notices = tuple(itertools.chain.from_iterable(preparation(draft) for preparation in PREPARATIONS))
    return Prospect(_manifest(draft), draft.expected, notices, draft.connections)


class Draft:
    """A run in the making. A preparation sets what it decides; to read what none before it has set is an error.

    `asked` is the request with its preset fetched, `request` also the choices left to pgbed. `parts` are fields of the
    manifest that no other preparation reads.
    """

    labels: dict[str, Label]  # of the builds, by their text
    asked: Request
    design: Design
    builds: tuple[Build, ...]
    configs: dict[str, Config]
    boot: Boot
    interim: tuple[InterimAnalysis, ...]
    created: str
    interleave_reason: str
    tolerated: dict[str, float]
    expected: RunEstimate

    def __init__(self, request: Request, out: Path, progress: Callable[[str], None]) -> None:
        self.request, self.out, self.progress = request, out, progress
        self.roots = out / ".builds"
        self.parts: dict[str, Any] = {}
        self.connections: dict[str, str] = {}  # of servers that run already, with passwords

    @property
    def settings(self) -> list[dict[str, str]]:
        return [dict(config.settings) for config in self.configs.values()]


def _check(draft: Draft) -> Iterator[str]:
    draft.labels = dict(zip(draft.request.builds, check_names(draft.request), strict=True))
    yield from kernel_settings.restore_left()  # before the machine is looked at
    _check_features(draft.request)
    guests.check(draft.request)
    routes.check_reachable(draft.request)


def _fetch(draft: Draft) -> Iterable[str]:
    request, roots = draft.request, draft.roots
    prerequisites.provide(request, decide(request, draft.out)[1].probes, draft.progress, roots)
    draft.asked, unavailable = presets.fetched(request, roots, draft.progress)
    return unavailable


def _decide(draft: Draft) -> Iterable[str]:
    draft.request, draft.design, draft.interleave_reason = decide(draft.asked, draft.out)
    draft.interim = interim_analyses(draft.asked, draft.request)
    draft.tolerated = tolerances(draft.request.tolerate, [step.name for step in draft.design.steps])
    return presets.notices(draft.request)


def _realise(draft: Draft) -> Iterable[str]:
    labels = [draft.labels[text] for text in draft.request.builds]
    if draft.request.external:
        return external_servers.look_up(draft, labels)
    draft.builds = resolve.realise(labels, draft.progress, draft.roots)
    return twins(draft.builds)


def _check_probes(draft: Draft) -> Iterator[str]:
    probes = draft.design.probes
    if HOST in draft.request.kernels:
        yield from selection.admit(probes, draft.builds, allow_slow=draft.request.allow_slow_probes)
    if planstats.PROBE in probes.names:
        yield from planstats.contention(int(draft.design.load.plan.record["clients"]))


def _apply_settings(draft: Draft) -> Iterable[str]:
    request, changes = draft.request, draft.design.changes
    if not draft.connections:
        machine = share(environment.machine(draft.out), request)
        draft.configs = server_settings.applied(request, changes, draft.builds, machine, draft.progress)
    draft.expected = draft.design.estimate(request, draft.settings, draft.out, draft.interim)
    return ()


def _boot(draft: Draft) -> Iterator[str]:
    needed, probes = draft.design.cell_bytes(draft.request, draft.settings), draft.design.probes
    machine = environment.machine(draft.out)
    draft.boot, notices = guests.prepare(draft.request, machine, needed, draft.settings, draft.progress, draft.out)
    for kernel in draft.boot.kernels:
        offered = selection.in_guest(kernel) if probes.choices else None
        lacking = selection.admit(probes, draft.builds, offered, allow_slow=draft.request.allow_slow_probes)
        yield from (f"kernel {kernel.label}: {line}" for line in lacking)
    yield from notices


def _add_features(draft: Draft) -> Iterator[str]:
    parts = draft.parts["parts"] = {}
    for feature, options in with_options(draft.request.features):
        parts[feature.name] = yield from feature.prepare(draft, options)


def _check_features(request: Request) -> None:
    for feature, options in with_options(request.features):
        feature.check(request, options)


def _plan_workload(draft: Draft) -> Iterator[str]:
    load, builds, steps = draft.design.load, draft.builds, draft.design.steps
    optional = {need for step in steps for need in step.needs}
    programs, missing = client_programs.seek(load.plan.programs, optional, builds, draft.progress, draft.roots)
    if left_out := features.lacking(steps, builds, missing):
        yield from missing_steps.sentences(left_out)
    labels = [build.label for build in builds]
    created = datetime.now().astimezone()
    # Blocks begin at the same second on several machines.
    sandbox = os.environ.get(environment.SANDBOX)
    run = free_name(draft.out, "-".join(filter(None, (f"{created:%Y%m%d-%H%M%S}", _slug(labels), sandbox))))
    housekeeping.forget_abandoned(draft.out)
    with housekeeping.data_kept(draft.out / run) as data:
        record = recorded(load, programs, left_out, labels, data)
        features.check_demands(record.get("demands", ()), builds)
        route, client_host = routes.decide(draft.request, load.workload, record, draft.progress)
    yield from (*load.plan.notices, *record.get("notices", ()))
    draft.created = created.isoformat(timespec="seconds")
    draft.parts |= {"run": run, "workload": record, "route": route, "environment": environment.record(draft.out)}
    if client_host:
        draft.parts["environment"]["client"] = client_host
        if why := client_host["link"]["not_by_nix"]:
            yield f"--client-host {route.host}: Nix could not copy the clients there, an archive went there: {why}"


# Their order: names and numbers cost nothing; the design is read from files that a preset fetches, and says for which
# steps builds are worth their time; probes, settings and clients depend on the builds, and guests on the settings.
PREPARATIONS: tuple[Callable[[Draft], Iterable[str]], ...] = (
    _check,
    _fetch,
    _decide,
    _realise,
    _check_probes,
    _apply_settings,
    _boot,
    _add_features,
    _plan_workload,
)


def _manifest(draft: Draft) -> Manifest:
    request, design = draft.request, draft.design
    labels = [build.label for build in draft.builds]
    base = labels[request.builds.index(request.base_build or request.builds[0])]
    configs = list(dict.fromkeys(config.name for config in draft.configs.values()))
    kernel_labels = [kernels.label_of(spec) for spec in request.kernels]
    run_design = RunDesign(
        request.seed, base, request.planned_repeats, request.aa, request.margin,
        "slices" if request.sliced else "cells", draft.interleave_reason, interleaving.slice_ms(request, design.steps),
        draft.interim, request.minutes, draft.tolerated,
    )  # fmt: skip
    return Manifest(
        origin=Origin(draft.created, version(), revision()),
        design=run_design,
        builds=draft.builds,
        configs=draft.configs,
        cells=interleave(subjects(labels, configs, base, request.aa, kernel_labels), request.planned_repeats),
        boot=draft.boot,
        observation=Observation(asdict(StallRule()), design.probes.names, request.allow_slow_probes),
        keep=request.keep,
        allow_concurrent=request.allow_concurrent,
        request={
            **msgspec.structs.replace(request, repeats=draft.asked.repeats).entries(),
            "builds": [shown(build) for build in request.builds],
        },
        **draft.parts,
    )


def twins(builds: Sequence[Build]) -> Iterable[str]:
    """A line for each two builds that are one server by two names, as of two commits that differ in the manual only."""
    for one, other in itertools.combinations(builds, 2):
        ours, theirs = ((build.prefix, build.initdb_args, build.extensions) for build in (one, other))
        if ours == theirs:
            yield f"{one.label} and {other.label} are the same server: how they differ is chance, as with --aa"


def with_probed_control(prospect: Prospect, pairs: int) -> Prospect:
    """Turn a plan of one subject into alternating cells without and with probes. Raises UserError if impossible."""
    manifest = prospect.manifest
    if planstats.PROBE in manifest.observation.observers:
        raise UserError(
            f"{planstats.PROBE} is part of the server's settings, so no cell can run without it; choose other probes"
        )
    if not manifest.observation.observers:
        raise UserError("nothing to attach: choose probes that are available here (bench list probes)")
    bare = manifest.cells[0].subject
    cells = interleave((bare, dataclasses.replace(bare, control=PROBED)), pairs)
    design = dataclasses.replace(manifest.design, repeats=pairs)
    observation = dataclasses.replace(manifest.observation, probes_in_control=True)
    return dataclasses.replace(
        prospect,
        manifest=dataclasses.replace(manifest, cells=cells, design=design, observation=observation),
        estimate=dataclasses.replace(prospect.estimate, cells=len(cells)),
    )


def _slug(labels: Sequence[str]) -> str:
    slug = "-".join(re.sub(r"[^A-Za-z0-9.]+", "_", label) for label in labels)
    return slug if len(slug) <= 60 else f"{slug[:60]}…".rstrip(".…")

"""From a request to a manifest: names are checked, builds realised, settings applied, space estimated."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from engine.builds import client_programs, features, resolve
from engine.builds.label import shown
from engine.core import missing_steps
from engine.core.errors import UserError
from engine.core.kernel import HOST
from engine.core.model import PROBED, Build, Manifest
from engine.core.version import revision, version
from engine.guest import kernels
from engine.host import block_device, disk, environment
from engine.journal import housekeeping
from engine.journal.runs import free_name
from engine.observe.stalls import StallRule
from engine.plan import (
    counter_check,
    external_servers,
    guests,
    interleaving,
    prerequisites,
    presets,
    routes,
    server_settings,
)
from engine.plan.design import Estimate, check_names, decide, interim_analyses, rough_settings, share
from engine.plan.request import Request
from engine.plan.schedule import interleave, subjects
from engine.plan.tolerance import tolerances
from engine.plan.workload_plans import recorded
from engine.postgres import external_server
from engine.tracing import planstats, selection


@dataclass(frozen=True, slots=True)
class Prospect:
    """A planned run; `notices` are lines about what it lacks on this machine."""

    manifest: Manifest
    estimate: Estimate
    notices: tuple[str, ...] = ()
    connections: dict[str, str] = field(default_factory=dict, repr=False)  # to external servers

    def record(self) -> dict[str, Any]:
        return {**self.estimate.record(), "notices": list(self.notices), "manifest": self.manifest.record()}


def estimate(request: Request, out: Path) -> dict[str, Any]:
    """Cells, time, space, steps and smallest detectable effect as JSON. Builds and runs nothing. Raises UserError."""
    check_names(request)
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
    chosen = dict(zip(request.builds, check_names(request), strict=True))
    restored = tuple(block_device.restore_left())
    tunables = guests.check(request)
    routes.check_reachable(request)
    prerequisites.provide(request, decide(request, out)[1].probes, progress, out / ".builds")
    asked, unavailable = presets.fetched(request, out / ".builds", progress)
    request, design, reason = decide(asked, out)
    tolerated = tolerances(request.tolerate, [step.name for step in design.steps])
    kept = [chosen[text] for text in request.builds]
    servers = external_servers.look_up(request, kept, design.steps) if request.external else None
    builds = servers.builds if servers else resolve.realise(kept, progress, out / ".builds")
    notices = (*restored, *unavailable, *presets.notices(request))
    if HOST in request.kernels:
        notices += selection.admit(design.probes, builds, allow_slow=request.allow_slow_probes)
    if planstats.PROBE in design.probes.names:
        notices += planstats.contention(int(design.load.plan.record["clients"]))
    notices += servers.notices if servers else tuple(twins(builds))
    labels = tuple(build.label for build in builds)
    base = labels[request.builds.index(request.base_build or request.builds[0])]
    machine = share(environment.machine(out), request)
    names = [external_server.CONFIG] if servers else [spec.name for spec in design.changes]
    applied = (
        servers.configs if servers else server_settings.applied(request, design.changes, builds, machine, progress)
    )
    for config in applied.values():
        guests.check_device(request, config)
        if HOST in request.kernels:
            block_device.check(config.device, out)
    notices += tuple(
        dict.fromkeys(
            f"config {config.name}: {', '.join(f'{name}={value}' for name, value in config.device)} while a cell runs"
            for config in applied.values()
            if config.device
        )
    )
    settings = [dict(config.settings) for config in applied.values()]
    interim = interim_analyses(asked, request)
    expected = design.estimate(request, settings, out, interim)
    needed = design.cell_bytes(request, settings)
    booted = guests.prepare(request, environment.machine(out), needed, settings, progress, out)
    for kernel in booted.kernels:
        offered = selection.in_guest(kernel) if design.probes.choices else None
        lacking = selection.admit(design.probes, builds, offered, allow_slow=request.allow_slow_probes)
        notices += tuple(f"kernel {kernel.label}: {line}" for line in lacking)
    perf = counter_check.prepare(request, progress, out / ".builds")
    notices += perf.notices
    created = datetime.now().astimezone()
    program_names = design.load.plan.programs
    optional = {need for step in design.steps for need in step.needs}
    programs, missing = (
        client_programs.seek(program_names, optional, builds, progress, out / ".builds") if program_names else ({}, {})
    )
    left_out = features.lacking(design.steps, builds, missing)
    if left_out:
        notices += missing_steps.sentences(left_out)
    # Blocks begin at the same second on several machines.
    wanted = "-".join(filter(None, (f"{created:%Y%m%d-%H%M%S}", _slug(labels), os.environ.get(environment.SANDBOX))))
    run = free_name(out, wanted)
    housekeeping.forget_abandoned(out)
    with housekeeping.data_kept(out / run) as data:
        record = recorded(design.load, programs, left_out, labels, data)
        features.check_demands(record.get("demands", ()), builds)
        notices += (*design.load.plan.notices, *record.get("notices", ()))
        route, client_host = routes.decide(request, design.load.workload, record, progress)
    if client_host and (why := client_host["link"]["not_by_nix"]):
        notices += (f"--client-host {route.host}: Nix could not copy the clients there, an archive went there: {why}",)
    manifest = Manifest(
        run=run,
        created=created.isoformat(timespec="seconds"),
        engine=version(),
        seed=request.seed,
        base=base,
        repeats=request.planned_repeats,
        aa=request.aa,
        margin=request.margin,
        builds=builds,
        configs=applied,
        workload=record,
        cells=interleave(
            subjects(labels, names, base, request.aa, [kernels.label_of(spec) for spec in request.kernels]),
            request.planned_repeats,
        ),
        kernels=booted.kernels,
        guest=booted.machine,
        tunables=tuple(tunables),
        stall_rule=asdict(StallRule()),
        environment=environment.record(out) | ({"client": client_host} if client_host else {}),
        interleave="slices" if request.sliced else "cells",
        interleave_reason=reason,
        interim_analyses=interim,
        minutes=request.minutes,
        slice_ms=interleaving.slice_ms(request, design.steps),
        route=route,
        keep=request.keep,
        allow_concurrent=request.allow_concurrent,
        observers=design.probes.names,
        allow_slow_probes=request.allow_slow_probes,
        counters=request.counters,
        perf=perf.record,
        external=servers.use if servers else None,
        tolerated=tolerated,
        revision=revision(),
        request={
            **msgspec.structs.replace(request, repeats=asked.repeats).entries(),
            "builds": [shown(build) for build in request.builds],
        },
    )
    return Prospect(manifest, expected, (*notices, *booted.notices), servers.connections if servers else {})


def twins(builds: Sequence[Build]) -> Iterable[str]:
    """A line for each two builds that are one server by two names, as of two commits that differ in the manual only."""
    for one, other in itertools.combinations(builds, 2):
        ours, theirs = ((build.prefix, build.initdb_args, build.extensions) for build in (one, other))
        if ours == theirs:
            yield f"{one.label} and {other.label} are the same server: how they differ is chance, as with --aa"


def with_probed_control(prospect: Prospect, pairs: int) -> Prospect:
    """Turn a plan of one subject into alternating cells without and with probes. Raises UserError if impossible."""
    manifest = prospect.manifest
    if planstats.PROBE in manifest.observers:
        raise UserError(
            f"{planstats.PROBE} is part of the server's settings, so no cell can run without it; choose other probes"
        )
    if not manifest.observers:
        raise UserError("nothing to attach: choose probes that are available here (bench list probes)")
    bare = manifest.cells[0].subject
    cells = interleave((bare, dataclasses.replace(bare, control=PROBED)), pairs)
    return dataclasses.replace(
        prospect,
        manifest=dataclasses.replace(manifest, cells=cells, repeats=pairs, probes_in_control=True),
        estimate=dataclasses.replace(prospect.estimate, cells=len(cells)),
    )


def _slug(labels: Sequence[str]) -> str:
    slug = "-".join(re.sub(r"[^A-Za-z0-9.]+", "_", label) for label in labels)
    return slug if len(slug) <= 60 else f"{slug[:60]}…".rstrip(".…")

"""The design of a run, known before its builds exist: workloads, steps, probes, settings, time and space."""

from __future__ import annotations

import re
import resource
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from engine.analysis.answer import noise
from engine.analysis.answer.noise import Noise
from engine.builds import resolve
from engine.builds.label import Label
from engine.core.errors import UserError, unknown
from engine.core.format import size_bytes
from engine.core.model import INTERIM_ANALYSES, PAIRS, InterimAnalysis
from engine.host import environment
from engine.host.address_space import check_address_space
from engine.host.environment import Machine
from engine.plan import external_servers, guests, interleaving, planfile, routes
from engine.plan.interleaving import CannotBeSliced, Change
from engine.plan.request import CELLS, MOST_REPEATS, Request
from engine.plan.workload_plans import Load, load_of
from engine.postgres import configs
from engine.tracing import planstats, selection
from workloads import workload
from workloads.api.base import Step
from workloads.api.names import UnknownName

SERVER_S = 3.0  # to initialise, start, stop and remove a cluster
STEP_S = 0.4  # to start the clients and settle the statistics
MAX_CELLS = 10_000
MOST_IN_TIME = 4  # times the expected number of repeats is planned, so that time ends the run
# Files that an engine keeps open at most: for itself, for each server of a cell, and for each connection to it.
OPEN_FILES, OPEN_FILES_OF_SERVER, OPEN_FILES_OF_CONNECTION = 80, 25, 7
DEFAULT_CONNECTIONS = 100  # the server's default of max_connections
RESERVED_CONNECTIONS = 20  # for the engine's own sessions, and for people


def _effect(effect: float) -> float | None:
    """An effect as a figure, or None where no effect shows."""
    return effect if effect < noise.NOTHING_SHOWS else None


@dataclass(frozen=True, slots=True)
class RunEstimate:
    """Expected time and space of a run's cells; times are rough, since nothing has been measured yet.

    `cells` is the number of planned cells, or of those that fit into the time.
    `noise` is the smallest effect that the run can show; None without an earlier run, or with one subject.
    `query_step_s` is the length of the longest sliced step of a fixed length, over all servers; None without any.
    """

    cells: int
    cell_s: float
    needed_bytes: int
    noise: Noise | None
    query_step_s: float | None = None
    unread: tuple[str, ...] = ()  # why earlier runs, the newest first, say nothing of the noise

    def record(self) -> dict[str, Any]:
        return {
            "cell_count": self.cells,
            "cell_s": round(self.cell_s),
            "total_s": round(self.cell_s * self.cells),
            "needed_bytes": self.needed_bytes,
            "query_step_s": self.query_step_s,
            "smallest_effect": _effect(round(self.noise.effect, 4)) if self.noise else None,
            "noise": asdict(self.noise)
            | {"steps": {step: _effect(effect) for step, effect in self.noise.steps.items()}}
            if self.noise
            else None,
        }


@dataclass(frozen=True, slots=True)
class Design:
    """The cells of a request before its builds exist. `changes` are settings on top of each config."""

    load: Load
    steps: tuple[Step, ...]
    probes: selection.Selection
    changes: dict[configs.ConfigSpec, tuple[Change, ...]]

    def cell_s(self, request: Request) -> float:
        pausing = request.subjects if request.sliced else 1  # servers that pause at once
        return SERVER_S + sum(
            step.expected_s / (pausing if step.kind == "pause" else 1) + STEP_S for step in self.steps
        )

    def fitting(self, request: Request) -> int:
        assert request.minutes is not None
        return max(1, int(60 * request.minutes / (self.cell_s(request) * request.subjects)))

    def cell_bytes(self, request: Request, settings: Iterable[Mapping[str, str]]) -> int:
        """Space of the largest cell; `settings` are those of each config."""
        record = self.load.plan.record
        return max(self.load.workload.expected_bytes(record, max_wal_bytes(settings_of)) for settings_of in settings)

    def estimate(
        self, request: Request, settings: Iterable[Mapping[str, str]], out: Path, interim: Sequence[InterimAnalysis]
    ) -> RunEstimate:
        cell_bytes = self.cell_bytes(request, settings)
        long_s = {step.name: step.expected_s for step in self.steps}
        controls = request.aa * request.config_count * len(request.kernels)
        judged, repeats = request.subjects - controls, request.planned_repeats
        repeats = min(repeats, self.fitting(request)) if request.minutes else repeats
        tell: Callable[..., Noise | None] = noise.smallest_effects
        if request.sliced:
            tell = partial(noise.smallest_in_slices, interim=interim)
        unread: list[str] = []
        tell = partial(tell, workload=self.load.workload.name, unread=lambda error: unread.append(str(error)))
        # Runs of pgbed's own servers say nothing about external ones.
        noise_here = tell(out, repeats, long_s, judged) if request.subjects > 1 and not request.external else None
        return RunEstimate(
            cells=request.subjects * repeats,
            cell_s=self.cell_s(request),
            needed_bytes=cell_bytes * request.clusters_at_once(repeats),
            noise=noise_here,
            unread=tuple(unread),
            query_step_s=max(
                (request.subjects * step.expected_s for step in self.steps if request.sliced and step.sliced == "time"),
                default=None,
            ),
        )


def rough_settings(
    request: Request, changes: Mapping[configs.ConfigSpec, Sequence[Change]], machine: Machine
) -> list[dict[str, str]]:
    """Settings of each config that affect the estimated space, valid for any version."""
    scaled = configs.scale(share(machine, request))
    explicit = [spec.values | dict(added) for spec, added in changes.items()]
    return [
        {name: scaled.get(name, value) if value == configs.SCALED else value for name, value in settings.items()}
        for settings in explicit
    ]


def share(machine: Machine, request: Request) -> Machine:
    return guests.share(interleaving.share(machine, request), request)


def max_wal_bytes(settings: Mapping[str, str]) -> int:
    return size_bytes(settings.get("max_wal_size", "1GB"), default_unit="MB")


def _connections(spec: configs.ConfigSpec, changes: Sequence[Change], steps: Sequence[Step]) -> tuple[Change, ...]:
    """max_connections, if the default is too low for the plan and nothing sets it. UserError if it is set too low."""
    needed = max((step.connections for step in steps), default=0) + RESERVED_CONNECTIONS
    for where, settings in (("--set", dict(changes)), (f"config '{spec.name}'", spec.values)):
        value = settings.get("max_connections")
        if value is None:
            continue
        if re.fullmatch("[0-9]{1,9}", value) and int(value) < needed:
            raise UserError(f"{where}: max_connections={value} is too low: this plan needs {needed} connections")
        return ()
    return (("max_connections", str(needed)),) if needed > DEFAULT_CONNECTIONS else ()


def check_names(request: Request) -> tuple[Label, ...]:
    """Check names and numbers before anything slow is done; return the labels of the builds. Raises UserError."""
    routes.check(request)
    if not request.builds:
        raise UserError("no build given: use --pg LABEL,… (bench list builds shows the labels)")
    if not request.configs:
        raise UserError("no config given: use --config NAME,… (bench list configs shows the names)")
    external_servers.check(request)
    cells = request.subjects * request.planned_repeats
    if cells > MAX_CELLS:
        raise UserError(
            f"{cells:,} cells are more than a run may have ({MAX_CELLS:,}): "
            "lower --repeats, or name fewer builds, configs or kernels"
        )
    labels = resolve.check(request.builds)
    names = [label.name for label in labels]
    if request.base is not None and request.base not in (*names, *request.builds):
        raise unknown("base", request.base, names)
    if request.until_known and request.repeats:
        raise UserError(f"--until-known plans up to {PAIRS} pairs: leave out --repeats")
    if request.until_known and request.minutes:
        raise UserError("--minutes also ends once every step is decided: leave out --until-known")
    return labels


def decide(request: Request, out: Path) -> tuple[Request, Design, str]:
    """Decide what to interleave: return the request, its design, and the reason unless the user chose."""
    machine = environment.machine(out)
    reason = ""
    if request.interleave != "auto":
        design = _look_up(request, machine)
    else:
        request, design, reason = _chosen(request, machine)
    if request.until_known and not request.sliced:
        because = f", which are impossible here: {reason}" if reason else ": use --interleave slices"
        raise UserError(f"--until-known analyses pairs of slices{because}")
    if request.minutes and request.repeats is None:
        request = msgspec.structs.replace(request, repeats=_most_in_time(request, design))
    pairs = design.load.plan.pairs
    if pairs and request.sliced and request.repeats is None and not request.until_known:
        request = msgspec.structs.replace(request, repeats=pairs)
    return request, design, reason


def interim_analyses(asked: Request, decided: Request) -> tuple[InterimAnalysis, ...]:
    """The interim analyses of a run in slices whose number of pairs is left to its time, or to its verdicts."""
    ends = asked.until_known or (asked.minutes and asked.repeats is None)
    return INTERIM_ANALYSES if decided.sliced and ends else ()


def _chosen(request: Request, machine: Machine) -> tuple[Request, Design, str]:
    sliced, cells = (msgspec.structs.replace(request, interleave=mode) for mode in ("slices", "cells"))
    try:
        design = _look_up(sliced, machine)
    except CannotBeSliced as cannot:
        return cells, _look_up(cells, machine), cannot.reason
    return sliced, design, interleaving.reason(sliced, design.steps)


def _most_in_time(request: Request, design: Design) -> int:
    """Repeats to plan for a given time: more than will run, since times are not measured yet."""
    most = min(MOST_IN_TIME * design.fitting(request), MAX_CELLS // request.subjects, MOST_REPEATS)
    return max(CELLS, most + most % 2)


def _look_up(request: Request, machine: Machine) -> Design:
    sliced = request.sliced
    if sliced and request.external:
        raise CannotBeSliced("external servers cannot be paused")
    try:
        load = load_of(request, _options(request))
    except (UnknownName, ValueError) as error:
        raise planfile.refused(error) from None
    steps = load.steps
    check_open_files(max((step.connections for step in steps), default=0), request.subjects if sliced else 1)
    if request.external:
        external_servers.check_plan(load.plan)
    if sliced:
        interleaving.check(request, steps)
    probes = selection.select(request.probes or load.plan.probes)
    specs = configs.each_value(configs.resolve(request.configs), request.set_each)
    changes = configs.overrides((*load.plan.settings, *request.overrides))
    if planstats.PROBE in probes.names:
        changes = planstats.settings(changes)
    with_connections = {spec: (*changes, *_connections(spec, changes, steps)) for spec in specs}
    if sliced:
        interleaving.check_configs(with_connections)
        with_connections = {
            spec: interleaving.stretched(spec, connections, request.subjects)
            for spec, connections in with_connections.items()
        }
    rough = rough_settings(request, with_connections, machine)
    if not request.external:
        check_address_space(map(interleaving.buffer_bytes, rough))
    if sliced:
        data_bytes = load.workload.expected_bytes(load.plan.record, 0)
        interleaving.check_memory(rough, data_bytes, request, machine.memory_bytes)
    return Design(load, steps, probes, with_connections)


def check_open_files(connections: int, servers: int) -> None:
    """Raise UserError if the engine may not open what it needs; the soft limit it raises on its own."""
    needed = OPEN_FILES + servers * (OPEN_FILES_OF_SERVER + OPEN_FILES_OF_CONNECTION * connections)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < needed:
        raise UserError(
            f"{connections} connections to {servers} server{'s' if servers > 1 else ''} at once need {needed:,} open "
            f"files, and the hard limit is {most:,}: raise it (ulimit -Hn), or reduce --clients"
        )


def _options(request: Request) -> Mapping[str, Any]:
    """The workload's options. Raises CannotBeSliced if the given ones exclude slices."""
    if not request.sliced:
        return request.options
    try:
        return workload(request.workload).sliced_options(request.options)
    except ValueError as error:
        raise CannotBeSliced(str(error)) from None

"""Counters: events of a server's processes, such as instructions, which perf counts in each step."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from engine.core.errors import UserError
from engine.core.kernel import HOST
from engine.core.perf_events import EVENTS
from engine.features.counters import perf
from engine.features.counters.step_counters import NO_PMU, StepCounters, engine_account, lacking, not_here
from engine.features.feature import Feature, MeasuredStep
from engine.system import packages
from engine.system.subprocesses import ask
from workloads.api.options import CAUSES, about

if TYPE_CHECKING:
    from engine.builds.nix import Progress
    from engine.core.model import Manifest
    from engine.host.doctor import DoctorCheck
    from engine.plan.prepare import Draft
    from engine.plan.request import Request
    from engine.results.comparison import Comparison
    from engine.results.section import Section

Level = Literal["off", "auto", "hardware"]  # count nothing, whatever the machine has, or only with a PMU
NO_PERF = "install it (Debian: linux-perf), or set perf in config.toml"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    counters: Annotated[
        Level,
        about(
            "Count events of the server's processes with perf stat, such as instructions per operation. Without "
            "hardware counters, auto counts nothing, and hardware refuses to start.",
            group=CAUSES,
        ),
    ] = "off"


class Part(msgspec.Struct, frozen=True):
    counters: Level = "off"
    perf: dict[str, str] = {}  # path and version of perf; empty without it


def machine_check(_: Path) -> DoctorCheck:
    """Check which events can be counted on this machine. Fetches nothing."""
    from engine.host.doctor import judged

    events, reason, remedy = "none", "", ""
    program = perf.find()
    if not program and os.environ.get(perf.VARIABLE, "").endswith(".drv"):
        events = "not checked: the first run with --counters fetches perf"
    elif not program:
        reason, remedy = "there is no perf", NO_PERF
    else:
        try:
            countable = perf.trial(program, engine_account())
            events = ", ".join(event.name for event in EVENTS if event.hardware and event.name in countable)
            if not events:
                events, reason, remedy = "none", NO_PMU, "measure on bare metal, or let the guest have a PMU"
        except UserError as error:
            reason, remedy = str(error), "run bench as root, or set kernel.perf_event_paranoid to 1 or less"
    return judged("counters", events, not reason, reason, remedy)


class CountersFeature(Feature):
    name, options, part, needs = "counters", Options, Part, (machine_check,)

    def check(self, request: Request, options: Options) -> None:
        if options.counters == "hardware" and request.in_guests:
            raise UserError("--counters hardware: not with --kernel, whose counters cannot be tried first; use auto")

    def provide(self, options: Options, progress: Progress) -> None:
        if options.counters == "hardware" and not perf.find():
            packages.install({"perf": "linux-perf"}, progress)

    def prepare(self, draft: Draft, options: Options) -> Generator[str, None, Part]:
        """Find perf and try it. Raises UserError if the options require counters that are unavailable."""
        if options.counters == "off":
            return Part()
        if draft.request.external:
            yield "no counters: the processes of external servers are not visible"
            return Part(options.counters)
        record = {}
        try:
            program = _perf(draft.progress, draft.roots)
            record = {"path": program, "version": ask([program, "--version"], engine_account()).shown}
            lack = lacking(program) if HOST in draft.request.kernels else ""
        except UserError as error:
            lack = str(error)
        if lack and options.counters == "hardware":
            raise UserError(f"--counters hardware: {lack}; use auto")
        if lack:
            yield not_here(lack)
        return Part(options.counters, record)

    def check_resumed(self, part: Part, manifest: Manifest, run: Path, progress: Progress) -> None:
        recorded = part.perf.get("path")
        if recorded is not None and recorded != _perf(progress, run.parent / ".builds"):
            raise UserError(f"perf is not {recorded} any more; name that in {perf.VARIABLE}, or start a new run")

    def programs(self, part: Part) -> Iterator[Path]:
        if path := part.perf.get("path"):
            yield Path(path).resolve().parent

    @contextmanager
    def around_step(self, part: Part, measured: MeasuredStep) -> Iterator[None]:
        if part.counters == "off" or measured.step.apart or not measured.postmaster:
            yield
            return
        counters = StepCounters.of_step(part.perf.get("path", ""), measured)
        try:
            counters.start()
            yield
            counters.finish()
        finally:
            counters.close()
        measured.totals |= {"counters": counters.counted.roles, "counters_note": counters.counted.note}
        if counters.counted.roles:
            measured.observers.add(self.name)

    def sections(self, comparison: Comparison) -> Iterator[Section]:
        from engine.features.counters.section import section

        yield section(comparison)


def _perf(progress: Progress, roots: Path) -> str:
    """The path of perf, fetched if Nix is to provide it. Raises UserError."""
    from engine.builds import nix

    pinned = os.environ.get(perf.VARIABLE, "")
    if pinned.endswith(".drv"):
        return str(nix.realise("perf", pinned, progress, roots / "perf") / "bin" / "perf")
    if program := perf.find():
        return program
    raise UserError(f"no perf on PATH: {NO_PERF}")


FEATURE = CountersFeature()

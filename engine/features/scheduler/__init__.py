"""Scheduler: tunables of the kernel's scheduler, the same for all cells of a run."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from engine.core.errors import UserError
from engine.core.kernel import HOST
from engine.core.model import Config, Manifest
from engine.features.feature import Feature
from engine.host import kernel_settings, scheduler
from engine.host.kernel_settings import Settings
from workloads.api.options import KERNELS, about

if TYPE_CHECKING:
    from engine.builds.nix import Progress
    from engine.plan.prepare import Draft
    from engine.plan.request import Request

Tunables = tuple[tuple[str, str], ...]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    sched: Annotated[
        tuple[str, ...],
        about(
            "A tunable of the kernel's scheduler, for every cell; restored afterwards on the host.",
            metavar="NAME=VALUE",
            repeated=True,
            group=KERNELS,
        ),
    ] = ()


class Part(msgspec.Struct, frozen=True):
    tunables: Tunables = ()


class SchedulerFeature(Feature):
    name, options, part = "scheduler", Options, Part

    def check(self, request: Request, options: Options) -> None:
        tunables = parsed(options.sched)
        if HOST in request.kernels:
            kernel_settings.check(settings(tunables, os.uname().release))

    def prepare(self, draft: Draft, options: Options) -> Generator[str, None, Part]:
        yield from ()
        tunables = parsed(options.sched)
        for kernel in draft.boot.kernels:
            settings(tunables, kernel.release)
        return Part(tunables)

    def check_resumed(self, part: Part, manifest: Manifest, run: Path, progress: Progress) -> None:
        parsed([f"{name}={value}" for name, value in part.tunables])

    def around_cells(self, part: Part, config: Config, run: Path) -> AbstractContextManager[None]:
        return kernel_settings.changed(settings(part.tunables, os.uname().release))

    def conditions(self, part: Part) -> Tunables:
        return part.tunables


def parsed(texts: Sequence[str]) -> Tunables:
    """NAME=NUMBER pairs. Raises UserError for an unknown or repeated name."""
    tunables: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if name not in scheduler.VERSIONS:
            raise UserError(f"--sched {name}: unknown; known: {', '.join(scheduler.VERSIONS)}")
        if not equals or not value.isascii() or not value.isdecimal() or len(value) > 18:
            raise UserError(f"--sched {text}: give NAME=NUMBER, such as base_slice_ns=3000000")
        if name in tunables:
            raise UserError(f"--sched {name}: given twice")
        tunables[name] = str(int(value))
    return tuple(tunables.items())


def settings(tunables: Tunables, release: str) -> Settings:
    """The files of tunables. Raises UserError, listing a kernel's tunables, for one that its release lacks."""
    files = scheduler.known(release)
    for name, _ in tunables:
        if name not in files:
            raise UserError(f"--sched {name}: Linux {release} does not have it; it has {', '.join(files)}")
    return {f"--sched {name}": (files[name], value) for name, value in tunables}


FEATURE = SchedulerFeature()

"""The request: what to compare and how, as the command line, a plan file or the Launch screen gives it.

The options of the command line, the entries of a plan file and their bounds derive from the fields of `Request` and of
each feature's options; those of `Request.options` from the workload's options class: see `workloads.api.options`.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from engine.builds.label import is_external, name_of
from engine.core.kernel import HOST
from engine.core.model import MOST_MINUTES, PAIRS, SLICE_MS
from engine.features import chosen_options, features
from engine.plan.request_groups import ExternalOptions, GuestOptions, RouteOptions
from workloads import of_preset
from workloads import workload as known_workload
from workloads.api.options import (
    CAUSES,
    COMPARE,
    OUTPUT,
    SURENESS,
    WHERE,
    Option,
    about,
    checked,
    given,
    options_of,
)

# Repeats of whole cells; `PAIRS` of slices. Even numbers, since the servers' order is reversed from repeat to repeat:
# the first cell, and the first step that is not sliced, is not measured under the same conditions as the second. Eight
# short pairs: an interval over pairs narrows more with one more pair than with longer ones.
CELLS = 4
MOST_REPEATS = 1000
DEFAULT = "insert"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """The request of a run. `options` and `features` hold what differs from defaults, the latter by feature.

    The options of `route`, `guest` and `servers` stand among the others on the command line and in plan files.
    """

    builds: Annotated[
        tuple[str, ...],
        about(
            "Builds to compare, the base first. 16.3+FILE.patch is that version with a patch, 16.3+pg_trgm or "
            "16.3+NAME=/path with an extension; 16.3:O3 (:lto, :nofp, :jit, :cassert, :CFLAGS=FLAGS) is compiled "
            "differently, 16.3:layout1 linked in another order; NAME=/path is an install or a source tree of yours, "
            "NAME=git:/path@REVISION a commit, and NAME=postgresql://USER@HOST/DB a server that pgbed did not start.",
            metavar="LABEL,…",
            flag="--pg",
            group=COMPARE,
            brief="Builds, the base first (bench list builds).",
        ),
    ] = ()
    base: Annotated[
        str | None,
        about(
            "Build to compare the others with.",
            metavar="LABEL",
            unset="the first of --pg",
            group=COMPARE,
            brief="Build to compare with [the first].",
        ),
    ] = None
    configs: Annotated[
        tuple[str, ...],
        about(
            "Server settings to compare.",
            metavar="NAME|FILE,…",
            flag="--config",
            group=COMPARE,
            brief="Sets of server settings [auto].",
        ),
    ] = ("auto",)
    overrides: Annotated[
        tuple[str, ...],
        about(
            "A server setting on top of every config.",
            metavar="NAME=VALUE",
            flag="--set",
            repeated=True,
            group=COMPARE,
            brief="A setting on top of every config.",
        ),
    ] = ()
    set_each: Annotated[
        str | None,
        about(
            "A config for each value of a server setting, on top of --config: shared_buffers=1GB,4GB.",
            metavar="NAME=VALUE,…",
            unset="none",
            group=COMPARE,
        ),
    ] = None
    kernels: Annotated[
        tuple[str, ...],
        about(
            "Kernels to compare, the base first. host is the running kernel; each cell under another one runs in a "
            "guest of its own. NAME=/path/bzImage is a kernel of yours, with lib/modules/RELEASE in the same folder; "
            "6.12:preempt=full one with a parameter on its command line.",
            metavar="LABEL,…",
            flag="--kernel",
            group=COMPARE,
            brief="Kernels; all but the host's in guests [host].",
        ),
    ] = (HOST,)
    workload: Annotated[
        str,
        about(
            "Workload to run (see bench list workloads). NAME:VALUE gives its script.",
            metavar="NAME",
            brief="Workload, e.g. pgbench:FILE.sql [insert].",
        ),
    ] = DEFAULT
    options: dict[str, Any] = {}
    features: dict[str, Any] = {}
    repeats: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_REPEATS)] | None,
        about(
            "Cells per build. A verdict needs 3. Their order is reversed in every other repeat: choose an even number.",
            metavar="N",
            unset=f"{CELLS}, in slices {PAIRS}",
            group=SURENESS,
            brief=f"Cells per build [{CELLS}, in slices {PAIRS}].",
        ),
    ] = None
    minutes: Annotated[
        Annotated[float, Meta(ge=0.1, le=MOST_MINUTES)] | None,
        about(
            "Time for the whole run, which ends before the pair that would exceed it. In slices, unless --repeats is "
            "given, the run ends once every step is decided, and the remaining time is divided again after each pair: "
            "decided query steps are left out, and others last longer, the wider their intervals.",
            metavar="N|TIME",
            unset="the time of the repeats",
            unit="min",
            group=SURENESS,
            brief="Time for the whole run, e.g. 10 or 2h.",
        ),
    ] = None
    until_known: Annotated[
        bool,
        about(
            f"In slices, stop as soon as every step has a verdict, after {PAIRS} pairs at the latest: as with "
            "--minutes, interim analyses at stricter levels leave decided query steps out of further pairs.",
            excludes=["repeats", "minutes"],
            group=SURENESS,
            brief="Stop when every step has a verdict.",
        ),
    ] = False
    margin: Annotated[
        Annotated[float, Meta(ge=0.001, le=0.5)],
        about(
            "Smallest effect that matters: 0.02 or 2%.",
            metavar="FRACTION",
            unit="share",
            group=SURENESS,
            brief="Smallest effect that matters [0.02].",
        ),
    ] = 0.02
    aa: Annotated[
        bool,
        about(
            "Also run the base against itself (A/A control), to show the noise floor.",
            group=SURENESS,
            brief="Also run the base against itself (A/A control).",
        ),
    ] = False
    interleave: Annotated[
        Literal["auto", "slices", "cells"],
        about(
            "What is interleaved: whole cells, or slices of load, write and query steps and of pgbench's steps, with "
            "the servers of a repeat up side by side. Slices show much smaller differences, even on a shared machine. "
            "auto: slices where possible.",
            group=SURENESS,
            brief="slices or cells [auto: slices if possible].",
        ),
    ] = "auto"
    slice_ms: Annotated[
        Annotated[float, Meta(ge=SLICE_MS[0], le=SLICE_MS[1])] | None,
        about(
            "Length of a slice, ±20% by block; approximate in load and write steps, at least 50 in index builds "
            "and other statements that outlast a slice.",
            metavar="MS",
            unit="ms",
            unset="20, or 50 where clients (pgbench, tpcc) or statements (own) may have to be stopped",
            group=SURENESS,
        ),
    ] = None
    tolerate: Annotated[
        tuple[str, ...],
        about(
            "Slow-down that bench compare --gate accepts, in all steps or in one: 3%,l.x=10%.",
            metavar="[STEP=]PERCENT,…",
            unset="the margin",
            group=SURENESS,
        ),
    ] = ()
    seed: Annotated[
        Annotated[int, Meta(ge=0, le=2**63 - 1)],
        about("Seed of the data, the same for all builds.", metavar="N", group=SURENESS),
    ] = 1
    probes: Annotated[
        tuple[str, ...],
        about(
            "Probes to attach: sched and stacks (default), and more expensive ones by name. NAME:window attaches for "
            "10 s of every 60, NAME:stalls during stalls; none also excludes a preset's. See bench list probes.",
            metavar="NAME,…",
            unset="none, or the preset's",
            group=CAUSES,
            brief="Kernel and server probes, or default [none].",
        ),
    ] = ()
    allow_slow_probes: Annotated[bool, about("Attach probes even where each hit costs about 10 us.", group=CAUSES)] = (
        False
    )
    route: RouteOptions = RouteOptions()
    allow_concurrent: Annotated[bool, about("Run even if another run is measuring on this machine.", group=WHERE)] = (
        False
    )
    keep: Annotated[bool, about("Keep every cell's cluster instead of removing it.", group=OUTPUT)] = False
    guest: GuestOptions = GuestOptions()
    servers: ExternalOptions = ExternalOptions()

    @property
    def base_build(self) -> str | None:
        """Name of the baseline build; None without builds."""
        named = {name_of(build): build for build in self.builds} | {build: build for build in self.builds}
        return named.get(self.base or "", self.builds[0] if self.builds else None)

    @property
    def external(self) -> bool:
        return any(map(is_external, self.builds))

    @property
    def subjects(self) -> int:
        """Number of builds under configs and kernels, with the baseline's A/A control."""
        return (len(self.builds) + self.aa) * self.config_count * len(self.kernels)

    @property
    def config_count(self) -> int:
        return len(self.configs) * (self.set_each.count(",") + 1 if self.set_each else 1)

    @property
    def in_guests(self) -> bool:
        return any(kernel != HOST for kernel in self.kernels)

    @property
    def sliced(self) -> bool:
        """False for `auto` too, which only the plan resolves."""
        return self.interleave == "slices"

    @property
    def planned_repeats(self) -> int:
        """Cells per build, at most; by default an even number of cells, or pairs of clusters."""
        return self.repeats or (CELLS if self.interleave == "cells" else PAIRS)

    def clusters_at_once(self, repeats: int) -> int:
        """Number of clusters on the disk at a time: all if they are kept, those of a repeat if interleaved."""
        together = self.subjects if self.sliced else 1
        return self.subjects * repeats if self.keep else together

    def entries(self) -> dict[str, Any]:
        """The JSON form, as in a plan file: the builds, and all that differs from the defaults."""
        of_features = (given(options) for options in self.features.values())
        return {"builds": list(self.builds), **given(self), **ChainMap(*of_features), **self.options}


def request_of(entries: Mapping[str, Any]) -> Request:
    """Make a request from its JSON form; other entries are workload options. Raises UnknownName or ValueError."""
    names, known = ({option.name for option in options} for options in (options_of(Request), request_options()))
    request = checked(Request, {name: value for name, value in entries.items() if name in names})
    options = {name: value for name, value in entries.items() if name not in known}
    workload, preset = entries.get("workload"), options.get("preset")
    if workload is None and isinstance(preset, str):
        workload = of_preset(preset)
    name, argument = workload_argument(workload or DEFAULT)
    return msgspec.structs.replace(
        request, workload=name, options={**options, **argument}, features=chosen_options(entries)
    )


def feature_options() -> tuple[Option, ...]:
    return tuple(option for feature in features() for option in options_of(feature.options))


def request_options() -> tuple[Option, ...]:
    """All options of a request but those of its workload: its own, and those of all features."""
    return (*options_of(Request), *feature_options())


def workload_argument(text: str) -> tuple[str, dict[str, Any]]:
    """Split NAME:VALUE into the workload's name and the option that VALUE gives. Raises UnknownName or ValueError."""
    name, colon, value = text.partition(":")
    options = options_of(known_workload(name).options)
    if not colon:
        return name, {}
    for option in options:
        if option.argument:
            return name, {option.name: option.parsed(value)}
    raise ValueError(f"workload {name} takes no value after its name: ':{value}'")

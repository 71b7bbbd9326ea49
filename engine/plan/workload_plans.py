"""The workloads of a run: the plan of each variant, with the options of background workloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.core import missing_steps
from engine.core.errors import UserError
from engine.host.account import unprivileged
from engine.plan import planfile
from engine.plan.request import Request
from engine.plan.variants import variant_label, workload_argument
from workloads import background_of, modules, workload
from workloads.base import BackgroundWorkload, Plan, Step, Surveying, Workload
from workloads.combined.names import Part, parts_of
from workloads.combined.workload import Combined
from workloads.names import UnknownName
from workloads.options import checked, options_of


@dataclass(frozen=True, slots=True)
class Load:
    """A workload and its plan; `name` is that of the variant, empty if there is only one."""

    name: str
    workload: Workload
    plan: Plan

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.workload.steps(self.plan.record)


def loads(request: Request, options: Mapping[str, Any]) -> tuple[Load, ...]:
    """Plan a request's workloads, the base (with `options`) first. Raises UnknownName or ValueError, in one line."""
    main = workload(request.workload)
    planned = main.plan(checked(main.options, options))
    variants = [(variant, background_of(variant)) for variant in request.variants]
    background = list(dict.fromkeys(part for _, parts in variants for part in parts))
    options_of_part = _options(request, background)
    planned_loads = []
    for variant, parts in variants:
        label = variant_label(parts_of(variant, modules())) if len(variants) > 1 else ""
        if parts:
            combined = workload("+".join((main.name, *(part.name for part in parts))))
            assert isinstance(combined, Combined)
            plan = combined.joined(planned, [_plan(part, options_of_part[part]) for part in parts])
            planned_loads.append(Load(label, combined, plan))
        else:
            planned_loads.append(Load(label, main, planned))
    return tuple(planned_loads) or (Load("", main, planned),)


def recorded(
    load: Load, programs: Mapping[str, Any], left_out: missing_steps.Lacking, labels: Sequence[str], folder: Path
) -> dict[str, Any]:
    """Record a workload for the manifest, without the steps `left_out` by some builds (`labels`). Raises UserError.

    Its data may be put into `folder`, which the user that restores it may read.
    """
    record = load.plan.record
    if programs:
        record = {**record, "programs": dict(programs)}
    if left_out:
        record = _without(record, left_out, labels)
    try:
        if isinstance(load.workload, Surveying):
            record = load.workload.survey(record, str(folder))
            account = unprivileged()
            for place in (folder, *folder.iterdir()) if folder.is_dir() else ():
                account.own(place)
        load.workload.check(record)
    except ValueError as error:
        raise planfile.refused(error) from None
    chosen = load.workload
    return {**record, "identity": chosen.identity(record), "non_default": list(chosen.non_default(record))}


def _without(record: dict[str, Any], left_out: missing_steps.Lacking, labels: Sequence[str]) -> dict[str, Any]:
    steps = [step for step in record["steps"] if not all(step["name"] in left_out.get(label, {}) for label in labels)]
    if not steps:
        raise UserError(f"nothing is left to do: {'; '.join(missing_steps.sentences(left_out))}")
    return {**record, "steps": steps, "lacking": {label: dict(why) for label, why in left_out.items()}}


def _plan(part: Part, options: Mapping[str, Any]) -> Plan:
    joining = workload(part.name)
    assert isinstance(joining, BackgroundWorkload)
    try:
        return joining.background_plan({**options, **workload_argument(part.text)[1]})
    except ValueError as error:
        raise ValueError(f"{part.label}: {error}") from None


def _options(request: Request, background: Sequence[Part]) -> dict[Part, dict[str, Any]]:
    """The options of --with for each background workload. Raises UnknownName or ValueError."""
    options: dict[Part, dict[str, Any]] = {part: {} for part in background}
    names = list(dict.fromkeys(part.name for part in background))
    for text in request.with_options:
        target, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"--with {text}: give NAME=VALUE")
        if not background:
            raise ValueError(f"--with {text}: {request.workload} has no background workload; name one: --workload "
                             f"{request.workload}+NAME")  # fmt: skip
        load, _, name = target.strip().rpartition(".")
        name = name.strip().removeprefix("--").replace("-", "_")
        if load and load not in names:
            raise ValueError(f"--with {text}: no background workload is called {load}, but "
                             f"{', '.join(names)}")  # fmt: skip
        known_options = {of: {option.name: option for option in options_of(workload(of).options)} for of in names}
        takers = [part for part in background if name in known_options[part.name] and load in ("", part.name)]
        if not takers:
            raise UnknownName(
                "option of --with", name, tuple(dict.fromkeys(text for of in names for text in known_options[of]))
            )
        for part in takers:
            option = known_options[part.name][name]
            before = options[part].get(name, [])
            options[part][name] = [*before, value] if option.repeated else value
    return options

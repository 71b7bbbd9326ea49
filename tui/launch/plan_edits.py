"""Edits of a request: each choice on the Launch screen is a function from a request to a new one."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w
from msgspec.structs import replace

from engine.core.errors import UserError
from engine.plan.request import Request, request_of, request_options


def keep(request: Request, path: Path) -> None:
    """Write a plan file. Raises UserError if it cannot be written, or if it may not name one of the configs."""
    kept = replace(request, configs=tuple(_beside(path, config) for config in request.configs))
    try:
        path.write_text(tomli_w.dumps(kept.entries()), "utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None


def _beside(plan: Path, config: str) -> str:
    """A config as a plan file names it: relative to the plan's folder, the only place it is read from."""
    if "/" not in config and Path(config).suffix not in (".conf", ".toml"):
        return config
    place, folder = Path(config).absolute(), plan.absolute().parent
    if not place.is_relative_to(folder):
        raise UserError(f"{config} is not below {folder}: a plan reads configs from its own folder only")
    return str(place.relative_to(folder))


def with_build(request: Request, build: str, order: Sequence[str]) -> Request:
    """Toggle a build; builds keep the order of the list, the user's own installs last."""
    base = request.base_build
    if build in request.builds:
        left = tuple(other for other in request.builds if other != build)
        return _based(replace(request, builds=left), None if build == base else base)
    wanted = {*request.builds, build}
    added = [other for other in (*request.builds, build) if other not in order]
    return _based(replace(request, builds=(*(other for other in order if other in wanted), *added)), base)


def with_base(request: Request, build: str, order: Sequence[str]) -> Request:
    """Make a build the baseline, adding it if missing."""
    return _based(request if build in request.builds else with_build(request, build, order), build)


def _based(request: Request, base: str | None) -> Request:
    """Set the baseline; None if it is the first build anyway."""
    return replace(request, base=None if base in request.builds[:1] else base)


def with_config(request: Request, config: str, order: Sequence[str]) -> Request:
    """Toggle a config; the last one cannot be removed."""
    return replace(request, configs=_toggled(request.configs, config, order) or request.configs)


def with_kernel(request: Request, kernel: str, order: Sequence[str]) -> Request:
    """Toggle a kernel; the last one cannot be removed."""
    return replace(request, kernels=_toggled(request.kernels, kernel, order) or request.kernels)


def with_option(request: Request, name: str, value: Any, excludes: Sequence[str] = ()) -> Request:
    """Set an option of the workload, or of the request, and drop those that it excludes; None removes it."""
    if name in {option.name for option in request_options()}:
        entries = {other: value for other, value in request.entries().items() if other != name}
        return request_of(entries if value is None else {**entries, name: value})
    dropped = (name, *(excludes if value is not None else ()))
    kept = {other: value for other, value in request.options.items() if other not in dropped}
    return replace(request, options=kept if value is None else {**kept, name: value})


def with_workload(request: Request, workload: str, preset: str | None = None) -> Request:
    """Choose a workload, or a named plan of it; keeps only the clients, unless that plan is another workload's."""
    clients = request.options.get("clients") if workload == request.workload or preset is None else None
    kept = {"clients": clients} if isinstance(clients, int) else {}
    options = kept | ({"preset": preset} if preset else {})
    return replace(request, workload=workload, options=options)


def repeats_of(request: Request, estimate: Mapping[str, Any] | None) -> int:
    """Cells per build, from the estimate if the plan leaves the number to the engine."""
    if request.repeats is not None or estimate is None or not request.subjects:
        return request.planned_repeats
    return int(estimate["cell_count"]) // request.subjects


def steps_of(request: Request) -> tuple[str, ...]:
    """The chosen steps; empty for all of them."""
    return tuple(request.options.get("steps", ()))


def with_step(request: Request, step: str, all_steps: Sequence[str]) -> Request:
    """Toggle a step; choosing every step equals naming none."""
    left = _toggled(steps_of(request) or all_steps, step, all_steps)
    if not left:
        raise UserError("a run has at least one step")
    return with_option(request, "steps", None if len(left) == len(all_steps) else list(left))


def with_only_step(request: Request, step: str) -> Request:
    """Choose this step alone with its prerequisites, or all steps if it was alone already."""
    return with_option(request, "steps", None if steps_of(request) == (step,) else [step])


def with_probe(request: Request, probe: str, modes: Sequence[str]) -> Request:
    """Switch a probe to its next mode (`""`: all the time), and off after the last."""
    names = [f"{probe}:{mode}" if mode else probe for mode in modes]
    others = tuple(name for name in request.probes if name not in names and name != "none")
    place = next((names.index(name) for name in request.probes if name in names), -1)
    return replace(request, probes=(*others, *names[place + 1 : place + 2]))


def _toggled(chosen: Sequence[str], one: str, order: Sequence[str]) -> tuple[str, ...]:
    wanted = set(chosen) ^ {one}
    return (
        *(name for name in order if name in wanted),
        *(name for name in (*chosen, one) if name in wanted - set(order)),
    )

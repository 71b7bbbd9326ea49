"""Presets in plans: the defaults that a preset gives to a plan, and which of its builds are available here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from engine.builds import catalog, resolve
from engine.builds.label import name_of
from engine.builds.nix import Progress
from engine.core.errors import UserError
from engine.plan import external_servers
from engine.plan.request import Request, request_options
from workloads import workload
from workloads.api.options import Option, checked, given, options_of
from workloads.presets import Preset, preset, presets

SCALE = "quick"  # default


def expanded(entries: Mapping[str, Any]) -> dict[str, Any]:
    """A plan's entries over those of its preset. Raises UnknownName or ValueError, or UserError without any build."""
    name = entries.get("preset")
    if not isinstance(name, str):
        return dict(entries)
    chosen = preset(name)
    _check_workload(chosen, str(entries.get("workload", chosen.workload)))
    scale = entries.get("scale") or SCALE
    if chosen.scales:
        filled = {"scale": scale, **chosen.entries(scale)}
    elif entries.get("scale") is not None:
        raise ValueError("--preset is a complete plan: leave out --scale, --rows and --steps")
    else:
        filled = chosen.entries(scale)
    options_of_workload = options_of(workload(chosen.workload).options)
    options = {option.name: option for option in (*request_options(), *options_of_workload)}
    for given_name, value in entries.items():
        if value is not None and given_name in options:
            for other in _excluded(given_name, options):
                filled.pop(other, None)
    builds = entries.get("builds")
    return {
        **external_servers.allowed(filled, builds or ()),
        **entries,
        **({} if builds else {"builds": list(_here(chosen))}),
    }


def fetched(request: Request, roots: Path, progress: Progress) -> tuple[Request, tuple[str, ...]]:
    """The request without its preset's unavailable builds, and a line about each. Raises UserError if none is left."""
    name = request.options.get("preset")
    if not isinstance(name, str) or request.builds != _here(preset(name)):
        return request, ()
    kept, failed = [], []
    for build in request.builds:
        try:
            resolve.resolve([build], progress, roots)
            kept.append(build)
        except UserError as error:
            failed.append(f"{build} is missing: {error}")
    if not kept:
        raise UserError(
            f"preset {name}: none of its builds is available here: {failed[0]}; name others with --pg LABEL,…"
        )
    return msgspec.structs.replace(request, builds=tuple(kept)), tuple(failed)


def notices(request: Request) -> tuple[str, ...]:
    name = request.options.get("preset")
    if not isinstance(name, str):
        return ()
    chosen, labels = preset(name), [name_of(build) for build in request.builds]
    return tuple(lacking(chosen, labels))


def lacking(of_preset: Preset, labels: Sequence[str]) -> Iterable[str]:
    for build in of_preset.builds:
        plain = [label for label in labels if published_label(label) == build]
        other = next((replacement for replacement in of_preset.instead.get(build, ()) for label in labels
                      if published_label(label) == replacement), None)  # fmt: skip
        if not plain and other:
            yield f"{of_preset.name}: {other} in place of {build}, which is not among the builds"
        elif not plain:
            yield f"{of_preset.name}: {build} is missing"


def published_label(label: str) -> str:
    """The label of a build in publications: 17.0-builtin for `17.0-prebuilt-builtin`."""
    return label.replace(catalog.PREBUILT, "")


def _here(wanted: Preset) -> tuple[str, ...]:
    if wanted.newest:
        return _newest(wanted)
    chosen: dict[str, None] = {}
    for build in wanted.builds:
        label = next(
            (one for candidate in (build, *wanted.instead.get(build, ())) if (one := catalog.available(candidate))),
            None,
        )
        if label is not None:
            chosen[label] = None
    if not chosen and wanted.builds:
        raise UserError(
            f"preset {wanted.name}: none of its builds is available here ({', '.join(wanted.builds)}): name others "
            "with --pg LABEL,… (bench list builds), or put source tarballs into a folder and set BENCH_TARBALLS to it"
        )
    return tuple(chosen)


def _newest(chosen: Preset) -> tuple[str, ...]:
    if chosen.own_build:
        raise UserError(f"preset {chosen.name}: compares an install of yours: --pg LABEL,NAME=/path")
    labels = catalog.newest(chosen.newest)
    if len(labels) < chosen.newest:
        raise UserError(
            f"preset {chosen.name}: there are not {chosen.newest} releases here: name builds with --pg LABEL,…"
        )
    return labels


def _check_workload(chosen: Preset, wanted: str) -> None:
    first = wanted.partition(":")[0]
    if first != chosen.workload:
        raise ValueError(f"--preset {chosen.name} runs workload {chosen.workload}, not {first}: leave one of them out")


def _excluded(name: str, options: Mapping[str, Option]) -> set[str]:
    """The options that one option excludes. Explicit rows may override a preset's size."""
    excluded = {*options[name].excludes, *(option.name for option in options.values() if name in option.excludes)}
    return excluded - {"scale", "rows"}


def rows() -> list[dict[str, Any]]:
    """A row per preset, for `bench list presets` and the Launch screen. Raises ValueError."""
    return [_row(listed) for listed in presets().values()]


def _row(shown: Preset) -> dict[str, Any]:
    entries = shown.entries(SCALE)
    load = workload(shown.workload)
    names = {option.name for option in options_of(load.options)}
    options = {name: value for name, value in entries.items() if name in names}
    named = {} if shown.title else {"preset": shown.name, **({"scale": SCALE} if shown.scales else {})}
    plan = load.plan(checked(load.options, {**options, **named}))
    return {
        "preset": shown.name,
        "workload": shown.workload,
        "question": shown.question,
        **({"generation": plan.record["generation"]} if "generation" in plan.record else {}),
        "steps": [step["name"] for step in plan.record["steps"]],
        "probes": list(shown.probes),
        "publication": shown.publication,
        "date": shown.date,
        "builds": list(shown.builds),
        "instead": {build: list(others) for build, others in shown.instead.items()},
        "configs": list(entries.get("configs", ())),
        "scales": list(shown.scales),
        "published": [table.title for table in shown.published],
        "title": shown.title,
        "time": shown.time,
        "newest": shown.newest,
        "own_build": shown.own_build,
        "place": shown.place,
        "fields": {name: value for name, value in shown.plan.items() if name not in names},
        "options": given(checked(load.options, {n: v for n, v in shown.plan.items() if n in names})),
    }

"""A plan as a TOML file: the entries of a `Request` and of its workload's options; those left out have defaults.

builds = ["14.10", "16.3"]
scale = "cached"
placement = "paired"
repeats = 6

A config is a name or a file below the plan's own folder: a plan may be another user's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from engine.builds import label, typed_release
from engine.builds.label import name_of
from engine.core.errors import UserError, unknown
from engine.core.record import converted, parsed_toml
from engine.guest import command_lines
from engine.journal.manifest import read_manifest
from engine.plan import presets
from engine.plan.request import Request, request_of, request_options
from engine.postgres import configs
from engine.system.files import read_text
from workloads import workload, workloads
from workloads.api.names import UnknownName
from workloads.api.options import checked, given, options_of


def read(path: Path) -> Request:
    """Read a request from a file; a preset in it is not expanded. Raises UserError with the file and the entry."""
    where = f"plan {path}"
    if is_manifest(path):
        raise UserError(f"{where}: a run's manifest; bench run --plan shows it, asks, and runs it again")
    entries = parsed_toml(read_text(path, "plan"), where)
    try:
        request = _checked(entries)
        return msgspec.structs.replace(
            request, configs=tuple(_config(path.parent, config) for config in request.configs)
        )
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def is_manifest(path: Path) -> bool:
    return path.name == "manifest.json"


def of_manifest(path: Path) -> Request:
    """Read the request of a manifest, which may be anybody's and names programs. Raises UserError if it is invalid."""
    where = f"plan {path}"
    try:
        manifest = read_manifest(path.parent)
        connections = manifest.external.connections if manifest.external is not None else {}
        builds = [
            f"{name}={connections[name]}" if (name := name_of(text)) in connections else text
            for text in converted(manifest.request.get("builds", []), list[str], "request: builds")
        ]
        # The length of slices is the one that was run, whatever the default was then.
        length = {"slice_ms": manifest.design.slice_ms} if manifest.design.sliced else {}
        request = _checked({**manifest.request, **length, "builds": builds})
        return msgspec.structs.replace(request, configs=tuple(_config(path.parent, text) for text in request.configs))
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def _config(folder: Path, config: str) -> str:
    if not configs.is_file(config, folder):
        return config
    try:
        inside = (folder / config).resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):  # a link to itself, a null byte
        inside = False
    if not inside:
        raise UserError(f"config {config} is not below the plan's folder: copy it there, or give it as --config")
    return str(folder / config)


def request(entries: Mapping[str, Any]) -> Request:
    """Make a request from entries and their preset, checked against the workload's options. Raises UserError."""
    try:
        return _checked(presets.expanded(entries))
    except (UnknownName, ValueError) as error:
        raise refused(error) from None


def _checked(entries: Mapping[str, Any]) -> Request:
    try:
        request = request_of(entries)
        chosen = workload(request.workload)
        names = {option.name for option in options_of(chosen.options)}
        for name in request.options:
            if name not in names:
                raise _not_its_option(name, request, names)
        # Slices may replace only values that were not given: one that is given stays, even if it is the default.
        also = () if request.interleave == "cells" else request.options
        options = given(checked(chosen.options, request.options), also)
        typed = label.joined(request.builds)
        builds = tuple(map(typed_release.with_minor, typed))
        return msgspec.structs.replace(
            request,
            options=options,
            builds=builds,
            base=dict(zip(typed, builds, strict=True)).get(request.base or "", request.base),
            kernels=command_lines.joined(request.kernels),
        )
    except (UnknownName, ValueError) as error:
        raise refused(error) from None


def _not_its_option(name: str, request: Request, names: set[str]) -> UserError:
    for option in (option for known in workloads() for option in options_of(known.options)):
        if option.name == name:
            return UserError(f"workload {request.workload} has no option {option.flag or name}")
    return unknown("option", name, names | {option.name for option in request_options()})


def refused(error: UnknownName | ValueError) -> UserError:
    if isinstance(error, UnknownName):
        return unknown(error.kind, error.name, error.choices)
    return UserError(str(error))

"""A plan as a TOML file: the entries of a `Request` and of its workload's options; what is left out has its default.

builds = ["14.10", "16.3"]
scale = "cached"
placement = "paired"
repeats = 6

A config is a name or a file below the plan's own folder: a plan may be somebody else's.

Older files, with a table `knobs` and the key `beside`, are read too.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from engine.core.errors import UserError, unknown
from engine.core.record import parsed_toml
from engine.core.text import visible
from engine.host.files import read_text
from engine.plan import presets
from engine.plan.request import Request, request_of
from engine.postgres import configs
from workloads import background_of, workload, workloads
from workloads.names import UnknownName
from workloads.options import checked, given, options_of


def read(path: Path) -> Request:
    """The request that a file holds, a preset in it as it is. Raises UserError, with file and entry, for no plan."""
    where = f"plan {visible(str(path))}"
    entries = parsed_toml(read_text(path, "plan"), where)
    try:
        asked = _checked(entries)
        return msgspec.structs.replace(asked, configs=tuple(_config(path.parent, config) for config in asked.configs))
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def _config(folder: Path, config: str) -> str:
    """A config of a plan in this folder as the command line would have it."""
    if not configs.is_file(config, folder):
        return config
    try:
        inside = (folder / config).resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):  # a link to itself, a null byte
        inside = False
    if not inside:
        raise UserError(
            f"config {visible(config)} is not below the plan's folder: copy it there, or give it as --config"
        )
    return str(folder / config)


def request(entries: Mapping[str, Any]) -> Request:
    """The request of these entries, and of the preset that they name, checked against its workload's options.

    Raises UserError for an unknown name, or a value of another type or out of bounds.
    """
    try:
        return _checked(presets.expanded(entries))
    except (UnknownName, ValueError) as error:
        raise refused(error) from None


def _checked(entries: Mapping[str, Any]) -> Request:
    try:
        asked = request_of(entries)
        chosen = workload(asked.workload)
        known = {option.name for option in options_of(chosen.options)}
        for name in asked.options:
            if name not in known:
                for part in (part for arm in asked.arms for part in background_of(arm)):
                    if name in (option.name for option in options_of(workload(part.name).options)):
                        raise UserError(
                            f"{name} is no option of {asked.workload}, but of {part.name}, which is beside it: give it "
                            f"as --with {name}=VALUE"
                        )
                every = (option for each in workloads() for option in options_of(each.options))
                if flag := next((option.flag for option in every if option.name == name), None):
                    raise UserError(f"workload {asked.workload} has no option {flag}")
                raise unknown("option", name, known | {option.name for option in options_of(Request)})
        # What slices may put in place of an option is seen by whether it was given: then also where it is the default.
        also = () if asked.interleave == "cells" else asked.options
        return msgspec.structs.replace(asked, options=given(checked(chosen.options, asked.options), also))
    except (UnknownName, ValueError) as error:
        raise refused(error) from None


def refused(error: UnknownName | ValueError) -> UserError:
    """An error of options, for the user."""
    if isinstance(error, UnknownName):
        return unknown(error.kind, error.name, error.choices)
    return UserError(visible(str(error)))

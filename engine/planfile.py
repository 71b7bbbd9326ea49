"""A plan as a TOML file: the fields of a `Request`, by their names; what is left out is as usual.

builds = ["14.10", "16.3"]
scale = "cached"
repeats = 6
[knobs]
placement = "paired"
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.errors import UserError, unknown
from engine.prepare import Request, with_knobs
from workloads.insert.knobs import Knobs


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# What a field of each type may be in the file: in words, and how to tell.
KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "tuple[str, ...]": (
        "a list of texts",
        lambda value: isinstance(value, list) and all(isinstance(item, str) and item for item in value),
    ),
    "str": ("text", lambda value: isinstance(value, str)),
    "int": ("a whole number", _is_whole),
    "float": ("a number", lambda value: _is_whole(value) or isinstance(value, float)),
    "bool": ("true or false", lambda value: isinstance(value, bool)),
    "Knobs": ("a table", lambda value: isinstance(value, dict)),
}
FIELDS = {field.name: str(field.type).removesuffix(" | None") for field in dataclasses.fields(Request)}


def read(path: Path) -> dict[str, Any]:
    """The entries of a file. Raises UserError, naming file and entry, for what is no plan."""
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UserError(f"plan {path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UserError(f"plan {path} is no TOML: {error}") from None
    for name, value in found.items():
        if name not in FIELDS:
            raise UserError(f"plan {path}: {unknown('entry', name, FIELDS)}")
        words, holds = KINDS[FIELDS[name]]
        if not holds(value):
            raise UserError(f"plan {path}: {name} must be {words}, not {value!r}")
    try:
        with_knobs(Knobs(), knob_texts(found.get("knobs", {})))
    except UserError as error:
        raise UserError(f"plan {path}: {error}") from None
    return found


def record(request: Request) -> dict[str, Any]:
    """What a file says of a request: its builds, and all that is not as usual."""
    entries: dict[str, Any] = {}
    for field in dataclasses.fields(Request):
        value = getattr(request, field.name)
        if isinstance(value, Knobs):
            value = {name: value for name, value in _plain(value).items() if value != _plain(Knobs())[name]}
            if value:
                entries[field.name] = value
        elif field.default is dataclasses.MISSING or value != field.default:
            entries[field.name] = list(value) if isinstance(value, tuple) else value
    return entries


def knob_texts(knobs: dict[str, Any]) -> tuple[str, ...]:
    """The table of knobs in the form of --knob."""
    return tuple(
        f"{name}={','.join(map(str, value)) if isinstance(value, list) else value}" for name, value in knobs.items()
    )


def _plain(knobs: Knobs) -> dict[str, Any]:
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in dataclasses.asdict(knobs).items()
    }

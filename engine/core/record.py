"""Parsing and validating records, JSON and TOML, with the file and place in errors. Ignores unknown keys."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from engine.core.errors import UserError

T = TypeVar("T")


def parsed(text: str | bytes, where: str) -> Any:
    """Parse JSON. Raises UserError, naming the source (`where`)."""
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:  # DecodeError and UnicodeDecodeError are ValueErrors
        raise UserError(f"{where}: cannot be read: {error}") from None


def parsed_toml(text: str, where: str) -> dict[str, Any]:
    """Parse TOML. Raises UserError with the source (`where`) and the line."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        place = f"{where}:{line.group(1)}" if line else where
        raise UserError(f"{place}: not valid TOML: {error}") from None
    except RecursionError:
        raise UserError(f"{where}: nested too deeply") from None


def grouped(record: dict[str, Any], of: type[T], groups: Mapping[str, type], where: str) -> T:
    """Convert a record that has the entries of `groups`, fields of the type, beside the others. Raises UserError."""
    values: dict[str, Any] = {name: converted(record, group, where) for name, group in groups.items()}
    return converted(record | values, of, where)


def flattened(value: Any, groups: Iterable[str]) -> dict[str, Any]:
    """The JSON form of a value, with the entries of `groups` beside the others."""
    record = msgspec.to_builtins(value)
    return {key: entry for values in (*map(record.pop, groups), record) for key, entry in values.items()}


def converted(value: Any, of: type[T], where: str) -> T:
    """Convert a parsed value to a type. Raises UserError, naming the source (`where`) and the invalid entry."""
    try:
        return msgspec.convert(value, of)
    except (ValueError, RecursionError) as error:  # ValidationError is a ValueError
        raise UserError(f"{where} is invalid: {error}") from None

"""Look-up of a name in a table, with an error that lists the alternatives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


class NotRegistered(Exception):
    """A module of config.toml's workloads cannot be imported, or holds no workload."""


class UnknownName(KeyError):
    """A name in no table: its kind ("step", "generation", "scale"), the name, and the known names."""

    def __init__(self, kind: str, name: str, choices: tuple[str, ...]) -> None:
        super().__init__(f"unknown {kind} '{name}'")
        self.kind = kind
        self.name = name
        self.choices = choices

    def __str__(self) -> str:
        return f"unknown {self.kind} '{self.name}' (known: {', '.join(self.choices)})"


def pick(kind: str, name: str, table: Mapping[str, T]) -> T:
    try:
        return table[name]
    except KeyError:
        raise UnknownName(kind, name, tuple(table)) from None

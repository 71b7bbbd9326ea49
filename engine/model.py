"""Values that every room shares: builds, configs, steps, cells, the plan. Immutable, JSON in and out."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Build:
    """A PostgreSQL server: binaries and how its cluster is initialised.

    `label` is what the user types (`16.3`, `17beta1-builtin`, `16.3-prebuilt`, or a name given to a
    local install). `prefix` is the install folder that holds `bin/postgres`. `digest` names the exact
    binaries: the store path's hash part, or the sha256 of `bin/postgres` for a local install.
    `provenance` is `source`, `prebuilt` or `local`. `initdb_args` are added to every `initdb`.
    """

    label: str
    version: str
    prefix: str
    digest: str
    provenance: str
    compiler: str = "unknown"
    flags: str = "unknown"
    patches: tuple[str, ...] = ()
    initdb_args: tuple[str, ...] = ()

    @property
    def major(self) -> int:
        """The major version: 17 for `17beta1`."""
        match = re.match(r"\d+", self.version)
        if match is None:
            raise ValueError(f"not a PostgreSQL version: {self.version}")
        return int(match.group())

    @property
    def bin(self) -> Path:
        """The folder of `postgres` and `initdb`."""
        return Path(self.prefix) / "bin"

    @classmethod
    def of(cls, record: dict[str, Any]) -> Build:
        """From the JSON form; unknown keys (a newer minor schema) are passed over."""
        known = {f.name for f in dataclasses.fields(cls)}
        values = {key: value for key, value in record.items() if key in known}
        for key in ("patches", "initdb_args"):
            values[key] = tuple(values.get(key, ()))
        return cls(**values)

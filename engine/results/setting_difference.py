"""A setting that differs between the subjects of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Reason = Literal["config", "default", "version", "initdb", "server"]
REASONS: dict[Reason, str] = {  # in the order in which they are shown
    "config": "config",
    "default": "other default",
    "version": "not in all versions",
    "initdb": "initdb's choice",
    "server": "server's choice",
}
UNRECORDED = "default"  # a value of a run that recorded no defaults


@dataclass(frozen=True, slots=True)
class SettingDifference:
    """A setting that two subjects have different values of, by subject; null where a server does not know it.

    `sources` are pg_settings.source. `matters` are the kinds of steps in this comparison for which it is known to
    matter.
    """

    name: str
    reason: Reason
    values: dict[str, str | None]
    sources: dict[str, str]
    matters: tuple[str, ...] = ()

    def text(self, names: Mapping[str, str]) -> str:
        """`64MB (a), 1GB (b, c)`; `names` are those of the subjects, of which several may have one."""
        owners: dict[str | None, dict[str, None]] = {}
        for subject, value in self.values.items():
            owners.setdefault(value, {})[names[subject]] = None
        return ", ".join(f"{value_text(value)} ({', '.join(own)})" for value, own in owners.items())


def value_text(value: str | None) -> str:
    return "unknown" if value is None else value or "''"
